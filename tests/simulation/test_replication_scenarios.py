"""Known ways in which replicated logs have lost or forked data, each as a scenario."""

from __future__ import annotations

import pytest

from kraft.model.alter_partition import AlterPartitionResult
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from tests.simulation.replication_machines import (
    LAG_TIME_MAX_MS,
    AlterReply,
    FetchRequest,
    Variant,
    Violation,
)
from tests.simulation.replication_model import AlterAnswer, Record
from tests.simulation.replication_runs import heal
from tests.simulation.replication_world import World
from tests.simulation.weakened_machines import (
    ForgetsRefusedReplicas,
    JoinsWithoutEpochStart,
    WaitsForTheCommittedIsrOnly,
)

A, B, C = BrokerId(1), BrokerId(2), BrokerId(3)


def records(world: World, broker: BrokerId) -> list[Record]:
    return world.replicas[broker].log.records


def copy(world: World, *followers: BrokerId) -> None:
    """Let each follower fetch, get its response and sync; a diverging log is truncated."""
    for follower in followers:
        world.fetch(follower)
        request = world.network.pop()
        world.deliver(request)
        world.deliver(world.network.pop())
        world.sync(follower)


def commit(world: World, leader: BrokerId, *followers: BrokerId) -> None:
    """Produce a record that all of these have on disk, and that the leader has committed."""
    assert world.produce(leader) is not None
    world.sync(leader)
    copy(world, *followers)
    copy(world, *followers)


def news(world: World, *brokers: BrokerId) -> None:
    for broker in brokers:
        world.read_metadata(broker)


def decide(world: World, broker: BrokerId) -> None:
    """Let the controller decide the broker's proposal, and deliver the answer."""
    world.reach_controller(broker)
    world.deliver(world.network.pop())


def alone_in_isr(world: World, leader: BrokerId, *gone: BrokerId) -> None:
    for broker in gone:
        world.controller.fence(broker)
    news(world, leader)


def know_less_than_the_leader(world: World) -> None:
    """Commit two records; only the leader A knows that the second one is committed."""
    commit(world, A, B, C)
    world.produce(A)
    world.sync(A)
    copy(world, B, C)
    for follower in (B, C):
        world.fetch(follower)
        world.deliver(world.network.pop())
        world.network.clear()
        world.checkpoint(follower)
        assert world.replicas[follower].checkpointed_high_watermark == 1
    assert len(world.exposed) == 2


def test_r1_a_follower_that_restarts_with_a_lagging_high_watermark_and_then_leads_loses_nothing() -> None:
    world = World(min_insync_replicas=1)
    know_less_than_the_leader(world)

    world.crash(B)
    world.restart(B)
    news(world, A)
    assert len(records(world, B)) == 2, "it has no reason to drop a record before the leader names one"
    copy(world, B)
    decide(world, A)
    for lost in (A, C):
        world.crash(lost)
        world.controller.fence(lost)
    news(world, B)

    assert world.replicas[B].leader is not None
    assert world.exposed == records(world, B)
    heal(world)


def test_r1_would_be_seen_if_followers_truncated_to_their_high_watermark() -> None:
    world = World(Variant(truncates_to_high_watermark=True), min_insync_replicas=1)
    know_less_than_the_leader(world)
    world.controller.elect(B)

    with pytest.raises(Violation, match="I4"):
        news(world, C)


def test_r2_two_replicas_that_crash_and_return_in_the_other_order_do_not_fork() -> None:
    world = World(min_insync_replicas=1)
    commit(world, A, B, C)
    alone_in_isr(world, A, C)
    assert world.produce(A) is not None
    # A has the second record on disk, B has not; both lose power, and B is back first.
    world.sync(A)
    world.crash(A)
    world.crash(B)
    world.controller.fence(A)
    world.restart(B)
    assert world.replicas[B].leader is not None
    assert world.produce(B) is not None
    world.sync(B)
    assert records(world, A)[1] != records(world, B)[1]

    world.restart(A)
    copy(world, A)
    copy(world, A)

    assert records(world, A) == records(world, B)
    heal(world)


