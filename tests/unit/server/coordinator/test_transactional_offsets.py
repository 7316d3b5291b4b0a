"""Offsets that are committed with transactions: verified, appended, ended by markers, and loaded again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.coordinator.groups.replicated import Groups
from kraft.log.append_work import AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.request_context import RequestContext
from kraft.server.coordinator import offset_verification
from kraft.server.coordinator.offset_verification import OffsetVerification
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kraft.wire.schema.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponsePartitions,
)
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from tests.support import offset_commands
from tests.support.offset_commands import asking, offset_in_transaction
from tests.support.server.fake_transactions import Asked
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker
from tests.support.server.replicas import fetched, follow, lead, settle
from tests.unit.server.coordinator.coordinating import HeldExecutor

PRODUCER = 7
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def commit(broker: GroupBroker, offset: int, *, partition: int = 0, **fields: Any) -> ErrorCode:
    """Commit an offset with a producer's transaction."""
    version = 5 if fields.pop("adds_partition", True) else 4
    topic = TxnOffsetCommitRequestTopic(name="orders", partitions=(offset_in_transaction(partition, offset, None),))
    request = TxnOffsetCommitRequest(
        **{
            "transactional_id": f"id {fields.get('producer_id', PRODUCER)}",
            "group_id": GROUP,
            "topics": (topic,),
            "producer_id": PRODUCER,
            "producer_epoch": 0,
            **fields,
        }
    )
    try:
        (result,) = (
            await broker.handlers.offsets.commit_in_transaction(request, RequestContext(version=version))
        ).topics
    except Refusal as refusal:
        return refusal.error_code
    return ErrorCode(result.partitions[0].error_code)


async def commit_alone(broker: GroupBroker, offset: int, partition: int = 0) -> None:
    """Commit an offset without a transaction."""
    topic = OffsetCommitRequestTopic(name="orders", partitions=(offset_commands.offset(partition, offset),))
    request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=(topic,))
    await broker.handlers.offsets.commit(request, RequestContext(version=10))


def marker(is_commit: bool = True, producer_id: int = PRODUCER, epoch: int = 0, coordinator_epoch: int = 1) -> bytes:
    kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
    return build_marker(EndTransactionMarker(type=kind, coordinator_epoch=coordinator_epoch), producer_id, epoch, 1_000)


async def end(broker: GroupBroker, partition: int = 0, **fields: Any) -> ErrorCode:
    try:
        await broker.coordinators.append_marker(partition, marker(**fields), AppendOrigin(is_coordinator=True))
    except Refusal as refusal:
        return refusal.error_code
    return ErrorCode.NONE


async def fetch(
    broker: GroupBroker, *, require_stable: bool = False, partition: int = 0
) -> OffsetFetchResponsePartitions:
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=(asking("orders", partition),))
    request = OffsetFetchRequest(groups=(asked,), require_stable=require_stable)
    (group,) = (await broker.handlers.offsets.fetch(request, CONTEXT)).groups
    return group.topics[0].partitions[0]


async def load_again(broker: GroupBroker) -> Groups:
    """Return the committed state after a load in a new leader epoch."""
    lead(broker.partition, epoch=broker.partition.leader_epoch + 1, replicas=(1,))
    async with asyncio.timeout(60):
        while True:
            await settle()
            with suppress(Refusal):
                return broker.coordinators.view(GROUP).committed


# --- commits and markers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 5), (False, 3)])
async def test_an_offset_is_seen_once_its_transaction_is_committed(
    tmp_path: Path, is_commit: bool, offset: int
) -> None:
    async with GroupBroker(tmp_path) as broker:
        await commit_alone(broker, 3)
        assert await commit(broker, 5) is ErrorCode.NONE
        assert (await fetch(broker)).committed_offset == 3
        unstable = await fetch(broker, require_stable=True)
        assert (unstable.error_code, unstable.committed_offset) == (UNSTABLE, -1)
        assert (await fetch(broker, require_stable=True, partition=1)).error_code == ErrorCode.NONE
        assert await end(broker, is_commit=is_commit) is ErrorCode.NONE
        assert (await fetch(broker, require_stable=True)).committed_offset == offset


