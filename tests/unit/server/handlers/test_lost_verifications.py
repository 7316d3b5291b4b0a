"""Batches whose verification has ended before they are appended: they are sent, and verified, again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.produce import ProducePartition, ProduceRequest
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.produce_verification import ProduceVerification, TransactionSupport
from tests.support.log.transactional_log import COMMIT, end, transactional
from tests.support.server.replicas import ORDERS_0, follow, lead, settle, values_in
from tests.unit.server.handlers.held_appends import COUNT, Waiting
from tests.unit.server.handlers.producing import (
    ID,
    LATER,
    ORDERS_1,
    PRODUCER,
    Coordinator,
    Producing,
    codes_of,
    sent,
)


@pytest.fixture
def producing(tmp_path: Path) -> Producing:
    return Producing(tmp_path)


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_a_verification_that_another_lead_ends_is_made_again(
    producing: Producing, support: TransactionSupport
) -> None:
    """Its transaction is open: a refusal that is not retried would end a producer that did nothing wrong."""
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "a"), support=support)
    await settle()
    lead(producing.first, epoch=2, isr=(1,))
    await producing.coordinator.release()
    assert await codes_of(answer) == [LATER]
    assert await producing.codes(sent(1, "b"), support=support) == [LATER], "not before the first"
    assert await producing.codes(sent(0, "a"), support=support) == [ErrorCode.NONE]
    assert await producing.codes(sent(1, "b"), support=support) == [ErrorCode.NONE]
    assert values_in(producing.first) == ["a", "b"]


async def test_a_partition_that_is_led_only_after_the_verification_of_others_is_verified_then(
    producing: Producing,
) -> None:
    """As after the death of a broker that led one of two partitions."""
    follow(producing.first, epoch=2)
    producing.coordinator.holds = True
    answer = producing.send(_request(sent(0, "a"), sent(0, "a")))
    await settle()
    lead(producing.first, epoch=3, isr=(1,))
    await producing.coordinator.release()
    assert await codes_of(answer) == [LATER, ErrorCode.NONE]
    assert await producing.codes(sent(0, "a")) == [ErrorCode.NONE]
    assert [each.partitions for each in producing.coordinator.asked] == [(ORDERS_1,), (ORDERS_0,)]


async def test_a_transaction_that_ends_while_its_batch_waits_for_a_thread_is_verified_again(tmp_path: Path) -> None:
    """The batch needed no verification when it came. One that its producer has given up must not be written."""
    waiting, coordinator = Waiting(tmp_path), Coordinator()
    verification = ProduceVerification(waiting.broker.partitions, coordinator.verify, is_enabled=True)
    waiting.handler = ProduceHandler(
        waiting.broker.partitions, waiting.appends, verification, AwaitedReplicasHandler(waiting.broker.partitions)
    )
    first = transactional(PRODUCER, 0, "a", key="k")
    assert await codes_of(waiting.handler.handle(_request(first))) == [ErrorCode.NONE]
    many = transactional(PRODUCER, 1, *["b"] * COUNT, key="k")
    answer = asyncio.ensure_future(waiting.handler.handle(_request(many)))
    await settle()
    end(waiting.partition.log, PRODUCER, COMMIT)
    await waiting.thread.run_next()
    assert await codes_of(answer) == [LATER]
    assert len(coordinator.asked) == 1
    assert waiting.partition.log.log_end_offset == 2, "the first batch and the marker"


def _request(*batches: bytes) -> ProduceRequest:
    """Return a request with a batch for each partition from 0 on."""
    partitions = [ProducePartition(topic="orders", partition=at, records=each) for at, each in enumerate(batches)]
    return ProduceRequest(request_id=7, acks=1, timeout_ms=30_000, partitions=partitions, transactional_id=ID)
