from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch, TransactionState
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.peers import Unreachable
from kraft.server.coordinator.marker_sender import MARKERS_PER_REQUEST, REPORTS_AT_ONCE, RETRY_S
from kraft.wire.schema.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from tests.support.cluster_images import ORDERS, with_partition
from tests.support.server.replicas import fetched, follow, settle
from tests.unit.server.coordinator.transacting import FIRST_PRODUCER_ID, Transacting, orders

COMMITTED, ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
PREPARED = TransactionState.PREPARE_COMMIT


@pytest.mark.parametrize(("commit", "ended"), [(True, COMMITTED), (False, ABORTED)])
async def test_each_leader_gets_the_markers_of_its_partitions_once(
    tmp_path: Path, commit: bool, ended: TransactionState
) -> None:
    async with Transacting(tmp_path) as broker:
        await broker.prepared(0, 1, commit=commit)
        await broker.until_state(ended)
        await asyncio.sleep(60)
        assert sorted(broker.leaders.asked()) == [(1, 0), (2, 1)]
        marker = dict(broker.leaders.requests)[2].markers[0]
        assert marker == WritableTxnMarker(
            producer_id=FIRST_PRODUCER_ID,
            producer_epoch=1,
            transaction_result=commit,
            topics=(WritableTxnMarkerTopic(name="orders", partition_indexes=(1,)),),
            coordinator_epoch=1,
            transaction_version=EPOCH_BUMP,
        )


async def test_no_marker_is_sent_before_the_decision_is_committed(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        producer = await broker.begin(orders(0))
        await broker.lead(epoch=2, replicas=(1, 2))
        fetched(broker.partition, broker.partition.log.log_end_offset)
        await settle()
        ended = asyncio.create_task(broker.end(producer))
        await asyncio.sleep(1)
        assert broker.leaders.requests == []
        fetched(broker.partition, broker.partition.log.log_end_offset)
        await broker.until_state(PREPARED)
        await ended
        assert broker.leaders.asked() == [(1, 0)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ],
)
async def test_only_the_partitions_that_refuse_are_asked_again(tmp_path: Path, code: ErrorCode) -> None:
    async with Transacting(tmp_path) as broker:
        broker.image = with_partition(broker.image, 2, [1, 2], topic_id=ORDERS)
        (refusing,) = orders(2)
        broker.leaders.codes[refusing] = code
        await broker.prepared(0, 2)
        await asyncio.sleep(2.5 * RETRY_S)
        assert broker.transaction().state is PREPARED
        assert broker.leaders.asked() == [(1, 0), (1, 2), (1, 2), (1, 2)]
        del broker.leaders.codes[refusing]
        await broker.until_state(COMMITTED)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
async def test_a_partition_that_has_a_later_epoch_of_the_producer_has_had_the_marker(
    tmp_path: Path, code: ErrorCode
) -> None:
    async with Transacting(tmp_path) as broker:
        (partition,) = orders(0)
        broker.leaders.codes[partition] = code
        await broker.prepared(0)
        await broker.until_state(COMMITTED)
        assert broker.leaders.asked() == [(1, 0)]


@pytest.mark.parametrize("failure", [Unreachable("broker 2", "gone"), Refusal(ErrorCode.UNSUPPORTED_VERSION, "old")])
async def test_a_broker_that_does_not_answer_is_asked_again_and_delays_no_other(
    tmp_path: Path, failure: Unreachable | Refusal
) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.failures[2] = failure
        await broker.prepared(0, 1)
        await broker.prepared(0, transactional_id="refunds")
        await broker.until_state(COMMITTED, "refunds")
        await asyncio.sleep(10)
        assert broker.transaction().state is PREPARED
        assert broker.leaders.asked().count((1, 0)) == 2
        broker.leaders.failures.clear()
        await broker.until_state(COMMITTED)


