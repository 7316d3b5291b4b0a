from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import (
    ArrowChunk,
    ErrorCode,
    LogTruncated,
    OffsetAndTimestamp,
    PartitionColumns,
    RecordColumns,
    Refusal,
    TimestampType,
    TopicPartition,
    WantedColumns,
)
from kraft.log.format.record_codec import Record
from spark_connector import kraft_cluster
from spark_connector.cluster import ClusterError, Missing, OffsetOutOfRange, ReadStalled, Topic, TruncatedWhileRead
from spark_connector.connector import Connector
from tests.support.arrow_columns import chunk_of, offsets_of

COLUMNS = WantedColumns()
ORDERS_0 = TopicPartition("orders", 0)
STALLED = Refusal(ErrorCode.REQUEST_TIMED_OUT, "received nothing")
UNKNOWN = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic")


@dataclass
class FakeAdmin:
    """Knows these topics, as partition numbers; refuses commits as it is told."""

    known: dict[str, list[int]] = field(default_factory=dict)
    refusal: Refusal | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    timeouts_ms: list[int | None] = field(default_factory=list)
    committed: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)

    def opened(self, bootstrap_servers: Sequence[str], **settings: Any) -> FakeAdmin:
        self.settings = settings
        return self

    def find_topics(self, topics: Sequence[str] | None, *, timeout_ms: int | None) -> dict[str, Any]:
        self.timeouts_ms.append(timeout_ms)
        return {
            name: SimpleNamespace(
                topic_id=f"id of {name}", partitions=[SimpleNamespace(partition_index=n) for n in numbers]
            )
            for name, numbers in self.known.items()
            if topics is None or name in topics
        }

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int
    ) -> dict[TopicPartition, Refusal | None]:
        self.committed[group_id] = offsets
        return dict.fromkeys(offsets, self.refusal)


@dataclass
class FakeConsumer:
    parts: list[ArrowChunk | Refusal] = field(default_factory=list)
    sample: list[PartitionColumns | Refusal] = field(default_factory=list)
    found: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict)
    refusal: Refusal | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def opened(self, bootstrap_servers: Sequence[str], **settings: Any) -> FakeConsumer:
        self.settings = settings
        return self

    def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self.refusal is not None:
            raise self.refusal
        return dict.fromkeys(partitions, 7)

    end_offsets = beginning_offsets

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self.found

    def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int
    ) -> Iterator[PartitionColumns]:
        self.asked.append((start, end))
        for part in self.sample:
            if isinstance(part, Refusal):
                raise part
            yield part

    def read_arrow(
        self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns, timeout_ms: int
    ) -> Iterator[ArrowChunk]:
        assert wanted is COLUMNS
        for part in self.parts:
            if isinstance(part, Refusal):
                raise part
            yield part


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(kraft_cluster, "Admin", fake.opened)
    return fake


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    fake = FakeConsumer()
    monkeypatch.setattr(kraft_cluster, "Consumer", fake.opened)
    return fake


def connect(**settings: str) -> kraft_cluster.KraftCluster:
    return kraft_cluster.KraftCluster(["localhost:9094"], settings)


def part(*values: bytes, first_offset: int = 0) -> ArrowChunk:
    return chunk_of(ORDERS_0, [Record(first_offset + at, 5, b"k", value) for at, value in enumerate(values)])


def sampled(*values: bytes) -> PartitionColumns:
    count = len(values)
    columns = RecordColumns(list(range(count)), [5] * count, [b"k"] * count, list(values), [()] * count)
    return PartitionColumns(
        partition=ORDERS_0, timestamp_type=TimestampType.LOG_APPEND_TIME, columns=columns, next_offset=count
    )


def test_the_first_contact_is_given_ten_seconds_and_later_ones_the_clients_own_time(admin: FakeAdmin) -> None:
    admin.known = {"orders": [1, 0], "payments": [0]}
    cluster = connect()
    assert cluster.topics(["orders", "absent"]) == {"orders": Topic(topic_id="id of orders", partitions=(0, 1))}
    assert sorted(cluster.topics(None)) == ["orders", "payments"]
    assert admin.timeouts_ms == [10_000, None]


