from __future__ import annotations

import pytest

from kraft.cli.groups.unread_records import first_timestamps
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from tests.support.client.fake_cluster import FakeCluster, tp

DEADLINE_MS = 60_000


@pytest.fixture(autouse=True)
def topic(cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=4)


def put(cluster: FakeCluster, partition: int, *timestamps_ms: int) -> None:
    records = [Record(-1, timestamp_ms, None, b"value") for timestamp_ms in timestamps_ms]
    cluster.partition("orders", partition).append(build_batch(records))


def timestamps(cluster: FakeCluster, *unread: tuple[int, range]) -> dict[tuple[int, int], int]:
    ranges = [(tp("orders", partition), offsets) for partition, offsets in unread]
    found = first_timestamps(cluster.bootstrap_servers, ranges, DEADLINE_MS)
    return {(partition.partition, start): timestamp_ms for (partition, start), timestamp_ms in found.items()}


def test_the_first_record_from_the_committed_offset_on_is_found(cluster: FakeCluster) -> None:
    put(cluster, 0, 1_000, 1_001, 1_002)
    put(cluster, 0, 1_003)
    put(cluster, 1, 2_000)
    found = timestamps(cluster, (0, range(2, 4)), (1, range(1)), (2, range(0)))
    assert found == {(0, 2): 1_002, (1, 0): 2_000}


def test_groups_may_have_committed_different_offsets_of_a_partition(cluster: FakeCluster) -> None:
    put(cluster, 0, 1_000, 1_001, 1_002)
    put(cluster, 0, 1_003)
    put(cluster, 1, 2_000)
    found = timestamps(cluster, (0, range(3, 4)), (0, range(4)), (0, range(3, 4)), (1, range(1)), (0, range(1, 4)))
    assert found == {(0, 0): 1_000, (0, 1): 1_001, (0, 3): 1_003, (1, 0): 2_000}


def test_if_the_committed_offset_was_deleted_the_first_record_kept_is_the_next_one(cluster: FakeCluster) -> None:
    put(cluster, 0, 1_000, 1_001)
    put(cluster, 0, 1_002)
    partition = cluster.partition("orders")
    partition.log_start_offset = 2
    del partition.batches[0]
    assert timestamps(cluster, (0, range(1, 3))) == {(0, 1): 1_002}


def test_nothing_unread_asks_no_broker(cluster: FakeCluster) -> None:
    assert timestamps(cluster, (0, range(5, 5)), (1, range(7, 5))) == {}
    assert cluster.calls == []


def test_a_partition_that_cannot_be_read_is_left_out(cluster: FakeCluster) -> None:
    put(cluster, 0, 1_000)
    put(cluster, 1, 1_001)
    damaged = bytearray(cluster.partition("orders", 1).batches[0])
    damaged[-1] ^= 1
    cluster.partition("orders", 1).batches[0] = bytes(damaged)
    assert timestamps(cluster, (0, range(1)), (1, range(1))) == {(0, 0): 1_000}