def test_r3_a_leader_that_is_asked_for_an_epoch_it_never_saw_answers_with_the_one_before() -> None:
    world = World(min_insync_replicas=1)
    commit(world, A, B, C)
    # B leads epoch 2 for a moment and writes two records that nobody copies.
    world.controller.elect(B)
    news(world, B)
    world.produce(B)
    world.produce(B)
    world.sync(B)
    # A leads epoch 3 without having heard of epoch 2's records, and writes its own.
    world.controller.elect(A)
    news(world, A, C)
    world.produce(A)
    world.sync(A)
    copy(world, C)
    assert [epoch for epoch, _ in records(world, B)] == [1, 2, 2]
    assert [epoch for epoch, _ in records(world, C)] == [1, 3]

    news(world, B)
    copy(world, B)
    copy(world, B)

    assert records(world, B) == records(world, A)
    heal(world)


def test_r4_a_stale_leader_is_not_fetched_from_and_a_stale_follower_gets_nothing() -> None:
    world = World()
    commit(world, A, B, C)
    world.controller.elect(B)
    news(world, B)

    # C still follows A in epoch 1, and B, in epoch 2, still hears from A as from a follower of epoch 1.
    news(world, A)
    world.fetch(C)
    request = world.network.pop()
    assert isinstance(request, FetchRequest)
    world.deliver(request)
    answer = world.network.pop()
    assert answer.result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]  # an answer
    world.deliver(FetchRequest(C, request.life, request.broker_epoch, B, request.position))
    fenced = world.network.pop()
    assert fenced.result.error_code is ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[union-attr]  # an answer
    world.deliver(fenced)
    world.fetch(C)
    assert not world.network, "a fenced follower asks nobody until it has read newer metadata"
    heal(world)


def lead_with_a_lagging_high_watermark(world: World) -> None:
    """A committed three records with B and fell; B leads and knows of one; C, out of the ISR, has that one."""
    alone_in_isr(world, A, C)
    commit(world, A, B)
    copy(world, C)
    world.produce(A)
    world.produce(A)
    world.sync(A)
    copy(world, B)
    world.fetch(B)
    world.deliver(world.network.pop())
    world.network.clear()
    world.crash(A)
    world.controller.fence(A)
    world.controller.unfence(C)
    news(world, B, C)
    leader = world.replicas[B].leader
    assert leader is not None
    assert (len(world.exposed), leader.high_watermark, len(records(world, C))) == (3, 1, 1)


def test_r6_a_follower_joins_the_isr_only_at_or_past_the_start_of_the_leader_epoch() -> None:
    world = World(min_insync_replicas=2)
    lead_with_a_lagging_high_watermark(world)

    copy(world, C)
    assert world.alter_requests[B] == [], "C is at the high watermark, but not where the epoch began"
    copy(world, C)
    decide(world, B)

    assert world.controller.state.isr == (B, C)
    assert records(world, C) == world.exposed
    heal(world)


def test_r6_would_be_seen_if_the_high_watermark_were_enough() -> None:
    world = World(Variant(leader=JoinsWithoutEpochStart), min_insync_replicas=2)
    lead_with_a_lagging_high_watermark(world)
    world.fetch(C)
    world.deliver(world.network.pop())

    with pytest.raises(Violation, match="I4"):
        world.reach_controller(B)


def test_r9_below_the_minimum_isr_nothing_is_committed() -> None:
    world = World(min_insync_replicas=2)
    commit(world, A, B, C)
    assert world.produce(A) is not None
    alone_in_isr(world, A, B, C)
    world.sync(A)

    leader = world.replicas[A].leader
    assert leader is not None
    assert (leader.isr, leader.high_watermark, len(world.exposed)) == ((A,), 1, 1)
    assert world.produce(A) is None, "and nothing more is accepted with acks=all"
    heal(world)
    assert len(world.exposed) == 2