async def test_a_marker_follows_the_leader_of_its_partition(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.failures[2] = Unreachable("broker 2", "gone")
        await broker.prepared(1)
        await asyncio.sleep(1)
        broker.elect(1, leader=1)
        await broker.until_state(COMMITTED)
        assert broker.leaders.asked()[-1] == (1, 1)


async def test_a_partition_without_a_leader_is_asked_once_it_has_one(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.elect(1, leader=-1)
        await broker.prepared(1)
        await asyncio.sleep(10)
        assert broker.leaders.requests == []
        broker.elect(1, leader=2)
        await broker.until_state(COMMITTED)
        assert broker.leaders.asked() == [(2, 1)]


async def test_everything_that_waits_for_an_unreachable_broker_follows_its_leaders_at_once(tmp_path: Path) -> None:
    """Not one request after the other: each may take until the deadline of a call."""
    count = 2 * MARKERS_PER_REQUEST + 1
    async with Transacting(tmp_path) as broker:
        for number in range(2, count):
            broker.image = with_partition(broker.image, number, [2, 1], topic_id=ORDERS)
        broker.elect(0, leader=2)
        broker.leaders.failures[2], broker.leaders.takes_s[2] = Unreachable("broker 2", "gone"), 5
        await broker.prepared(*range(count))
        await asyncio.sleep(1)
        for number in range(count):
            broker.elect(number, leader=1)
        async with asyncio.timeout(6):
            await broker.until_state(COMMITTED)
        assert {broker_id for broker_id, _ in broker.leaders.requests[1:]} == {1}


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_deleted_partition_needs_no_marker(tmp_path: Path, is_waiting: bool) -> None:
    async with Transacting(tmp_path) as broker:
        producer = await broker.begin(orders(0, 1))
        if is_waiting:
            broker.leaders.failures[1] = broker.leaders.failures[2] = Unreachable("broker", "gone")
            await broker.end(producer)
            await asyncio.sleep(1)
        broker.delete_orders()
        if not is_waiting:
            await broker.end(producer)
        asked = len(broker.leaders.requests)
        await broker.until_state(COMMITTED)
        assert len(broker.leaders.requests) == asked


async def test_a_request_has_the_markers_of_all_transactions_that_wait_for_a_broker(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        await broker.prepared(0)
        for number in range(3):
            await broker.prepared(0, transactional_id=f"id {number}")
        assert len(broker.leaders.requests) == 1
        broker.leaders.holds.set()
        for number in range(3):
            await broker.until_state(COMMITTED, f"id {number}")
        assert [len(request.markers) for _, request in broker.leaders.requests] == [1, 3]


async def test_a_request_has_a_thousand_markers_at_most(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        count = MARKERS_PER_REQUEST + 1
        for number in range(2, count):
            broker.image = with_partition(broker.image, number, [1, 2], topic_id=ORDERS)
        broker.elect(1, leader=1)
        await broker.prepared(*range(count))
        await broker.until_state(COMMITTED)
        sizes = [
            sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
            for _, request in broker.leaders.requests
        ]
        assert sizes == [MARKERS_PER_REQUEST, 1]


# --- the coordinator ends, or is loaded again ------------------------------------------------------------------------


async def test_a_coordinator_that_ends_sends_no_more_markers(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.failures[1] = Unreachable("broker 1", "gone")
        await broker.prepared(0)
        follow(broker.partition, epoch=2)
        asked = len(broker.leaders.requests)
        await asyncio.sleep(10)
        assert len(broker.leaders.requests) == asked


async def test_markers_in_the_queue_of_a_coordinator_that_has_ended_are_dropped(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        await broker.prepared(0)
        await broker.prepared(0, transactional_id="refunds")
        follow(broker.partition, epoch=2)
        broker.leaders.holds.set()
        await asyncio.sleep(10)
        assert len(broker.leaders.asked()) == 1


async def test_a_new_coordinator_sends_all_markers_again_in_its_epoch(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        (refusing,) = orders(1)
        broker.leaders.codes[refusing] = ErrorCode.NOT_ENOUGH_REPLICAS
        await broker.prepared(0, 1)
        await asyncio.sleep(1)
        follow(broker.partition, epoch=2)
        broker.leaders.requests.clear()
        broker.leaders.codes.clear()
        await broker.lead(epoch=3)
        await broker.until_state(COMMITTED)
        assert sorted(broker.leaders.asked()) == [(1, 0), (2, 1)]
        assert {marker.coordinator_epoch for _, each in broker.leaders.requests for marker in each.markers} == {3}


async def test_an_answer_to_the_earlier_coordinator_completes_nothing_of_the_next(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = held = asyncio.Event()
        await broker.prepared(0)
        broker.leaders.failures[1] = Unreachable("broker 1", "gone")
        broker.leaders.holds = None
        await broker.lead(epoch=2)
        held.set()
        await asyncio.sleep(1)
        assert broker.transaction().state is PREPARED
        broker.leaders.failures.clear()
        await broker.until_state(COMMITTED)


async def test_after_a_failed_append_the_markers_are_sent_again_and_the_transaction_completes(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        await broker.prepared(0)
        broker.broker.is_full = True
        broker.leaders.holds.set()
        await asyncio.sleep(10)
        assert broker.transaction().state is PREPARED
        broker.broker.is_full = False
        await broker.until_state(COMMITTED)
        assert set(broker.leaders.asked()) == {(1, 0)}


async def test_a_marker_under_way_is_not_sent_again_after_a_failed_append(tmp_path: Path) -> None:
    """The second one could end the next transaction of a client before version 2."""
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        await broker.prepared(0)
        broker.broker.is_full = True
        assert await broker.init("other") is ErrorCode.NOT_COORDINATOR
        broker.broker.is_full = False
        await asyncio.sleep(10)
        assert isinstance(await broker.init("other"), ProducerIdAndEpoch), "the shard was loaded again"
        broker.leaders.holds.set()
        await broker.until_state(COMMITTED)
        await asyncio.sleep(10)
        assert broker.leaders.asked() == [(1, 0)]


async def test_markers_that_were_reported_before_a_failed_append_are_sent_again(tmp_path: Path) -> None:
    """Which of them are written is not recorded, and lost with the volatile state."""
    async with Transacting(tmp_path) as broker:
        (refusing,) = orders(1)
        broker.leaders.codes[refusing] = ErrorCode.NOT_ENOUGH_REPLICAS
        await broker.prepared(0, 1)
        await asyncio.sleep(1)
        assert broker.leaders.asked().count((1, 0)) == 1
        broker.broker.is_full = True
        assert await broker.init("other") is ErrorCode.NOT_COORDINATOR
        broker.broker.is_full = False
        await asyncio.sleep(10)
        assert broker.leaders.asked().count((1, 0)) == 2
        broker.leaders.codes.clear()
        await broker.until_state(COMMITTED)


# --- end -------------------------------------------------------------------------------------------------------------


async def test_a_broker_stops_while_markers_are_under_way_wait_and_pause(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        broker.elect(1, leader=-1)
        await broker.prepared(0, 1)
        await broker.prepared(0, transactional_id="refunds")
        async with asyncio.timeout(60):
            await broker.coordinators.drain()
        asked = len(broker.leaders.requests)
        broker.elect(1, leader=2)
        await asyncio.sleep(10)
        assert len(broker.leaders.requests) == asked


async def test_a_response_that_ends_many_markers_is_reported_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"id-{number}" for number in range(5 * REPORTS_AT_ONCE)]
    reports, turn = Counter[int](), 0
    async with Transacting(tmp_path) as broker:
        report = broker.sender._report

        def next_turn() -> None:
            nonlocal turn
            turn += 1

        def noting(written: Sequence[Any]) -> None:
            if written and not reports[turn]:
                asyncio.get_running_loop().call_soon(next_turn)
            reports[turn] += bool(written)
            report(written)

        (refusing,) = orders(0)
        broker.leaders.codes[refusing] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for each in ids:
            await broker.prepared(0, transactional_id=each)
        monkeypatch.setattr(broker.sender, "_report", noting)
        del broker.leaders.codes[refusing]
        for each in ids:
            await broker.until_state(COMMITTED, transactional_id=each)
    assert reports.total() == len(ids)
    assert max(reports.values()) <= REPORTS_AT_ONCE
