from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.replication.effects import HighWatermarkAdvanced, IsrChanged, LeaderEffect, ProposeIsr
from kraft.replication.leader import PartitionLeader
from tests.unit.replication.leading import (
    LAG_MS,
    accepted,
    advanced_to,
    answer,
    changed,
    fetched,
    ineligible,
    leading,
    partition_state,
    proposals,
    write,
)

# --- the high watermark ----------------------------------------------------------------------------------------


def test_the_high_watermark_is_the_least_synced_end_of_the_isr() -> None:
    leader = leading()

    assert write(leader, 14) == []
    assert fetched(leader, 2, 13) == []
    assert fetched(leader, 3, 12) == [advanced_to(12)]
    assert fetched(leader, 3, 14) == [advanced_to(13)]
    assert fetched(leader, 2, 14) == [advanced_to(14)]
    assert leader.high_watermark == 14


def test_what_the_leader_has_not_synced_is_not_committed() -> None:
    leader = leading()
    leader.appended(Offset(12))
    fetched(leader, 2, 12)
    assert fetched(leader, 3, 12) == []

    assert leader.synced(Offset(11)) == [advanced_to(11)]
    assert leader.synced(Offset(12)) == [advanced_to(12)]


def test_a_new_leader_starts_from_what_it_knew_and_waits_for_its_followers() -> None:
    leader = leading(high_watermark=6)
    assert leader.start() == []
    assert leader.high_watermark == 6

    fetched(leader, 2, 10)
    assert fetched(leader, 3, 10) == [advanced_to(10)]


def test_a_known_high_watermark_beyond_the_log_is_cut_to_it() -> None:
    assert leading(end=10, high_watermark=25).high_watermark == 10


def test_the_only_replica_commits_what_it_has_on_disk_at_once() -> None:
    leader = leading((1,), replicas=(1,), end=10, durable_end=8, high_watermark=3)

    assert leader.start() == [advanced_to(8)]


def test_a_follower_that_goes_back_does_not_take_the_high_watermark_with_it() -> None:
    leader = leading()
    write(leader, 12)
    fetched(leader, 2, 12)
    fetched(leader, 3, 12)

    assert fetched(leader, 3, 4) == []
    assert leader.high_watermark == 12


def test_a_follower_that_begins_its_log_anew_has_nothing_of_what_it_had_before() -> None:
    """The controller begins another leader epoch for such a replica. The leader relies on the latest fetch alone."""
    leader = leading()
    write(leader, 12)
    fetched(leader, 2, 12)
    fetched(leader, 3, 12)
    changed(leader, (1, 2), 8)

    assert fetched(leader, 3, 0) == [], "it does not join the ISR without the records"
    assert leader.followers()[1].durable_end == 0


def test_a_fetch_that_another_has_overtaken_is_put_right_by_the_next_one() -> None:
    """Fetches of one follower may come over two connections while it changes from one to the other."""
    leader = leading()
    write(leader, 12)
    fetched(leader, 2, 12)
    fetched(leader, 3, 12, now_ms=100)

    assert fetched(leader, 3, 10, now_ms=101) == []
    assert leader.high_watermark == 12
    assert leader.tick(100 + LAG_MS) == [], "it stays in the ISR"
    write(leader, 14)
    fetched(leader, 2, 14)
    assert fetched(leader, 3, 14, now_ms=101 + LAG_MS) == [advanced_to(14)]


def test_a_follower_that_keeps_up_is_waited_for_before_it_is_in_the_isr() -> None:
    leader = leading((1, 2))
    write(leader, 12)
    fetched(leader, 3, 8, now_ms=10)
    fetched(leader, 2, 12, now_ms=10)
    assert leader.high_watermark == 12, "broker 3 has never been caught up"

    fetched(leader, 3, 12, now_ms=20)
    ineligible(leader, 1, (1, 2), 8)
    write(leader, 14)
    assert fetched(leader, 2, 14, now_ms=30) == [advanced_to(14)], "nobody may join at present"
    fetched(leader, 3, 13, now_ms=45)
    write(leader, 15)
    assert fetched(leader, 2, 15, now_ms=46) == [advanced_to(15)], "broker 3 has not been caught up again"
    assert fetched(leader, 3, 14, now_ms=47) == [], "it keeps up, and lacks what was committed meanwhile"
    write(leader, 17)
    assert fetched(leader, 2, 17, now_ms=48) == []
    assert [attempt for attempt, _ in proposals(fetched(leader, 3, 16, now_ms=49))] == [2]
    assert leader.high_watermark == 16