async def test_a_marker_counts_when_it_is_committed(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await commit(broker, 5)
        lead(broker.partition, epoch=2, replicas=(1, 2))
        fetched(broker.partition, broker.partition.log.log_end_offset)
        await settle()
        ended = asyncio.create_task(end(broker))
        await settle()
        assert not ended.done()
        assert (await fetch(broker)).committed_offset == -1
        assert (await fetch(broker, require_stable=True)).error_code == UNSTABLE
        fetched(broker.partition, broker.partition.log.log_end_offset)
        assert await ended is ErrorCode.NONE
        assert (await fetch(broker, require_stable=True)).committed_offset == 5


async def test_an_old_producer_is_refused_and_its_group_goes_on(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        with capture_logs() as logs:
            assert await commit(broker, 5, producer_epoch=3) is ErrorCode.NONE
            assert await end(broker, epoch=3) is ErrorCode.NONE
            assert await commit(broker, 6, producer_epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
            assert await end(broker, epoch=3, coordinator_epoch=0) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert all(line["event"].startswith("group") for line in logs), "nothing was loaded again"
        beat = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=1)
        assert await broker.handlers.classic.heartbeat(beat) == HeartbeatResponse(error_code=0)
        assert (await fetch(broker)).committed_offset == 5


async def test_the_member_is_checked_if_the_request_names_it(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        assert await commit(broker, 5) is ErrorCode.NONE
        assert await commit(broker, 5, member_id=member_id, generation_id=1) is ErrorCode.NONE
        assert await commit(broker, 5, member_id=member_id, generation_id=0) is ErrorCode.ILLEGAL_GENERATION
        assert await commit(broker, 5, member_id="x", generation_id=1) is ErrorCode.UNKNOWN_MEMBER_ID
        unknown: dict[str, Any] = {"group_instance_id": "x", "member_id": member_id, "generation_id": 1}
        assert await commit(broker, 5, **unknown) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(broker, 5, partition=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_old_epoch_of_the_consumer_protocol_is_an_illegal_generation(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        joined = await broker.join_consumer()
        assert await commit(broker, 5, member_id="m", generation_id=joined.member_epoch) is ErrorCode.NONE
        stale = joined.member_epoch + 1
        assert await commit(broker, 5, member_id="m", generation_id=stale) is ErrorCode.ILLEGAL_GENERATION
        assert await commit(broker, 5) is ErrorCode.NONE


async def test_a_generation_of_a_group_that_does_not_exist_is_illegal(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        assert await commit(broker, 5, member_id="m", generation_id=1) is ErrorCode.ILLEGAL_GENERATION
        assert await commit(broker, 5) is ErrorCode.NONE, "it becomes a simple group"


# --- verification ----------------------------------------------------------------------------------------------------


async def test_the_transaction_coordinator_is_asked_before_the_first_offset_of_a_transaction(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        asked = broker.transactions.asked
        await commit(broker, 5)
        await commit(broker, 6)
        first = Asked("id 7", 7, 0, TopicPartition("__consumer_offsets", 0), adds=True)
        assert asked == [first]
        await end(broker)
        await commit(broker, 7, adds_partition=False)
        assert asked == [first, first._replace(adds=False)]


async def test_if_verification_is_not_enabled_partitions_are_only_added(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        broker.coordinators.verification = OffsetVerification(broker.transactions.verify, is_enabled=False)
        assert await commit(broker, 5, adds_partition=False) is ErrorCode.NONE
        assert broker.transactions.asked == []
        await end(broker)
        assert await commit(broker, 6) is ErrorCode.NONE
        assert [each.adds for each in broker.transactions.asked] == [True]
        assert (await fetch(broker)).committed_offset == 5


async def test_producers_that_are_refused_for_good_leave_nothing_behind(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        broker.transactions.refusal = Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown")
        for producer_id in range(100):
            assert await commit(broker, 5, producer_id=producer_id) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert len(broker.partition.log._producers.verifications) == 0


async def test_what_the_transaction_coordinator_refuses_is_not_written(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        broker.transactions.refusal = Refusal(ErrorCode.TRANSACTION_ABORTABLE, "it is not in the transaction")
        assert await commit(broker, 5) is ErrorCode.TRANSACTION_ABORTABLE
        broker.transactions.refusal = Refusal(ErrorCode.PRODUCER_FENCED, "there is a newer one")
        assert await commit(broker, 5) is ErrorCode.INVALID_PRODUCER_EPOCH
        broker.transactions.refusal = Refusal(ErrorCode.NETWORK_EXCEPTION, "no connection")
        assert await commit(broker, 5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert broker.partition.log.log_end_offset == 0


async def test_a_transaction_coordinator_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(offset_verification, "VERIFY_S_MAX", 1.0)
    async with GroupBroker(tmp_path) as broker:
        broker.transactions.meanwhile = never
        assert await commit(broker, 5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_marker_between_the_verification_and_the_append_ends_it(tmp_path: Path, is_commit: bool) -> None:
    """The offset would begin a transaction that no marker ends."""
    async with GroupBroker(tmp_path) as broker:

        async def ended() -> None:
            assert await end(broker, is_commit=is_commit) is ErrorCode.NONE

        broker.transactions.meanwhile = ended
        assert await commit(broker, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "its retry is verified anew"
        assert not broker.coordinators.view(GROUP).latest.offsets.pending.producers
        broker.transactions.meanwhile = None
        assert await commit(broker, 5) is ErrorCode.NONE


async def test_the_leadership_may_end_during_the_verification(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:

        async def moved() -> None:
            follow(broker.partition, epoch=2)
            lead(broker.partition, epoch=3, replicas=(1,))
            await settle()

        broker.transactions.meanwhile = moved
        assert await commit(broker, 5) is ErrorCode.NOT_COORDINATOR
        assert broker.partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": -1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_bad_input_is_refused_before_anybody_is_asked(
    tmp_path: Path, fields: dict[str, Any], code: ErrorCode
) -> None:
    async with GroupBroker(tmp_path) as broker:
        assert await commit(broker, 5, **fields) is code
        assert broker.transactions.asked == []


# --- loads -----------------------------------------------------------------------------------------------------------


async def test_a_transaction_that_was_open_before_a_load_ends_after_it(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await commit_alone(broker, 3)
        await commit(broker, 5)
        before = broker.coordinators.view(GROUP).committed
        assert await load_again(broker) == before
        assert (await fetch(broker, require_stable=True)).error_code == UNSTABLE
        assert await end(broker) is ErrorCode.NONE
        assert (await fetch(broker, require_stable=True)).committed_offset == 5
        assert (await load_again(broker)).offsets.offset(GROUP, "orders", 0) is not None
        assert (await fetch(broker, require_stable=True)).committed_offset == 5


async def test_a_marker_is_refused_where_no_coordinator_would_see_it(tmp_path: Path) -> None:
    executor = HeldExecutor()
    async with GroupBroker(tmp_path, executor=executor) as broker:
        assert await end(broker) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await executor.release()
        assert await end(broker) is ErrorCode.NONE
        assert await end(broker, partition=1) is ErrorCode.NOT_COORDINATOR
        follow(broker.partition, epoch=2)
        await settle()
        assert await end(broker) is ErrorCode.NOT_COORDINATOR
        assert broker.partition.log.log_end_offset == 1


@pytest.mark.parametrize("seed", range(12))
async def test_a_load_finds_the_state_that_was_before_it(tmp_path: Path, seed: int) -> None:
    random, happened = Random(seed), set[str]()
    async with GroupBroker(tmp_path) as broker:
        for _ in range(40):
            producer_id, partition = random.randrange(3), random.randrange(2)
            kind = random.choices(("transactional", "alone", "ended", "deleted", "loaded"), (5, 3, 3, 1, 1))[0]
            happened.add(kind)
            match kind:
                case "transactional":
                    await commit(broker, random.randrange(100), partition=partition, producer_id=producer_id)
                case "alone":
                    await commit_alone(broker, random.randrange(100), partition)
                case "ended":
                    await end(broker, producer_id=producer_id, is_commit=random.random() < 0.6)
                case "deleted":
                    asked = (OffsetDeleteRequestPartition(partition_index=partition),)
                    topics = (OffsetDeleteRequestTopic(name="orders", partitions=asked),)
                    with suppress(Refusal):
                        # There may be no group.
                        await broker.handlers.offsets.delete(OffsetDeleteRequest(group_id=GROUP, topics=topics))
                case _:
                    pass
            before = broker.coordinators.view(GROUP).latest
            if kind == "loaded":
                assert await load_again(broker) == before
        before = broker.coordinators.view(GROUP).latest
        assert await load_again(broker) == before
    assert happened == {"transactional", "alone", "ended", "deleted", "loaded"}
