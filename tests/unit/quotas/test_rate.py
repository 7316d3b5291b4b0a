from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.quotas.rate import THROTTLE_MS_MAX, Rate, Windows

LIMIT = 100.0


def test_the_quota_of_ten_seconds_passes_at_once() -> None:
    rate = Rate(Windows())
    rate.count(1_000, 0)
    assert rate.throttle_ms(LIMIT, 0) == 0
    rate.count(100, 0)
    assert rate.throttle_ms(LIMIT, 0) == 1_000


def test_the_wait_is_kafkas() -> None:
    # Kafka: (rate - limit) / limit * window, where the missing windows of eleven count as empty ones.
    rate = Rate(Windows())
    rate.count(1_500, 0)
    assert rate.throttle_ms(LIMIT, 500) == 4_500
    # A second later a window is complete: there are nine more.
    assert rate.throttle_ms(LIMIT, 1_000) == 5_000
    assert rate.throttle_ms(LIMIT, 1_500) == 4_500


def test_a_window_counts_as_long_as_it_reaches_into_the_last_eleven_seconds() -> None:
    rate = Rate(Windows())
    rate.count(600, 0)
    rate.count(600, 900)
    assert rate.throttle_ms(LIMIT, 11_899) == 101
    assert rate.throttle_ms(LIMIT, 11_900) == 0
    rate.count(1_000, 11_900)
    assert rate.throttle_ms(LIMIT, 11_900) == 0


def test_windows_may_be_fewer_and_longer() -> None:
    rate = Rate(Windows(3, 5_000))
    rate.count(1_000, 0)
    assert rate.throttle_ms(LIMIT, 0) == 0
    rate.count(100, 0)
    # Two windows of five seconds, and the present one, which is new.
    assert rate.throttle_ms(LIMIT, 0) == 1_000
    rate.count(1_000, 4_000)
    assert rate.throttle_ms(LIMIT, 14_000) == 7_000
    assert rate.throttle_ms(LIMIT, 19_000) == 0
    single = Rate(Windows(1, 1_000))
    single.count(LIMIT, 0)
    assert single.throttle_ms(LIMIT, 0) == 999
    assert single.throttle_ms(LIMIT, 500) == 500


def test_even_the_smallest_excess_waits() -> None:
    rate = Rate(Windows())
    rate.count(1_000.01, 0)
    assert rate.throttle_ms(LIMIT, 0) == 1
    rate.count(1e18, 0)
    assert rate.throttle_ms(1e-3, 0) == THROTTLE_MS_MAX


@given(sizes=st.lists(st.integers(1, 300), min_size=50, max_size=300), pauses=st.lists(st.integers(0, 3_000)))
def test_a_client_that_waits_as_told_stays_within_its_quota(sizes: list[int], pauses: list[int]) -> None:
    rate, now_ms, used = Rate(Windows()), 0, 0
    for number, size in enumerate(sizes):
        used += size
        rate.count(size, now_ms)
        now_ms += rate.throttle_ms(LIMIT, now_ms)
        now_ms += pauses[number] if number < len(pauses) else 0
    # The quota of the first ten seconds, and the request that went beyond it.
    assert used <= LIMIT * (now_ms / 1_000 + 10) * 1.1 + 300
