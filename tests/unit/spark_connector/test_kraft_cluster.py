from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import (
    ErrorCode,
    LogTruncated,
    PartitionColumns,
    RecordColumns,
    Refusal,
    TimestampType,
    TopicPartition,
)
from spark_connector import kraft_cluster
from spark_connector.cluster import ColumnChunk, OffsetOutOfRange, TopicMissing, TruncatedWhileRead

ORDERS_0 = TopicPartition("orders", 0)
UNKNOWN = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic")


@dataclass
class FakeAdmin:
    """Answers with what it is given, one after the other; refuses with the exceptions among them."""

    answers: list[Refusal | list[int]] = field(default_factory=list)
    timeouts_ms: list[int | None] = field(default_factory=list)

    def describe_topics(self, topics: Sequence[str], *, timeout_ms: int | None) -> list[Any]:
        self.timeouts_ms.append(timeout_ms)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Refusal):
            raise answer
        partitions = [SimpleNamespace(partition=number) for number in answer]
        return [SimpleNamespace(metadata=SimpleNamespace(partitions=partitions))]


@dataclass
class FakeConsumer:
    parts: list[PartitionColumns | Refusal] = field(default_factory=list)
    isolation_level: str = ""

    def opened(self, bootstrap_servers: Sequence[str], isolation_level: str) -> FakeConsumer:
        self.isolation_level = isolation_level
        return self

    def read_columns(self, partition: TopicPartition, start: int, end: int) -> Iterator[PartitionColumns]:
        for part in self.parts:
            if isinstance(part, Refusal):
                raise part
            yield part


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(kraft_cluster, "Admin", lambda bootstrap_servers: fake)
    return fake


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    fake = FakeConsumer()
    monkeypatch.setattr(kraft_cluster, "Consumer", fake.opened)
    return fake


def part(*values: bytes, first_offset: int = 0) -> PartitionColumns:
    count = len(values)
    columns = RecordColumns(
        list(range(first_offset, first_offset + count)), [5] * count, [b"k"] * count, list(values), [()] * count
    )
    return PartitionColumns(
        partition=ORDERS_0,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        columns=columns,
        next_offset=first_offset + max(1, count),
    )


def test_the_first_contact_is_given_ten_seconds_and_later_ones_the_clients_own_time(admin: FakeAdmin) -> None:
    admin.answers = [[0, 1]]
    cluster = kraft_cluster.connect(["localhost:9094"])
    assert cluster.partitions("orders") == [0, 1]
    assert cluster.partitions("orders") == [0, 1]
    assert admin.timeouts_ms == [10_000, None]


def test_a_topic_that_a_young_broker_does_not_know_yet_is_waited_for(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kraft_cluster, "_MISSING_TOPIC_POLL_S", 0.0)
    admin.answers = [UNKNOWN, UNKNOWN, [0]]
    assert kraft_cluster.connect(["localhost:9094"]).partitions("orders") == [0]


def test_a_topic_that_stays_unknown_is_missing(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraft_cluster, "MISSING_TOPIC_GRACE_S", -1.0)
    admin.answers = [UNKNOWN]
    with pytest.raises(TopicMissing, match="topic 'orders' does not exist"):
        kraft_cluster.connect(["localhost:9094"]).partitions("orders")


def test_any_other_refusal_passes_as_it_is(admin: FakeAdmin) -> None:
    admin.answers = [Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "topic 'a/b': '/' is not allowed")]
    with pytest.raises(Refusal, match="'/' is not allowed"):
        kraft_cluster.connect(["localhost:9094"]).partitions("a/b")


def test_committed_records_are_read_unless_others_are_asked_for(consumer: FakeConsumer) -> None:
    kraft_cluster.connect(["localhost:9094"])
    assert consumer.isolation_level == "read_committed"
    kraft_cluster.connect_uncommitted(["localhost:9094"])
    assert consumer.isolation_level == "read_uncommitted"


def test_batches_become_chunks_and_those_without_records_are_passed_over(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"one", b"three"), part(first_offset=2), part(b"x", first_offset=3)]
    chunks = list(kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4))
    assert [list(chunk.offsets) for chunk in chunks] == [[0, 1], [3]]
    assert chunks[0] == ColumnChunk(
        offsets=[0, 1],
        timestamps_ms=[5, 5],
        timestamp_type=1,
        keys=[b"k", b"k"],
        values=[b"one", b"three"],
        headers=[(), ()],
        size_bytes=10,
    )


def test_an_offset_out_of_range_is_raised_after_the_chunks_before_it(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"one"), Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "orders-0 does not hold offset 1")]
    chunks = kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4)
    next(chunks)
    with pytest.raises(OffsetOutOfRange, match="orders-0 does not hold offset 1"):
        next(chunks)


def test_a_read_that_fails_otherwise_says_why(consumer: FakeConsumer) -> None:
    consumer.parts = [Refusal(ErrorCode.REQUEST_TIMED_OUT, "orders-0: nothing came")]
    with pytest.raises(Refusal, match="nothing came"):
        list(kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4))


def test_a_truncated_log_is_reported_without_the_clients_remedy(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"a", b"b"), LogTruncated(ORDERS_0, 2, 1)]
    chunks = kraft_cluster.KraftCluster(["any:1"]).read(ORDERS_0, 0, 9)
    assert len(next(chunks).offsets) == 2
    with pytest.raises(TruncatedWhileRead, match=r"orders-0: the log was truncated to offset 1.*hold other records$"):
        next(chunks)
