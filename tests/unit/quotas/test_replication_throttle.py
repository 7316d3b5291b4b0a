from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.quotas.rate import THROTTLE_MS_MAX
from kraft.quotas.replication_throttle import UNLIMITED, ReplicationThrottle


def test_without_a_rate_nothing_waits_and_nothing_is_counted() -> None:
    throttle = ReplicationThrottle(UNLIMITED, 0)
    throttle.take(1 << 60, 0)
    assert (throttle.is_set, throttle.wait_ms(0)) == (False, 0)
    throttle.set_rate(100, 0)
    assert (throttle.is_set, throttle.wait_ms(0)) == (True, 0), "what passed before there was a rate"


def test_a_batch_above_the_rate_passes_and_what_is_next_waits_for_it() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.take(1_000, 0)
    assert throttle.wait_ms(0) == 9_000
    assert throttle.wait_ms(8_999) == 1
    assert throttle.wait_ms(9_000) == 0


def test_a_rest_saves_up_no_more_than_a_second() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.take(100, 3_600_000)
    assert throttle.wait_ms(3_600_000) == 0
    throttle.take(1, 3_600_000)
    assert throttle.wait_ms(3_600_000) == 10


def test_another_rate_is_that_of_what_waits_too() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.take(1_100, 0)
    assert throttle.wait_ms(0) == 10_000
    throttle.set_rate(1_000, 0)
    assert throttle.wait_ms(0) == 1_000
    throttle.set_rate(10, 500)
    assert throttle.wait_ms(500) == 50_000
    throttle.set_rate(UNLIMITED, 500)
    assert throttle.wait_ms(500) == 0


def test_at_a_rate_of_0_nothing_passes_until_there_is_another() -> None:
    throttle = ReplicationThrottle(0, 0)
    assert throttle.wait_ms(3_600_000) == THROTTLE_MS_MAX
    throttle.set_rate(100, 3_600_000)
    assert throttle.wait_ms(3_600_000) == 0


def test_the_time_before_a_change_counts_at_the_rate_that_it_had() -> None:
    throttle = ReplicationThrottle(0, 0)
    throttle.set_rate(100, 3_600_000)
    throttle.take(50, 3_600_000)
    assert throttle.wait_ms(3_600_000) == 500, "no burst was saved up at a rate of 0"
    throttle.set_rate(1_000_000, 3_600_400)
    throttle.set_rate(100, 3_600_400)
    assert throttle.wait_ms(3_600_400) == 100


def test_the_same_rate_again_gives_no_new_budget() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.take(200, 0)
    throttle.set_rate(100, 0)
    assert throttle.wait_ms(0) == 1_000


@given(sizes=st.lists(st.integers(1, 500), min_size=50, max_size=200))
def test_what_passes_as_soon_as_it_may_holds_the_rate(sizes: list[int]) -> None:
    throttle, now_ms, passed = ReplicationThrottle(100, 0), 0, 0
    for size in sizes:
        now_ms += throttle.wait_ms(now_ms)
        throttle.take(size, now_ms)
        passed += size
        assert passed <= 100 * (1 + now_ms / 1_000) + 500 + len(sizes) * 0.1, "above the rate"
    # The last one passed no later than the rate of what was before it demands, and the rounding of each wait.
    assert now_ms <= (passed - sizes[-1]) * 10 + len(sizes)


def test_a_rate_after_none_begins_with_its_burst() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.take(100_000, 0)
    throttle.set_rate(UNLIMITED, 0)
    throttle.set_rate(100, 1_000)
    assert throttle.wait_ms(1_000) == 0
    throttle.take(101, 1_000)
    assert throttle.wait_ms(1_000) == 10
