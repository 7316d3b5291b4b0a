from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.client.aio.admin import Admin
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.delete_records import HIGH_WATERMARK
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.wire.schema.delete_records import DeleteRecordsResponse
from tests.support.client import fake_cluster
from tests.support.client.deletion_answers import deleted_records
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def admin_of(cluster: FakeCluster, **settings: Any) -> Admin:
    return Admin(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


def orders(*counts: int) -> FakeCluster:
    """A cluster with a topic that has so many records in each partition, each led by another broker."""
    cluster = FakeCluster()
    for partition, count in zip(cluster.create("orders", len(counts)), counts, strict=True):
        partition.append(build_batch([Record(-1, 5, None, b"v")] * count))
    return cluster


async def test_each_partition_is_asked_for_at_its_leader_and_answers_with_its_low_watermark() -> None:
    cluster = orders(10, 20)
    async with admin_of(cluster) as admin:
        deleted = await admin.delete_records({ORDERS_1: HIGH_WATERMARK, ORDERS_0: 4})
        assert list(deleted.items()) == [(ORDERS_1, 20), (ORDERS_0, 4)]
    assert cluster.partition("orders", 0).log_start_offset == 4
    asked = [call for call in cluster.calls if call.endswith("delete_records")]
    assert sorted(asked) == ["broker-1:9094 delete_records", "broker-2:9094 delete_records"]


async def test_a_leader_that_has_just_moved_is_looked_for_again() -> None:
    cluster = orders(10)
    async with admin_of(cluster) as admin:
        assert await admin.delete_records({ORDERS_0: 1}) == {ORDERS_0: 1}
        cluster.move_leader("orders", 0, 3)
        assert await admin.delete_records({ORDERS_0: 2}) == {ORDERS_0: 2}


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST])
async def test_a_refused_call_is_repeated_if_that_may_help(code: ErrorCode) -> None:
    cluster = orders(10, 20)
    cluster.brokers[1].refusals["delete_records"] = Refusal(code, "the call is refused")
    async with admin_of(cluster) as admin:
        if code.retriable:
            assert await admin.delete_records({ORDERS_0: 1, ORDERS_1: 2}) == {ORDERS_0: 1, ORDERS_1: 2}
        else:
            with pytest.raises(Refusal, match="INVALID_REQUEST: orders-0: the call is refused"):
                await admin.delete_records({ORDERS_0: 1, ORDERS_1: 2})
            assert cluster.partition("orders", 1).log_start_offset == 2


async def test_what_is_refused_is_raised_after_the_rest_was_deleted() -> None:
    cluster = orders(10, 20)
    async with admin_of(cluster) as admin:
        with pytest.raises(Refusal, match="orders-0: the offset is above the high watermark") as caught:
            await admin.delete_records({ORDERS_0: 11, ORDERS_1: 5})
        assert caught.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.partition("orders", 1).log_start_offset == 5


async def test_a_partition_or_topic_that_does_not_exist_is_named() -> None:
    async with admin_of(orders(1)) as admin:
        with pytest.raises(Refusal, match="partitions 0 to 0, not 1"):
            await admin.delete_records({ORDERS_1: 0})
        with pytest.raises(Refusal, match="'ordres'"):
            await admin.delete_records({TopicPartition("ordres", 0): 0})


async def test_each_partition_that_cannot_be_done_is_named_and_the_others_are_done() -> None:
    cluster = orders(10, 20)
    missing, unled = TopicPartition("ordres", 0), TopicPartition("bills", 0)
    cluster.create("bills")
    cluster.move_leader("bills", 0, -1)
    async with admin_of(cluster, default_api_timeout_ms=7_000) as admin:
        asked = {missing: 0, ORDERS_0: 4, unled: 0, TopicPartition("orders", 2): 0, ORDERS_1: 21}
        found = await admin.delete_records_of_many(asked)
    assert list(found) == list(asked)
    assert (found[ORDERS_0], cluster.partition("orders", 0).log_start_offset) == (4, 4)
    assert [str(each) for each in found.values() if isinstance(each, Refusal)] == [
        "UNKNOWN_TOPIC_OR_PARTITION: ordres-0: topic 'ordres' does not exist",
        "LEADER_NOT_AVAILABLE: bills-0 has no leader",
        "UNKNOWN_TOPIC_OR_PARTITION: topic 'orders' has partitions 0 to 1, not 2",
        "OFFSET_OUT_OF_RANGE: orders-1: the offset is above the high watermark",
    ]


async def test_a_topic_that_was_deleted_since_it_was_looked_up_is_not_waited_for() -> None:
    cluster = orders(10)
    async with admin_of(cluster) as admin:
        await admin.delete_records({ORDERS_0: 1})
        del cluster.topics["orders"]
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(Refusal, match="UNKNOWN_TOPIC_OR_PARTITION: orders-0: topic 'orders' does not exist"):
            await admin.delete_records({ORDERS_0: 2})
        assert asyncio.get_running_loop().time() - started_s < 7


async def test_a_missing_topic_leaves_the_others_time_for_a_second_attempt() -> None:
    cluster = orders(10)
    cluster.brokers[1].refusals["delete_records"] = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader moved")
    async with admin_of(cluster) as admin:
        found = await admin.delete_records_of_many({TopicPartition("ordres", 0): 0, ORDERS_0: 4}, timeout_ms=1_900)
    assert found[ORDERS_0] == 4


async def test_a_topic_that_the_refusal_names_is_not_named_again() -> None:
    cluster = orders(1)
    async with admin_of(cluster) as admin:
        for message in ("topic 'orders' is internal", "orders-0: not now"):
            cluster.brokers[1].refusals["delete_records"] = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            with pytest.raises(Refusal, match=f"^INVALID_TOPIC_EXCEPTION: {message}$"):
                await admin.delete_records({ORDERS_0: 0})


async def test_without_a_leader_the_call_ends_at_its_deadline() -> None:
    cluster = orders(1)
    cluster.move_leader("orders", 0, -1)
    async with admin_of(cluster) as admin:
        with pytest.raises(Refusal) as caught:
            await admin.delete_records({ORDERS_0: 0}, timeout_ms=5_000)
        assert caught.value.error_code is ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_leader_that_does_not_answer_is_named() -> None:
    cluster = orders(1)
    async with admin_of(cluster) as admin:
        await admin.delete_records({ORDERS_0: 0})
        cluster.brokers[1].hangs = True
        with pytest.raises(NoBrokerReachable, match="broker-1:9094"):
            await admin.delete_records({ORDERS_0: 1}, timeout_ms=5_000)


async def test_a_partition_that_the_response_lacks_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = orders(10)
    asked = []

    def answer(*given: Any) -> DeleteRecordsResponse:
        asked.append(given)
        return DeleteRecordsResponse(topics=()) if len(asked) == 1 else deleted_records(*given)

    monkeypatch.setattr(fake_cluster, "deleted_records", answer)
    async with admin_of(cluster) as admin:
        assert await admin.delete_records({ORDERS_0: 4}) == {ORDERS_0: 4}
    assert len(asked) == 2