def test_settings_reach_the_clients_that_know_them(admin: FakeAdmin, consumer: FakeConsumer) -> None:
    settings = {"isolation.level": "read_committed", "request.timeout.ms": "5000", "fetch.max.bytes": "9"}
    Connector(tuple(settings.items()))(["localhost:9094"])
    assert consumer.settings == settings
    assert admin.settings == {"request.timeout.ms": "5000"}


def test_times_become_offsets(consumer: FakeConsumer) -> None:
    orders_1 = TopicPartition("orders", 1)
    consumer.found = {ORDERS_0: OffsetAndTimestamp(4, 1000), orders_1: None}
    assert connect().offsets_at({ORDERS_0: 900, orders_1: 900}) == {ORDERS_0: 4, orders_1: None}


def test_look_ups_of_what_does_not_exist_name_it(consumer: FakeConsumer) -> None:
    assert connect().earliest_offsets([ORDERS_0]) == {ORDERS_0: 7}
    consumer.refusal = UNKNOWN
    for look_up in (connect().earliest_offsets, connect().latest_offsets):
        with pytest.raises(Missing, match="there is no topic"):
            look_up([ORDERS_0])
    consumer.refusal = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "orders-0 has no leader")
    with pytest.raises(ClusterError, match="has no leader"):
        connect().latest_offsets([ORDERS_0])


def test_an_offset_that_is_not_committed_is_an_error(admin: FakeAdmin) -> None:
    connect().commit_offsets("billing", {ORDERS_0: 4})
    assert admin.committed == {"billing": {ORDERS_0: 4}}
    admin.refusal = UNKNOWN
    with pytest.raises(ClusterError, match="there is no topic"):
        connect().commit_offsets("billing", {ORDERS_0: 4})


def test_the_size_of_records_is_that_of_the_first_ones(consumer: FakeConsumer) -> None:
    consumer.sample = [sampled(b"one", b"three"), sampled(b"x" * 1000)]
    assert connect().record_bytes(ORDERS_0, 0, 1_000_000) == 5.0
    assert consumer.asked == [(0, 1000)]
    for refusal in (UNKNOWN, STALLED, Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "deleted")):
        consumer.sample = [refusal]
        assert connect().record_bytes(ORDERS_0, 0, 4) is None
    consumer.sample = []
    assert connect().record_bytes(ORDERS_0, 0, 4) is None


def test_an_offset_out_of_range_is_raised_after_the_chunks_before_it(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"one"), Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "orders-0 does not hold offset 1")]
    chunks = connect().read(ORDERS_0, 0, 4, COLUMNS)
    next(chunks)
    with pytest.raises(OffsetOutOfRange, match="orders-0 does not hold offset 1"):
        next(chunks)


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refusal(ErrorCode.REQUEST_TIMED_OUT, "orders-0: received nothing"), ReadStalled),
        (UNKNOWN, Missing),
        (Refusal(ErrorCode.CORRUPT_MESSAGE, "orders-0: the batch is corrupt"), ClusterError),
    ],
)
def test_a_read_that_fails_otherwise_says_why(consumer: FakeConsumer, refusal: Refusal, error: type[Exception]) -> None:
    consumer.parts = [refusal]
    with pytest.raises(error, match=refusal.message):
        list(connect().read(ORDERS_0, 0, 4, COLUMNS))


def test_a_truncated_log_is_reported_without_the_clients_remedy(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"a", b"b"), LogTruncated(ORDERS_0, 2, 1)]
    chunks = connect().read(ORDERS_0, 0, 9, COLUMNS)
    assert offsets_of(next(chunks)) == [0, 1]
    with pytest.raises(TruncatedWhileRead, match=r"orders-0: the log was truncated to offset 1.*hold other records$"):
        next(chunks)
