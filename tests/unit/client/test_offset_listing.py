from __future__ import annotations

import pytest

from kraft.client import OffsetAndTimestamp, Refusal
from kraft.model.errors import ErrorCode
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.unit.client.clients import admin_of, consumer_of, fill


async def test_the_first_record_at_a_time_is_found_at_the_leader_of_each_partition() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3)
    for partition, count in enumerate((10, 20)):
        fill(cluster, "orders", count, partition)
    cluster.partition("orders", 1).log_start_offset = 4
    async with admin_of(cluster) as admin:
        asked = {tp("orders"): 31, tp("orders", 1): EARLIEST_TIMESTAMP, tp("orders", 2): LATEST_TIMESTAMP}
        assert await admin.list_offsets(asked) == {
            tp("orders"): OffsetAndTimestamp(4, 40),
            tp("orders", 1): OffsetAndTimestamp(4, -1),
            tp("orders", 2): OffsetAndTimestamp(0, -1),
        }
        assert await admin.list_offsets({tp("orders"): 91}) == {tp("orders"): OffsetAndTimestamp(-1, -1)}
        assert await admin.list_offsets({}) == {}


async def test_a_partition_that_cannot_be_asked_does_not_hide_the_others() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    cluster.move_leader("orders", 1, -1)
    async with admin_of(cluster, default_api_timeout_ms=2_000) as admin:
        found = await admin.list_offsets({tp("orders", number): LATEST_TIMESTAMP for number in range(3)})
        assert found[tp("orders", 0)] == OffsetAndTimestamp(0, -1)
        codes = [each.error_code if isinstance(each, Refusal) else each for each in list(found.values())[1:]]
        assert set(codes) == {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_topic_that_does_not_exist_is_named_and_does_not_hide_the_others() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with admin_of(cluster) as admin, consumer_of(cluster) as consumer:
        found = await admin.list_offsets(dict.fromkeys((tp("bills"), tp("orders"), tp("bills", 1)), LATEST_TIMESTAMP))
        assert found.pop(tp("orders")) == OffsetAndTimestamp(0, -1)
        said = "UNKNOWN_TOPIC_OR_PARTITION: topic 'bills' does not exist"
        assert {each: str(error) for each, error in found.items()} == {tp("bills"): said, tp("bills", 1): said}
        with pytest.raises(Refusal, match=said):
            await consumer.end_offsets([tp("orders"), tp("bills")])
