"""What a broker counts of its replicas: each event once, for its topic or for all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest
from kraft.server.replica.counts import BrokerCounts, TopicCounts
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import (
    ORDERS_0,
    Broker,
    append_to,
    batch,
    fetched,
    lead,
    lead_begun,
    settle,
)
from tests.unit.server.handlers.fetches import asking, request


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def _of_orders(broker: Broker) -> TopicCounts:
    return broker.partitions.counts.topics["orders"]


async def _produced(broker: Broker, *records: bytes, acks: int = 1) -> None:
    partitions = [ProducePartition(topic="orders", partition=0, records=each) for each in records]
    await produce_handler(broker.partitions).handle(
        ProduceRequest(request_id=7, acks=acks, timeout_ms=30_000, partitions=partitions)
    )


async def test_what_is_produced_counts_with_its_records_and_bytes(broker: Broker) -> None:
    lead_begun(broker.open())
    sent = [batch("a", "b"), batch("c")]
    for each in sent:
        await _produced(broker, each)
    counts = _of_orders(broker)
    assert (counts.appends, counts.failed_produces, counts.messages_in) == (2, 0, 3)
    assert counts.bytes_in == sum(map(len, sent))


async def test_what_is_refused_counts_as_failed(broker: Broker) -> None:
    lead(broker.open())
    await _produced(broker, batch("a"), acks=7)
    assert (_of_orders(broker).appends, _of_orders(broker).failed_produces) == (0, 1)


async def test_what_is_fetched_counts_when_it_is_answered_and_waits_until_then(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=60_000)))
    await settle()
    assert (broker.partitions.counts.fetches_waiting, _of_orders(broker).fetches) == (1, 0)
    append_to(partition, records := batch("a"), 1)
    broker.sync()
    await waiting
    counts = _of_orders(broker)
    assert (broker.partitions.counts.fetches_waiting, counts.fetches, counts.bytes_out) == (0, 1, len(records))
    await fetch_handler(broker.partitions).handle(request(asking(), max_wait_ms=0))
    assert (counts.fetches, counts.bytes_out) == (2, 2 * len(records))
    await fetch_handler(broker.partitions).handle(request(asking(9), max_wait_ms=0))
    assert (counts.fetches, counts.failed_fetches) == (2, 1)


async def test_a_produce_waits_until_its_replicas_have_it(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    answer = asyncio.ensure_future(_produced(broker, batch("a"), acks=-1))
    await settle()
    assert partition.produces_waiting == 1
    broker.sync()
    fetched(partition, 1)
    await answer
    assert partition.produces_waiting == 0


def test_an_isr_that_loses_or_gains_a_member_counts_once(broker: Broker) -> None:
    partition = broker.open()
    for epoch, isr in enumerate([(1, 2, 3), (1, 2), (1, 2), (1, 2, 3), (1,)]):
        lead(partition, replicas=(1, 2, 3), isr=isr, partition_epoch=epoch)
    counts = broker.partitions.counts
    assert (counts.isr_shrinks, counts.isr_expands) == (2, 1)


def test_replicas_of_a_topic_share_its_counts_until_the_last_is_gone(broker: Broker) -> None:
    first, second = broker.open(), broker.open(TopicPartition("orders", 1))
    assert first.counts is second.counts
    assert first.counts.broker is broker.partitions.counts
    first.counts.bytes_in = 7
    broker.partitions.remove(first)
    assert _of_orders(broker).bytes_in == 7
    broker.partitions.remove(second)
    assert broker.partitions.counts.topics == {}
    assert broker.open(ORDERS_0).counts.bytes_in == 0


def test_a_topic_that_comes_back_begins_anew() -> None:
    counts = BrokerCounts()
    before = counts.replica_added("orders")
    counts.replica_removed("orders")
    assert counts.replica_added("orders") is not before