def test_a_follower_that_the_controller_removed_is_not_waited_for() -> None:
    leader = leading()
    fetched(leader, 2, 10)
    fetched(leader, 3, 10)
    write(leader, 12)
    fetched(leader, 2, 12)
    assert leader.high_watermark == 10

    effects = changed(leader, (1, 2), 8)
    assert effects == [IsrChanged(), advanced_to(12)]


def test_a_follower_outside_the_isr_that_falls_silent_is_not_waited_for() -> None:
    leader = leading((1, 2), lag_ms=30_000)
    write(leader, 12)
    fetched(leader, 2, 12)
    fetched(leader, 3, 11, now_ms=1)
    write(leader, 13)
    fetched(leader, 2, 13, now_ms=2)
    assert fetched(leader, 3, 12, now_ms=10) == [], "it keeps up, and lacks what is committed"
    write(leader, 14)
    assert fetched(leader, 2, 14, now_ms=20) == [], "broker 3 was heard from a moment ago"

    assert leader.tick(1_011) == [advanced_to(14)]
    assert len(proposals(fetched(leader, 3, 14, now_ms=1_500))) == 1, "it may join when it is heard from again"


def test_a_follower_outside_the_isr_that_gets_no_further_is_not_waited_for() -> None:
    """A broker that comes back soon after it was stopped, with a full disk, fetches the same offset again and again."""
    inactive = {3}
    leader = leading((1, 2), lag_ms=30_000, inactive=inactive)
    fetched(leader, 3, 10, now_ms=100)
    write(leader, 12)
    assert fetched(leader, 2, 12, now_ms=200) == [advanced_to(12)]
    inactive.clear()

    def fetched_by_new_process(offset: int, now_ms: int) -> list[LeaderEffect]:
        return leader.follower_fetched(BrokerId(3), BrokerEpoch(32), Offset(offset), now_ms)

    write(leader, 14)
    fetched_by_new_process(11, 500)
    fetched(leader, 2, 14, now_ms=600)
    for now_ms in range(700, 1_501, 200):
        assert fetched_by_new_process(11, now_ms) == [], "it may still get further"
    assert fetched_by_new_process(11, 1_501) == [advanced_to(14)]

    fetched_by_new_process(13, 1_700)
    write(leader, 16)
    assert fetched(leader, 2, 16, now_ms=1_800) == [], "its disk has room again"
    assert len(proposals(fetched_by_new_process(14, 1_900))) == 1


def test_a_follower_that_may_not_join_is_not_waited_for_when_it_falls_silent() -> None:
    # A broker that stops in order is fenced first and fetches to its very end, caught up; no news follows its death.
    leader = leading((1, 2), lag_ms=30_000)
    fetched(leader, 3, 10)
    ineligible(leader, 1, (1, 2), 8)
    fetched(leader, 3, 10, now_ms=19)
    write(leader, 12)
    assert fetched(leader, 2, 12, now_ms=20) == [advanced_to(12)]
    assert leader.tick(500) == []
    assert len(proposals(fetched(leader, 3, 12, now_ms=501))) == 1, "another life of it may"


def test_a_broker_that_is_fenced_or_shutting_down_is_neither_proposed_nor_waited_for() -> None:
    inactive = {3}
    leader = leading((1, 2), inactive=inactive)
    assert fetched(leader, 3, 10) == []
    write(leader, 12)
    assert fetched(leader, 2, 12, now_ms=1) == [advanced_to(12)]

    inactive.clear()
    assert [attempt for attempt, _ in proposals(fetched(leader, 3, 12, now_ms=2))] == [1]


