"""Proposals of an ISR: the maximal ISR (R10), lost or late answers (R11), and followers without room."""

from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.replication.effects import IsrChanged
from tests.unit.replication.leading import (
    LAG_MS,
    REPLICAS,
    accepted,
    advanced_to,
    answer,
    changed,
    fetched,
    ineligible,
    leading,
    partition_state,
    proposals,
    refused,
    write,
)


def test_r10_a_proposed_replica_is_waited_for_from_the_moment_of_the_proposal() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    assert leader.maximal_isr == {1, 2, 3}
    write(leader, 12)

    assert fetched(leader, 2, 12, now_ms=50_000) == []
    assert leader.high_watermark == 10


@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_r10_a_refusal_that_may_follow_a_success_keeps_the_proposal_open(code: ErrorCode) -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    (resent,) = proposals(leader.tick(100))
    assert resent[0] == 2

    refused(leader, 2, code)
    assert leader.maximal_isr == {1, 2, 3}
    assert leader.tick(1_000) == [], "only metadata can tell now"
    changed(leader, (1, 2, 3), 8)
    assert leader.isr == (1, 2, 3)


def test_a_lost_proposal_is_sent_again_after_the_timeout() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)

    assert leader.tick(99) == []
    assert proposals(leader.tick(100)) == [(2, {1: 11, 2: -1, 3: 31})]
    assert leader.tick(101) == []


def test_a_proposal_that_reached_no_controller_is_sent_again_after_a_moment() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    refused(leader, 1, ErrorCode.NOT_CONTROLLER)

    assert leader.tick(19) == []
    assert [attempt for attempt, _ in proposals(leader.tick(20))] == [2]


def test_an_ineligible_replica_is_dropped_and_proposed_again_after_a_moment() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    assert ineligible(leader, 1, (1, 2), 8) == []

    assert leader.maximal_isr == {1, 2}
    assert leader.partition_epoch == 8
    assert proposals(fetched(leader, 3, 10, now_ms=19)) == []
    assert [attempt for attempt, _ in proposals(fetched(leader, 3, 10, now_ms=20))] == [2]


def test_a_refusal_that_the_metadata_shows_first_delays_the_next_attempt() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    changed(leader, (1, 2), 8)

    assert leader.maximal_isr == {1, 2}
    assert proposals(fetched(leader, 3, 10, now_ms=19)) == [], "each attempt costs the controller a record"
    assert ineligible(leader, 1, (1, 2), 8) == []
    assert [attempt for attempt, _ in proposals(fetched(leader, 3, 10, now_ms=20))] == [2]


def test_r10_a_refused_replica_is_waited_for_until_the_partition_epoch_has_passed() -> None:
    """An earlier copy of the proposal may still be applied in this partition epoch."""
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    ineligible(leader, 1, (1, 2), 7)
    write(leader, 12)
    assert fetched(leader, 2, 12, now_ms=15) == []
    assert leader.maximal_isr == {1, 2, 3}
    assert [attempt for attempt, _ in proposals(leader.tick(20))] == [2]

    assert ineligible(leader, 2, (1, 2), 8) == [advanced_to(12)]
    assert leader.maximal_isr == {1, 2}


def test_r11_a_refusal_of_an_earlier_attempt_is_ignored() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    leader.tick(100)

    refused(leader, 1, ErrorCode.INELIGIBLE_REPLICA)
    ineligible(leader, 1, (1, 2), 7)
    assert leader.maximal_isr == {1, 2, 3}


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch"),
    [pytest.param(4, 9, id="of an older leader epoch"), pytest.param(5, 7, id="of an older partition epoch")],
)
def test_r11_a_late_state_is_ignored(leader_epoch: int, partition_epoch: int) -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    changed(leader, (1,), 8)

    effects = leader.alter_partition_answered(1, answer(REPLICAS, partition_epoch, leader_epoch=leader_epoch))
    assert effects == []
    assert (leader.isr, leader.partition_epoch) == ((1,), 8)


def test_r11_a_late_success_of_an_earlier_attempt_leaves_the_later_proposal_open() -> None:
    leader = leading((1, 2, 3))
    fetched(leader, 2, 10, 900)
    assert [attempt for attempt, _ in proposals(leader.tick(1_500))] == [1], "replica 3 lags"
    changed(leader, (1, 2), 8)
    assert [attempt for attempt, _ in proposals(fetched(leader, 3, 10, 1_600))] == [2]

    accepted(leader, 1, (1, 2), 8)
    assert leader.maximal_isr == {1, 2, 3}, "replica 3 may be in the ISR by now"


def test_an_answer_that_changed_nothing_ends_the_proposal() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)

    assert accepted(leader, 1, (1, 2), 7) == []
    assert leader.maximal_isr == {1, 2}


def test_older_metadata_is_ignored() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 10)
    accepted(leader, 1, REPLICAS, 9)

    assert changed(leader, (1, 2), 8) == []
    assert leader.isr == (1, 2, 3)


def test_new_replicas_are_followed_and_removed_ones_forgotten() -> None:
    leader = leading((1, 2))
    fetched(leader, 3, 4)
    leader.partition_changed(partition_state((1, 2), 8, replicas=(1, 2, 4)))

    assert [(state.broker_id, state.durable_end, state.in_isr) for state in leader.followers()] == [
        (2, -1, True),
        (4, -1, False),
    ]


# --- a follower without room -----------------------------------------------------------------------------------


def test_a_follower_that_stores_nothing_is_proposed_out_at_once() -> None:
    leader = leading()
    write(leader, 12)
    fetched(leader, 2, 12, now_ms=900)

    assert proposals(leader.tick(901, without_room=BrokerId(3))) == [(1, {1: 11, 2: 21})]
    assert leader.high_watermark == 10, "until the controller agrees, broker 3 may still be elected"
    # What it says again, and what a broker says that is not in the ISR, changes nothing.
    assert proposals(leader.tick(902, without_room=BrokerId(3))) == []
    assert accepted(leader, 1, (1, 2), 8) == [IsrChanged(), advanced_to(12)]
    assert leader.tick(903, without_room=BrokerId(3)) == []


def test_a_follower_that_stores_nothing_and_lacks_nothing_stays() -> None:
    leader = leading()
    fetched(leader, 3, 10)

    assert proposals(leader.tick(5, without_room=BrokerId(3))) == []


def test_a_follower_that_stores_nothing_is_waited_for_where_the_others_are_too_few() -> None:
    leader = leading((1, 2), min_insync_replicas=2)
    write(leader, 12)

    # Without it, acks=all would be refused, and soon it may have room.
    assert leader.tick(5, without_room=BrokerId(2)) == []
    assert proposals(leader.tick(LAG_MS)) == []
