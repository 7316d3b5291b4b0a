"""Topics that a consumer does not know yet, among others."""

from __future__ import annotations

import asyncio

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS
from kraft.client.model.errors import AuthenticationFailed
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.client.fake_cluster import FakeBroker, FakeCluster, tp
from tests.support.virtual_time import virtual_network
from tests.unit.client.clients import consumer_of, fill, read


def with_orders() -> FakeCluster:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 5)
    return cluster


async def test_topics_that_exist_are_read_while_others_are_waited_for() -> None:
    cluster = with_orders()
    cluster.create("payments")
    fill(cluster, "payments", 3)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        began_s = asyncio.get_running_loop().time()
        consumer.assign([tp("orders"), tp("ordres")])
        assert len(await read(consumer, 5)) == 5
        consumer.assign([tp("orders"), tp("ordres"), tp("payments")])
        assert len(await read(consumer, 3)) == 3
        assert asyncio.get_running_loop().time() - began_s < 0.1
        with pytest.raises(Refusal, match="topic 'ordres' does not exist"):
            await consumer.poll(timeout_ms=30_000)


async def test_all_missing_topics_are_errors_after_the_time_of_one() -> None:
    cluster = with_orders()
    missing = [tp(f"missing-{number}") for number in range(100)]
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        began_s = asyncio.get_running_loop().time()
        consumer.assign(missing)
        errors = set()
        for _ in missing:
            with pytest.raises(Refusal, match="does not exist") as caught:
                await consumer.poll(timeout_ms=30_000)
            errors.add(str(caught.value))
            consumer.assign([each for each in missing if f"{each.topic!r}" not in "".join(errors)])
        assert len(errors) == len(missing)
        assert asyncio.get_running_loop().time() - began_s < 2 * MISSING_TOPIC_GRACE_MS / 1_000


async def test_a_name_for_which_a_whole_request_is_refused_is_no_error_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described = FakeBroker.metadata
    asked: list[list[str | None]] = []

    def metadata(broker: FakeBroker, request: MetadataRequest) -> MetadataResponse:
        asked.append([topic.name for topic in request.topics or ()])
        if "" in asked[-1]:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is empty: give one")
        return described(broker, request)

    monkeypatch.setattr(FakeBroker, "metadata", metadata)
    async with consumer_of(with_orders(), auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders"), tp("")])
        with pytest.raises(Refusal, match="the topic name is empty"):
            await consumer.poll(timeout_ms=30_000)
        consumer.assign([tp("orders")])
        assert len(await read(consumer, 5)) == 5
        assert all(len(names) == 1 for names in asked[1:])


async def test_a_refused_login_is_told_once_for_all_topics() -> None:
    cluster = with_orders()
    cluster.brokers[1].refusals["metadata"] = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "no login")
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders"), tp("payments")])
        with pytest.raises(AuthenticationFailed, match="no login"):
            await consumer.poll(timeout_ms=30_000)
    assert cluster.calls.count("broker-1:9094 metadata") == 1


async def test_a_topic_is_not_looked_for_again_before_its_error_was_raised() -> None:
    cluster = with_orders()
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("ordres")])
        await consumer.poll(timeout_ms=1)
        await asyncio.sleep(MISSING_TOPIC_GRACE_MS / 1_000)
        asked = len(cluster.calls)
        consumer.assign([tp("ordres"), tp("orders")])
        await asyncio.sleep(60)
        assert cluster.described[asked:] == ["orders"]


async def test_a_producer_looks_up_many_topics_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    described, asked = FakeBroker.metadata, list[int]()

    def metadata(broker: FakeBroker, request: MetadataRequest) -> MetadataResponse:
        asked.append(len(request.topics or ()))
        return described(broker, request)

    cluster, names = FakeCluster(brokers=1), [f"orders-{number}" for number in range(100)]
    for name in names:
        cluster.create(name)
    monkeypatch.setattr(FakeBroker, "metadata", metadata)
    async with Producer(cluster.bootstrap_servers, network=virtual_network(cluster)) as producer:
        await producer.find_topics(names)
        for name in names:
            await producer.send(name, b"")
    assert asked == [100]