def test_a_sync_that_is_reported_late_takes_nothing_back() -> None:
    leader = leading((1, 2), replicas=(1, 2))
    write(leader, 12)
    assert leader.synced(Offset(11)) == []
    assert fetched(leader, 2, 12) == [HighWatermarkAdvanced(high_watermark=Offset(12))]


# --- min.insync.replicas (R9) ----------------------------------------------------------------------------------


def test_r9_the_high_watermark_is_frozen_below_the_minimum_isr() -> None:
    leader = leading()
    write(leader, 12)
    effects = changed(leader, (1,), 8)

    assert effects == [IsrChanged()]
    assert leader.below_minimum_isr
    assert leader.synced(Offset(12)) == []
    assert leader.tick(5) == []
    assert leader.high_watermark == 10


def test_acks_all_is_refused_below_the_minimum_isr_and_other_acks_are_not() -> None:
    leader = leading((1,))

    with pytest.raises(Refusal, match=r"min\.insync\.replicas=2") as refusal:
        leader.check_produce(-1)
    assert refusal.value.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.check_produce(1)
    leader.check_produce(0)
    leading((1, 2)).check_produce(-1)


def test_a_minimum_above_the_replication_factor_asks_for_every_replica() -> None:
    leader = leading((1,), replicas=(1,), min_insync_replicas=2)

    leader.check_produce(-1)


