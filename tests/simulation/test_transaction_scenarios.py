"""Known ways in which transactions have hung, were torn or ended by the wrong request, each as a scenario."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch
from kraft.model.errors import ErrorCode
from tests.simulation import exactly_once_weakened as weakened
from tests.simulation import transactions_weakened
from tests.simulation.exactly_once_history import Input, Invariant, Output, Violation
from tests.simulation.exactly_once_network import Message
from tests.simulation.exactly_once_producers import Producer
from tests.simulation.exactly_once_runs import become_stable, step_all
from tests.simulation.exactly_once_weakened import Guard
from tests.simulation.exactly_once_workers import TOPIC, Worker
from tests.simulation.exactly_once_world import PRODUCER_EXPIRATION_MS, World
from tests.support import offset_commands

OLD = 0
NEW = EPOCH_BUMP
STEPS_MAX = 100


def world_without_faults() -> World:
    return world_at(EPOCH_BUMP)


def world_at(level: int) -> World:
    """Return a world without faults with this level of `transaction.version`."""
    world = World(Random(1), level=level)
    world.network.has_faults = False
    return world


# --- producers without a group ---------------------------------------------------------------------------------------


def producer(world: World, version: int, transactional_id: str = "copy") -> Producer:
    new = Producer(world.random, world.brokers, f"{id(world)}", transactional_id, version, lambda is_commit: None)
    until(world, new, lambda: new.is_ready)
    return new


def until(world: World, of: Producer, is_reached: Callable[[], bool], *, markers: bool = True) -> None:
    """Let the producer and the brokers go on until something is so."""
    for _ in range(STEPS_MAX):
        if is_reached():
            return
        of.step()
        settle(world, markers=markers)
    raise Violation(Invariant.GOES_ON, f"{of.machine.state} after {STEPS_MAX} steps, refused {of.refusals}")


def settle(world: World, *, markers: bool = True) -> None:
    """Deliver what is under way, and what follows from it."""
    for _ in range(6):
        if markers:
            world.brokers.send_markers(lambda: False)
        world.network.deliver_all()
        world.work()


def begin(world: World, of: Producer, *places: int, with_offsets: bool = False) -> int:
    """Begin a transaction that writes a record to each partition."""
    number = world.history.begin(bumps=of.bumps)
    outputs = {place: [Output(number, Input("copiers", place, number))] for place in places}

    def offsets(number: int, identity: ProducerIdAndEpoch) -> CommitTransactionOffsets:
        return offset_commands.in_transaction(
            "copiers",
            TOPIC,
            offset_commands.offset_in_transaction(0, 0, str(number)),
            transactional_id=of.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )

    of.begin(outputs, offsets if with_offsets else None, lambda: world.groups.leader, number)
    return number


def commit(world: World, of: Producer, *places: int) -> int:
    """Commit a transaction that writes a record to each partition."""
    number = begin(world, of, *places)
    finish(world, of)
    fate = world.history.fates[number]
    if not fate.acknowledged_commit:
        raise Violation(Invariant.GOES_ON, f"{number} is not committed: {of.refusals}")
    return number


def finish(world: World, of: Producer) -> None:
    until(world, of, lambda: of.is_ready or of.is_dead)
    settle(world)


def write_all(world: World, of: Producer) -> None:
    """Write the records of the open transaction, and do not end it."""
    until(world, of, lambda: not of.has_steps)


def hold(world: World, of: Producer) -> list[Message]:
    """Let the producer send its next request, and take it from the network."""
    settle(world)
    of.step()
    (held,) = world.network.take()
    return [held]


def outcome(world: World, number: int, place: int) -> bool | None:
    return world.history.fates[number].outcomes.get(world.partitions[place].name)


# --- R13: KAFKA-14402 ------------------------------------------------------------------------------------------------


def records_arrive_after_the_end_of_their_transaction(world: World) -> None:
    late = producer(world, OLD)
    begin(world, late, 0)
    late.step()
    settle(world)
    records = hold(world, late)
    late.give_up()
    finish(world, late)
    assert world.unstable() == ""
    for each in records:
        each.deliver()
    settle(world)
    become_stable(world)


def test_r13_records_that_arrive_after_the_end_of_their_transaction_are_refused() -> None:
    world = world_without_faults()
    records_arrive_after_the_end_of_their_transaction(world)
    assert world.partitions[0].high_watermark == 1, "there is a marker and nothing else"


def test_r13_would_be_seen_if_records_were_not_verified() -> None:
    with weakened.appending_without_verification(), pytest.raises(Violation, match="stable offset moves"):
        records_arrive_after_the_end_of_their_transaction(world_without_faults())


def the_transaction_ends_between_the_verification_and_the_append(world: World) -> None:
    late = producer(world, OLD)
    begin(world, late, 0)
    late.step()
    settle(world)
    # The request, the question to the coordinator, and its answer, which is held.
    late.step()
    world.network.deliver_all()
    world.network.deliver_all()
    (verified,) = world.network.take()
    late.give_up()
    finish(world, late)
    verified.deliver()
    settle(world)
    become_stable(world)


def test_r13_a_verification_does_not_count_after_the_end_of_its_transaction() -> None:
    world = world_without_faults()
    the_transaction_ends_between_the_verification_and_the_append(world)
    assert world.partitions[0].high_watermark == 1


def test_r13_would_be_seen_if_a_verification_outlived_the_marker() -> None:
    with weakened.keeping_guards_after_markers(), pytest.raises(Violation, match="stable offset moves"):
        the_transaction_ends_between_the_verification_and_the_append(world_without_faults())


# --- R14: KAFKA-17754 ------------------------------------------------------------------------------------------------


def the_end_of_a_transaction_arrives_again_in_the_next_one(world: World) -> int:
    late = producer(world, NEW)
    begin(world, late, 0)
    write_all(world, late)
    (end,) = hold(world, late)
    end.deliver()
    finish(world, late)
    following = begin(world, late, 0, 1)
    write_all(world, late)
    end.deliver()
    settle(world)
    late.give_up()
    finish(world, late)
    return following


def test_r14_a_late_end_does_not_end_the_next_transaction() -> None:
    world = world_without_faults()
    following = the_end_of_a_transaction_arrives_again_in_the_next_one(world)
    assert [outcome(world, following, place) for place in (0, 1)] == [False, False]


@pytest.mark.parametrize(
    "guard", [transactions_weakened.ending_from_any_epoch, transactions_weakened.ending_without_bump]
)
def test_r14_would_be_seen_if_the_epoch_did_not_tell_transactions_apart(guard: Guard) -> None:
    with guard(), pytest.raises(Violation) as seen:
        the_end_of_a_transaction_arrives_again_in_the_next_one(world_without_faults())
    assert seen.value.invariant in (Invariant.ENDED_BY_ITS_OWN, Invariant.MARKER_HAS_THE_EPOCH)


# --- R15: KAFKA-9144 -------------------------------------------------------------------------------------------------


def a_marker_of_an_earlier_coordinator_is_late(world: World) -> int:
    """A coordinator decides to commit, and is replaced before its marker arrives. Its successor sends another one, and
    in between the partition forgets the producers that have written nothing for long."""
    old = producer(world, OLD)
    begin(world, old, 0)
    write_all(world, old)
    until(world, old, lambda: bool(world.transactions.leader.pending()), markers=False)
    world.brokers.send_markers(lambda: False)
    (marker,) = [each for each in world.network.take() if not each.may_be_lost]
    world.transactions.elect()
    finish(world, old)
    for _ in range(2):
        world.expire_producers()
        world.advance(PRODUCER_EXPIRATION_MS // 2)
    following = begin(world, old, 0)
    write_all(world, old)
    marker.deliver()
    settle(world)
    old.give_up()
    finish(world, old)
    return following


def test_r15_a_marker_of_an_earlier_coordinator_does_not_end_the_next_transaction() -> None:
    world = world_without_faults()
    following = a_marker_of_an_earlier_coordinator_is_late(world)
    assert outcome(world, following, 0) is False
    assert world.history.fates[following - 1].acknowledged_commit


@pytest.mark.parametrize(
    "guard", [weakened.marking_with_any_coordinator_epoch, weakened.expiring_after_the_transaction]
)
def test_r15_would_be_seen_if_coordinator_epochs_were_not_compared_or_forgotten_early(guard: Guard) -> None:
    with guard(), pytest.raises(Violation, match="only if its producer asked for it"):
        a_marker_of_an_earlier_coordinator_is_late(world_without_faults())


# --- R16: KIP-360 ----------------------------------------------------------------------------------------------------


def a_producer_goes_on_after_its_records_are_deleted(world: World) -> None:
    old = producer(world, OLD)
    commit(world, old, 0)
    world.partitions[0].consume()
    world.partitions[0].delete_consumed()
    for _ in range(2):
        world.expire_producers()
        world.advance(PRODUCER_EXPIRATION_MS)
    commit(world, old, 0)


def test_r16_a_producer_whose_records_are_deleted_goes_on_in_its_sequence() -> None:
    a_producer_goes_on_after_its_records_are_deleted(world_without_faults())


def test_r16_would_be_seen_if_an_unknown_producer_had_to_begin_again() -> None:
    with weakened.refusing_unknown_producers(), pytest.raises(Violation, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        a_producer_goes_on_after_its_records_are_deleted(world_without_faults())


def a_fenced_producer_asks_for_the_next_epoch(world: World) -> None:
    fenced = producer(world, OLD)
    begin(world, fenced, 0)
    write_all(world, fenced)
    fenced.give_up()
    # The abort ends, and before it asks for the next epoch, another producer takes its id.
    until(world, fenced, lambda: fenced.needs_identity)
    current = producer(world, OLD)
    until(world, fenced, lambda: fenced.is_dead or fenced.is_ready)
    commit(world, current, 0)
    assert fenced.is_dead


def test_r16_a_fenced_producer_gets_no_further_epoch() -> None:
    a_fenced_producer_asks_for_the_next_epoch(world_without_faults())


def test_r16_would_be_seen_if_any_identity_were_continued() -> None:
    with weakened.continuing_with_any_identity(), pytest.raises(Violation, match="every producer commits again"):
        a_fenced_producer_asks_for_the_next_epoch(world_without_faults())


def producers_expire_while_a_transaction_is_open(world: World) -> None:
    long = producer(world, NEW)
    begin(world, long, 0)
    write_all(world, long)
    for _ in range(2):
        world.partitions[0].expire_producers(world.network.now_ms, expiration_ms=10)
        world.advance(20)
    finish(world, long)
    become_stable(world)


def test_r16_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    producers_expire_while_a_transaction_is_open(world_without_faults())


def test_r16_would_be_seen_if_open_transactions_were_forgotten() -> None:
    with weakened.expiring_open_transactions(), pytest.raises(Violation, match="stable offset moves"):
        producers_expire_while_a_transaction_is_open(world_without_faults())


# --- R18: KIP-447 ----------------------------------------------------------------------------------------------------


def work_until(world: World, is_reached: Callable[[], bool]) -> None:
    for _ in range(STEPS_MAX):
        if is_reached():
            return
        step_all(world)
    raise Violation(Invariant.GOES_ON, f"not reached within {STEPS_MAX} rounds")


def a_worker_is_paused_in_its_transaction(world: World, group_id: str) -> Worker:
    """A worker has read, and its offsets are on their way while it is paused and another one gets its partitions."""
    paused = world.start(group_id, "paused")
    work_until(world, lambda: paused.producer.commits > 0)
    until(world, paused.producer, lambda: paused.producer.is_ready)
    work_until(world, lambda: bool(paused.positions))
    until(world, paused.producer, lambda: paused.producer.is_ready)
    paused.read_or_commit()
    assert paused.producer.is_open
    world.workers.remove(paused)
    other = world.start(group_id, "other")
    work_until(world, lambda: other.producer.commits > 2)
    world.workers.append(paused)
    until(world, paused.producer, lambda: not paused.producer.is_open)
    end(world)
    return paused


@pytest.mark.parametrize("group_id", ["classic", "consumer"])
def test_r18_offsets_of_an_earlier_generation_are_refused(group_id: str) -> None:
    world = world_without_faults()
    paused = a_worker_is_paused_in_its_transaction(world, group_id)
    assert paused.producer.refusals[-1] in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@pytest.mark.parametrize("group_id", ["classic", "consumer"])
def test_r18_would_be_seen_if_anybody_committed(group_id: str) -> None:
    world = world_without_faults()
    with weakened.committing_as_anybody(), pytest.raises(Violation, match="the output of each input record once"):
        a_worker_is_paused_in_its_transaction(world, group_id)


def a_partition_changes_hands_before_the_markers_are_written(world: World) -> None:
    before = world.start("classic", "before")
    work_until(world, lambda: before.producer.commits > 0)
    work_until(world, lambda: before.producer.is_ready and bool(before.positions))
    settle(world)
    before.read_or_commit()
    until(world, before.producer, lambda: bool(world.transactions.leader.pending()), markers=False)
    before.leave()
    world.end(before)
    after = world.start("classic", "after")
    for _ in range(STEPS_MAX):
        step_all(world, markers=False)
    if world.transactions.leader.pending():
        work_until(world, lambda: after.producer.commits > 0)
    end(world)


def end(world: World) -> None:
    for worker in list(world.workers):
        world.end(worker)
    become_stable(world)
    world.check_end()


def test_r18_a_member_waits_for_the_transaction_of_the_one_before_it() -> None:
    a_partition_changes_hands_before_the_markers_are_written(world_without_faults())


def test_r18_would_be_seen_if_offsets_were_fetched_before_the_marker() -> None:
    with weakened.fetching_before_the_marker(), pytest.raises(Violation, match="each input record once"):
        a_partition_changes_hands_before_the_markers_are_written(world_without_faults())


# --- I12 -------------------------------------------------------------------------------------------------------------


def the_coordinator_is_replaced_between_two_markers(world: World, version: int) -> int:
    torn = producer(world, version)
    number = begin(world, torn, 0, 1, with_offsets=True)
    write_all(world, torn)
    until(world, torn, lambda: bool(world.transactions.leader.pending()), markers=False)
    world.brokers.send_markers(lambda: False)
    first, *_ = [each for each in world.network.take() if not each.may_be_lost or version == NEW]
    first.deliver()
    settle(world, markers=False)
    world.transactions.elect()
    finish(world, torn)
    become_stable(world)
    return number


@pytest.mark.parametrize("version", [OLD, NEW])
def test_i12_a_transaction_is_committed_everywhere_although_its_coordinator_is_replaced(version: int) -> None:
    world = world_without_faults()
    number = the_coordinator_is_replaced_between_two_markers(world, version)
    assert sorted(world.history.fates[number].outcomes.values()) == [True] * 3


def test_i12_would_be_seen_if_one_marker_completed_the_transaction() -> None:
    completes = transactions_weakened.completing_after_the_first_marker
    with completes(), pytest.raises(Violation, match="stable offset moves"):
        the_coordinator_is_replaced_between_two_markers(world_without_faults(), NEW)


def a_decision_is_lost(world: World) -> int:
    """The coordinator decides to commit, and is replaced before that is committed. The producer is gone."""
    gone = producer(world, NEW)
    number = begin(world, gone, 0, 1)
    write_all(world, gone)
    (request,) = hold(world, gone)
    request.deliver()
    world.transactions.leader.write()
    world.brokers.send_markers(lambda: False)
    for each in world.network.take()[:1]:
        each.deliver()
    world.transactions.elect(kept=0)
    world.transactions.resign()
    become_stable(world)
    return number


def test_i12_a_decision_is_carried_out_once_it_cannot_be_lost() -> None:
    world = world_without_faults()
    number = a_decision_is_lost(world)
    assert [outcome(world, number, place) for place in (0, 1)] == [False, False], "it has timed out"


def test_i12_would_be_seen_if_markers_were_written_before_the_commit() -> None:
    with weakened.marking_before_the_commit(), pytest.raises(Violation, match="in all partitions or in none"):
        a_decision_is_lost(world_without_faults())


def a_producer_dies_and_its_coordinator_is_replaced(world: World) -> None:
    dead = producer(world, NEW)
    begin(world, dead, 0)
    write_all(world, dead)
    world.transactions.elect()
    settle(world)
    assert world.partitions[0].last_stable_offset < world.partitions[0].high_watermark
    become_stable(world)


def test_i12_the_last_stable_offset_moves_within_the_timeout() -> None:
    a_producer_dies_and_its_coordinator_is_replaced(world_without_faults())


def test_i12_would_be_seen_if_a_new_coordinator_set_no_timers() -> None:
    with transactions_weakened.loading_without_timers(), pytest.raises(Violation, match="stable offset moves"):
        a_producer_dies_and_its_coordinator_is_replaced(world_without_faults())


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_transaction_that_is_open_when_the_feature_level_rises_is_committed(*, is_replaced: bool) -> None:
    """Its client goes on as it began; the next one with its id ends transactions with the next epoch."""
    world = world_at(OLD)
    before = producer(world, OLD)
    open_one = begin(world, before, 0, 1)
    write_all(world, before)
    world.image = world_at(NEW).image
    if is_replaced:
        world.transactions.elect()
        settle(world)
    finish(world, before)
    assert [outcome(world, open_one, place) for place in (0, 1)] == [True, True]
    again = commit(world, before, 0)
    after = producer(world, NEW)
    last = commit(world, after, 0, 1)
    assert [outcome(world, number, 0) for number in (again, last)] == [True, True]
    become_stable(world)
    assert world.unstable() == ""


def test_a_transaction_that_was_open_when_the_feature_level_rose_ends_with_its_timeout() -> None:
    world = world_at(OLD)
    dead = producer(world, OLD)
    number = begin(world, dead, 0)
    write_all(world, dead)
    world.image = world_at(NEW).image
    world.transactions.elect()
    become_stable(world)
    assert outcome(world, number, 0) is False
