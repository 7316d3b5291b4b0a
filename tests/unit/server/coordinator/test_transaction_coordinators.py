from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, TransactionState
from kraft.model.errors import ErrorCode, Refusal
from tests.support.server.replicas import follow, settle
from tests.unit.server.coordinator.transacting import FIRST_PRODUCER_ID, ID, Transacting, orders


async def test_the_first_producer_of_an_id_gets_a_new_producer_id_and_the_next_one_fences_it(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        assert await broker.init() == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 0)
        assert await broker.init() == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 1)
        assert await broker.init("refunds") == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID + 1, 0)
        assert await broker.end(ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 0)) is ErrorCode.PRODUCER_FENCED


async def test_two_producers_that_ask_at_once_get_one_producer_id_and_two_epochs(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        answers = await asyncio.gather(broker.init(), broker.init())
        assert [answer.epoch for answer in answers] == [0, 1]
        assert len({answer.producer_id for answer in answers}) == 1


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000, "é" * 20_000])
async def test_an_id_that_no_record_can_have_is_refused(tmp_path: Path, transactional_id: str) -> None:
    async with Transacting(tmp_path) as broker:
        assert await broker.init(transactional_id) is ErrorCode.INVALID_REQUEST
        with pytest.raises(Refusal, match="INVALID_REQUEST"):
            broker.coordinators.committed(transactional_id)


async def test_a_producer_retries_while_the_controller_gives_no_producer_ids(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        broker.ids_refusal = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "not now")
        assert await broker.init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.ids_refusal = None
        assert await broker.init() == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 0)


async def test_a_producer_whose_epochs_are_used_up_gets_another_producer_id_with_the_end(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        producer = await broker.begin(orders(0))
        for _ in range(3):
            producer = await broker.end(producer)
            await broker.until_state(TransactionState.COMPLETE_COMMIT)
            await broker.add(producer, orders(0))
        assert producer == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 3)
        # The epochs between are left out.
        broker.exhaust_epochs()
        await broker.lead(epoch=2)
        await broker.add(ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, EPOCH_MAX - 1), orders(0))
        after = await broker.end(ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, EPOCH_MAX - 1))
        assert after == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID + 1, 0)


async def test_without_the_topic_and_without_the_lead_there_is_no_coordinator(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        follow(broker.partition, epoch=2)
        assert await broker.init() is ErrorCode.NOT_COORDINATOR
        assert list(broker.coordinators.all_committed()) == []
        broker.delete_state_topic()
        assert await broker.init() is ErrorCode.NOT_COORDINATOR
        await settle()


async def test_while_a_shard_is_loaded_nothing_is_listed_or_decided(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        await broker.lead(epoch=2, replicas=(1, 2))
        asked = asyncio.create_task(broker.init())
        await settle()
        await broker.lead(epoch=3, replicas=(1, 2))
        assert await asked is ErrorCode.NOT_COORDINATOR
        assert await broker.init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(Refusal, match="COORDINATOR_LOAD_IN_PROGRESS"):
            list(broker.coordinators.all_committed())


async def test_what_is_not_committed_is_not_shown(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        await broker.init()
        await broker.lead(epoch=2, replicas=(1, 2))
        broker.catch_up()
        await settle()
        asked = asyncio.create_task(broker.init("refunds"))
        await asyncio.sleep(1)
        assert [set(each.transactions.by_id) for each in broker.coordinators.all_committed()] == [{ID}]
        broker.catch_up()
        assert await asked == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID + 1, 0)
        assert [set(each.transactions.by_id) for each in broker.coordinators.all_committed()] == [{ID, "refunds"}]


async def test_a_transaction_that_takes_too_long_is_aborted_with_markers(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        producer = await broker.begin(orders(0))
        await asyncio.sleep(59)
        assert broker.leaders.requests == []
        await broker.until_state(TransactionState.COMPLETE_ABORT)
        ((_, request),) = broker.leaders.requests
        assert not request.markers[0].transaction_result
        assert request.markers[0].producer_epoch == producer.epoch + 1
        assert await broker.end(producer) is ErrorCode.TRANSACTION_ABORTABLE


async def ending(broker: Transacting) -> asyncio.Task[object]:
    """Begin to end a transaction. The decision is committed when the other replica has caught up."""
    producer = await broker.begin(orders(0))
    await broker.lead(epoch=2, replicas=(1, 2))
    broker.catch_up()
    await settle()
    ended = asyncio.create_task(broker.end(producer))
    await settle()
    return ended


async def test_a_stopping_broker_answers_what_is_decided_and_refuses_the_rest(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        ended = await ending(broker)
        drained = asyncio.create_task(broker.coordinators.drain())
        await settle()
        assert await broker.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.catch_up()
        assert await ended == ProducerIdAndEpoch.of(FIRST_PRODUCER_ID, 1)
        await drained


async def test_a_stopping_broker_waits_for_no_replica_for_long(tmp_path: Path) -> None:
    async with Transacting(tmp_path) as broker:
        ended = await ending(broker)
        async with asyncio.timeout(3):
            await broker.coordinators.drain()
            assert await ended is ErrorCode.NOT_COORDINATOR