def test_a_replica_that_is_added_may_leave_the_isr_below_its_minimum() -> None:
    leader = leading((1,), replicas=(1,), min_insync_replicas=2)
    leader.appended(Offset(12))
    assert leader.acks_result(Offset(12)) is None

    assert leader.partition_changed(partition_state((1,), 8, replicas=(1, 2))) == [IsrChanged()]
    assert leader.acks_result(Offset(12)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_the_result_of_acks_all() -> None:
    leader = leading()
    write(leader, 12)
    assert leader.acks_result(Offset(10)) is ErrorCode.NONE
    assert leader.acks_result(Offset(12)) is None

    changed(leader, (1,), 8)
    assert leader.acks_result(Offset(10)) is ErrorCode.NONE, "what was committed stays so"
    assert leader.acks_result(Offset(12)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_lowered_minimum_lets_the_high_watermark_advance() -> None:
    leader = leading((1,))
    write(leader, 12)

    assert leader.min_insync_changed(2) == []
    assert leader.min_insync_changed(1) == [IsrChanged(), advanced_to(12)]
    assert not leader.below_minimum_isr


# --- joining (R6) ----------------------------------------------------------------------------------------------


def test_a_follower_at_the_high_watermark_is_proposed_with_its_registration() -> None:
    leader = leading((1, 2))
    fetched(leader, 2, 10)

    (proposal,) = [effect for effect in fetched(leader, 3, 10) if isinstance(effect, ProposeIsr)]
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 7)
    assert proposals([proposal]) == [(1, {1: 11, 2: 21, 3: 31})]


def test_an_in_sync_replica_that_has_not_fetched_yet_is_proposed_with_an_unknown_registration() -> None:
    assert proposals(fetched(leading((1, 2)), 3, 10)) == [(1, {1: 11, 2: -1, 3: 31})]


def test_a_follower_below_the_high_watermark_is_not_proposed() -> None:
    assert fetched(leading((1, 2)), 3, 9) == []


def test_r6_a_follower_below_the_start_of_the_leader_epoch_is_not_proposed() -> None:
    leader = leading((1, 2), end=10, high_watermark=4)

    assert fetched(leader, 3, 9) == []
    assert proposals(fetched(leader, 3, 10)) == [(1, {1: 11, 2: -1, 3: 31})]


def test_a_replica_that_may_be_in_the_isr_may_have_an_empty_log_where_the_epoch_began() -> None:
    leader = leading((1, 2), end=10)
    assert [leader.empty_start_max(BrokerId(broker)) for broker in (2, 3)] == [10, 0]
    fetched(leader, 3, 10)
    assert leader.empty_start_max(BrokerId(3)) == 10, "its proposal may be accepted by now"
    leader.partition_changed(partition_state((1, 2), 8))
    assert leader.empty_start_max(BrokerId(3)) == 0
    leader.partition_changed(partition_state((1,), 9, elr=(2,)))
    write(leader, 12)
    assert [leader.empty_start_max(BrokerId(broker)) for broker in (2, 3)] == [10, 0]


def test_only_one_proposal_is_in_flight() -> None:
    leader = leading((1,))
    assert len(proposals(fetched(leader, 2, 10))) == 1
    assert proposals(fetched(leader, 3, 10)) == []

    accepted(leader, 1, (1, 2), 8)
    assert leader.isr == (1, 2)
    assert proposals(fetched(leader, 3, 10)) == [(2, {1: 11, 2: 21, 3: 31})]


@pytest.mark.parametrize(
    ("broker", "broker_epoch", "offset", "code"),
    [
        pytest.param(4, 41, 10, ErrorCode.UNKNOWN_LEADER_EPOCH, id="not a replica"),
        pytest.param(2, 20, 10, ErrorCode.STALE_BROKER_EPOCH, id="of an earlier life"),
        pytest.param(2, 21, 11, ErrorCode.OFFSET_OUT_OF_RANGE, id="past the log end"),
    ],
)
def test_a_fetch_is_refused(broker: int, broker_epoch: int, offset: int, code: ErrorCode) -> None:
    leader = leading()
    fetched(leader, 2, 5)

    with pytest.raises(Refusal) as refusal:
        leader.follower_fetched(BrokerId(broker), BrokerEpoch(broker_epoch), Offset(offset), 0)
    assert refusal.value.error_code is code
    assert [state.durable_end for state in leader.followers()] == [5, -1]


# --- leaving ---------------------------------------------------------------------------------------------------


def test_a_follower_that_lags_for_too_long_is_proposed_out() -> None:
    leader = leading()
    write(leader, 12)
    fetched(leader, 2, 12, now_ms=900)

    assert leader.tick(LAG_MS) == []
    effects = leader.tick(LAG_MS + 1)
    assert proposals(effects) == [(1, {1: 11, 2: 21})]
    assert leader.high_watermark == 10, "until the controller agrees, broker 3 may still be elected"
    assert accepted(leader, 1, (1, 2), 8) == [
        IsrChanged(),
        advanced_to(12),
    ]


def test_an_idle_partition_keeps_its_isr() -> None:
    leader = leading()
    fetched(leader, 2, 10)
    fetched(leader, 3, 10)

    assert leader.tick(100 * LAG_MS) == []


def test_a_replica_that_joins_has_a_full_lag_time() -> None:
    leader = leading((1, 2))
    write(leader, 20)
    fetched(leader, 2, 20, now_ms=5_000)
    fetched(leader, 3, 20, now_ms=5_000)
    accepted(leader, 1, (1, 2, 3), 8)
    write(leader, 21)
    fetched(leader, 2, 21, now_ms=5_900)

    assert proposals(leader.tick(5_900)) == []
    assert proposals(leader.tick(6_001)) == [(2, {1: 11, 2: 21})]


# --- the low watermark -----------------------------------------------------------------------------------------


def fetched_with_start(leader: PartitionLeader, broker: int, log_start: int) -> None:
    leader.follower_fetched(BrokerId(broker), BrokerEpoch(broker * 10 + 1), Offset(10), 0, Offset(log_start))


def test_the_low_watermark_is_the_least_log_start_of_the_isr() -> None:
    leader = leading()
    leader.log_start_advanced(Offset(8))
    assert leader.low_watermark == -1
    fetched_with_start(leader, 2, 9)
    assert leader.low_watermark == -1
    fetched_with_start(leader, 3, 6)
    assert leader.low_watermark == 6
    fetched_with_start(leader, 3, 9)
    assert leader.low_watermark == 8


def test_the_low_watermark_does_not_wait_for_replicas_that_left_the_isr() -> None:
    leader = leading()
    leader.log_start_advanced(Offset(8))
    fetched_with_start(leader, 2, 8)
    changed(leader, (1, 2), 8)
    assert leader.low_watermark == 8


def test_the_low_watermark_waits_for_a_replica_that_may_be_in_the_isr_by_now() -> None:
    leader = leading((1, 2))
    leader.log_start_advanced(Offset(8))
    fetched_with_start(leader, 2, 8)
    assert leader.low_watermark == 8
    fetched_with_start(leader, 3, 5)
    assert leader.maximal_isr == {1, 2, 3}
    assert leader.low_watermark == 5


# --- eligible replicas outside the ISR -------------------------------------------------------------------------


def test_nothing_is_committed_while_there_are_eligible_leader_replicas() -> None:
    leader = leading(isr=(1, 2), min_insync_replicas=1)
    write(leader, 14)
    fetched(leader, 2, 12)
    assert leader.high_watermark == 12
    effects = leader.partition_changed(partition_state((1,), 8, elr=(2,)))
    assert effects == [IsrChanged()]
    assert (write(leader, 15), leader.high_watermark) == ([], 12)
    with pytest.raises(Refusal, match="fewer than the controller's minimum"):
        leader.check_produce(-1)
    assert leader.acks_result(Offset(14)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # Nothing but that changes, and the leader goes on.
    effects = leader.partition_changed(partition_state((1,), 9))
    assert effects[0] == IsrChanged()
    leader.tick(5_000)
    assert leader.high_watermark == 15


def test_an_answer_to_a_proposal_has_the_eligible_leader_replicas() -> None:
    leader = leading(isr=(1, 2), min_insync_replicas=1)
    write(leader, 14)
    fetched(leader, 2, 12)
    ((attempt, _),) = proposals(leader.tick(20_000))
    leader.alter_partition_answered(attempt, answer((1,), 8, elr=(2,)))
    leader.tick(30_000)
    assert (leader.isr, leader.high_watermark) == ((1,), 12)


# --- replicas that lag ---------------------------------------------------------------------------------------


def test_a_follower_lags_once_it_has_lacked_records_for_long_enough() -> None:
    leader = leading()
    for broker in (2, 3):
        fetched(leader, broker, 10, now_ms=100)
    assert leader.lagging(5_000, 500) == [], "nothing is lacking"
    write(leader, 12)
    fetched(leader, 2, 12, now_ms=600)
    assert leader.lagging(600, 500) == []
    assert [(each.broker_id, each.behind_since_ms) for each in leader.lagging(601, 500)] == [(3, 100)]
    fetched(leader, 3, 12, now_ms=700)
    assert leader.lagging(9_000, 500) == []


def test_a_follower_outside_the_isr_lags_since_it_was_caught_up_for_the_last_time() -> None:
    leader = leading()
    fetched(leader, 2, 10, now_ms=100)
    fetched(leader, 3, 10, now_ms=300)
    changed(leader, (1, 2), 8)
    assert [(each.broker_id, each.behind_since_ms) for each in leader.lagging(5_000, 500)] == [(3, 300)]


def test_a_produce_awaits_the_in_sync_followers_that_lack_its_records() -> None:
    leader = leading()
    write(leader, 12)
    assert [each.broker_id for each in leader.awaited(Offset(12))] == [2, 3]
    fetched(leader, 2, 12)
    assert [each.broker_id for each in leader.awaited(Offset(12))] == [3]
    fetched(leader, 3, 12)
    assert leader.awaited(Offset(12)) == []


def test_below_the_minimum_isr_a_produce_awaits_the_followers_outside_it() -> None:
    leader = leading()
    changed(leader, (1,), 8)
    write(leader, 12)
    assert [each.broker_id for each in leader.awaited(Offset(12))] == [2, 3]
