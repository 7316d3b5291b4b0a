from __future__ import annotations

from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.replication.follower_progress import FollowerProgress


def follower() -> FollowerProgress:
    return FollowerProgress(broker_id=BrokerId(2))


def fetched(progress: FollowerProgress, fetch_offset: int, leader_end: int, now_ms: int, broker_epoch: int = 1) -> None:
    progress.fetched(
        broker_epoch=BrokerEpoch(broker_epoch),
        fetch_offset=Offset(fetch_offset),
        leader_end=Offset(leader_end),
        now_ms=now_ms,
    )


def test_a_fetch_at_the_leaders_end_is_caught_up_now() -> None:
    progress = follower()
    fetched(progress, 10, 10, now_ms=500)

    assert progress.caught_up_ms == 500


def test_a_fetch_at_the_end_of_the_previous_fetch_was_caught_up_then() -> None:
    progress = follower()
    fetched(progress, 5, 10, now_ms=500)
    assert progress.caught_up_ms is None
    fetched(progress, 10, 20, now_ms=600)

    assert progress.caught_up_ms == 500


def test_a_follower_that_falls_further_behind_stays_caught_up_at_the_old_time() -> None:
    progress = follower()
    fetched(progress, 10, 10, now_ms=500)
    fetched(progress, 12, 30, now_ms=600)
    fetched(progress, 20, 60, now_ms=700)

    assert progress.caught_up_ms == 500
    assert progress.is_caught_up(leader_end=Offset(60), now_ms=1_500, lag_time_max_ms=1_000)
    assert not progress.is_caught_up(leader_end=Offset(60), now_ms=1_501, lag_time_max_ms=1_000)


def test_a_follower_without_a_gap_is_caught_up_however_long_ago_it_fetched() -> None:
    progress = follower()
    fetched(progress, 10, 10, now_ms=500)

    assert progress.is_caught_up(leader_end=Offset(10), now_ms=999_999, lag_time_max_ms=1_000)


def test_a_new_registration_does_not_inherit_what_the_earlier_one_had_fetched() -> None:
    progress = follower()
    fetched(progress, 5, 10, now_ms=500, broker_epoch=1)
    fetched(progress, 10, 20, now_ms=600, broker_epoch=2)

    assert progress.caught_up_ms is None
    assert progress.broker_epoch == 2


def test_a_follower_that_left_the_isr_must_catch_up_again() -> None:
    progress = follower()
    fetched(progress, 10, 10, now_ms=500)
    progress.left_isr()

    assert not progress.is_caught_up(leader_end=Offset(11), now_ms=500, lag_time_max_ms=1_000)
