from __future__ import annotations

from kraft.metadata.caught_up_times import CaughtUpTimes


def test_a_follower_that_holds_everything_has_caught_up_now() -> None:
    caught_up = CaughtUpTimes()
    caught_up.observe(2, end=10, leader_end=10, now_ms=1_000)
    caught_up.observe(2, end=12, leader_end=12, now_ms=2_000)
    assert caught_up.times == {2: 2_000}


def test_a_follower_that_holds_what_the_leader_held_before_had_caught_up_as_of_then() -> None:
    caught_up = CaughtUpTimes()
    caught_up.observe(2, end=10, leader_end=15, now_ms=1_000)
    assert caught_up.times == {}
    caught_up.observe(2, end=14, leader_end=20, now_ms=2_000)
    assert caught_up.times == {}
    caught_up.observe(2, end=15, leader_end=25, now_ms=3_000)
    assert caught_up.times == {2: 1_000}
    caught_up.observe(2, end=26, leader_end=30, now_ms=4_000)
    assert caught_up.times == {2: 3_000}


def test_who_is_gone_is_forgotten() -> None:
    caught_up = CaughtUpTimes()
    for node_id in (1, 2):
        caught_up.observe(node_id, end=10, leader_end=10, now_ms=1_000)
    caught_up.keep_only({1})
    assert caught_up.times == {1: 1_000}
    caught_up.forget_all()
    assert caught_up.times == {}