def test_r10_a_lost_answer_does_not_let_the_leader_commit_without_the_replica_that_joined() -> None:
    world = World(min_insync_replicas=1)
    alone_in_isr(world, A, B, C)
    world.controller.unfence(C)
    copy(world, C)
    world.reach_controller(A, answer_arrives=False)
    assert world.controller.state.isr == (A, C)

    # The leader knows nothing of it, C falls silent, and long after its lag time a record is on the leader's disk.
    world.now_ms += 10 * LAG_TIME_MAX_MS
    world.produce(A)
    world.sync(A)
    world.tick(A)
    assert world.exposed == []

    # The repeated proposal is refused, because the first one was applied. That is no reason to wait for C no more.
    world.reach_controller(A)
    refusal = world.network.pop()
    assert isinstance(refusal, AlterReply)
    assert refusal.answer.result.error_code is ErrorCode.INVALID_UPDATE_VERSION
    world.deliver(refusal)
    world.tick(A)
    assert world.exposed == []
    heal(world)


def test_r10_would_be_seen_if_the_leader_waited_for_the_committed_isr_only() -> None:
    world = World(Variant(leader=WaitsForTheCommittedIsrOnly), min_insync_replicas=1)
    alone_in_isr(world, A, B, C)
    world.controller.unfence(C)
    copy(world, C)
    world.reach_controller(A, answer_arrives=False)
    world.produce(A)

    with pytest.raises(Violation, match="I4"):
        world.sync(A)


def refused_while_a_copy_waits(world: World) -> None:
    """A is alone in the ISR and proposes C. One copy lies in the connection of a controller that is paused; the next
    one is refused, because C is fenced for a moment. Then C is back, lacks a record, and the copy is decided."""
    alone_in_isr(world, A, B, C)
    world.controller.unfence(C)
    copy(world, C)
    (waiting,) = world.late_attempts
    world.now_ms += 101
    world.tick(A)
    world.controller.fence(C)
    decide(world, A)
    world.controller.unfence(C)
    assert world.produce(A) is not None
    world.sync(A)
    world.reach_controller_late(waiting)


def test_r10_a_copy_of_a_proposal_that_was_refused_changes_nothing_when_it_comes_late() -> None:
    world = World(min_insync_replicas=1)
    refused_while_a_copy_waits(world)
    assert world.controller.state.isr == (A,)
    assert len(world.exposed) == 1, "C is not waited for"
    heal(world)


def test_r10_would_be_seen_if_a_refused_replica_were_forgotten_within_the_partition_epoch() -> None:
    world = World(Variant(leader=ForgetsRefusedReplicas, refusals_begin_epochs=False), min_insync_replicas=1)
    with pytest.raises(Violation, match="I4: in-sync 3"):
        refused_while_a_copy_waits(world)


def test_r11_a_late_answer_of_an_older_epoch_is_ignored() -> None:
    world = World(min_insync_replicas=1)
    alone_in_isr(world, A, B, C)
    world.controller.unfence(B)
    copy(world, B)
    world.reach_controller(A)
    late = world.network.pop()
    assert isinstance(late, AlterReply)
    leader = world.replicas[A].leader
    assert leader is not None

    # The metadata was quicker than the answer, and by now B is out again.
    world.controller.fence(B)
    news(world, A)
    assert leader.isr == (A,)
    world.deliver(late)
    assert leader.isr == (A,)

    # Nor does a late refusal end a proposal that it was not for.
    world.controller.unfence(C)
    copy(world, C)
    assert leader.maximal_isr == {A, C}
    world.deliver(
        AlterReply(
            A,
            late.life,
            AlterAnswer(late.answer.attempt, AlterPartitionResult(error_code=ErrorCode.INELIGIBLE_REPLICA)),
        )
    )
    assert leader.maximal_isr == {A, C}
    heal(world)
