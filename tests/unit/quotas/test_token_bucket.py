from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.quotas.token_bucket import TokenBucket


def test_a_full_bucket_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(2.0, 11, 0)
    bucket.take(22, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 0
    bucket.take(10, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 5_000
    assert bucket.throttle_ms(2.0, 4_999) == 1
    assert bucket.throttle_ms(2.0, 5_000) == 0


def test_it_holds_no_more_than_the_burst() -> None:
    bucket = TokenBucket(2.0, 11, 0)
    bucket.take(-50, 2.0, 0)
    bucket.take(24, 2.0, 1_000_000)
    assert bucket.throttle_ms(2.0, 1_000_000) == 1_000
    # A lower limit: what is left above its burst is lost, what is owed stays.
    bucket.take(0, 1.0, 1_001_000)
    assert bucket.throttle_ms(1.0, 1_001_000) == 1_000


@given(sizes=st.lists(st.integers(1, 300), min_size=100, max_size=300), pauses=st.lists(st.integers(0, 3_000)))
def test_a_client_that_waits_as_told_stays_within_its_quota(sizes: list[int], pauses: list[int]) -> None:
    bucket, now_ms, used = TokenBucket(100.0, 10, 0), 0, 0
    for number, size in enumerate(sizes):
        used += size
        bucket.take(size, 100.0, now_ms)
        now_ms += bucket.throttle_ms(100.0, now_ms)
        now_ms += pauses[number] if number < len(pauses) else 0
    # The burst, and the request that went beyond it.
    assert used <= 100 * (now_ms / 1_000 + 10) + 300


def test_after_the_burst_a_client_has_its_quota_in_any_second() -> None:
    bucket, now_ms = TokenBucket(100.0, 10, 0), 0
    seconds = [0] * 40
    while now_ms < 40_000:
        seconds[now_ms // 1_000] += 20
        bucket.take(20, 100.0, now_ms)
        now_ms += max(1, bucket.throttle_ms(100.0, now_ms))
    assert seconds[0] >= 1_000
    assert all(80 <= used <= 120 for used in seconds[1:])
