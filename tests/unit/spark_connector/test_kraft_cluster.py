from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import (
    ArrowChunk,
    ErrorCode,
    LogTruncated,
    Refusal,
    TopicPartition,
    WantedColumns,
)
from kraft.log.format.record_codec import Record
from spark_connector import kraft_cluster
from spark_connector.cluster import OffsetOutOfRange, TopicMissing, TruncatedWhileRead
from tests.support.arrow_columns import chunk_of, offsets_of

COLUMNS = WantedColumns()
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
    parts: list[ArrowChunk | Refusal] = field(default_factory=list)
    isolation_level: str = ""

    def opened(self, bootstrap_servers: Sequence[str], isolation_level: str) -> FakeConsumer:
        self.isolation_level = isolation_level
        return self

    def read_arrow(
        self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns
    ) -> Iterator[ArrowChunk]:
        assert wanted is COLUMNS
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


def part(*values: bytes, first_offset: int = 0) -> ArrowChunk:
    return chunk_of(ORDERS_0, [Record(first_offset + at, 5, b"k", value) for at, value in enumerate(values)])


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


def test_chunks_come_as_the_client_decoded_them(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"one", b"three"), part(b"x", first_offset=3)]
    assert list(kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4, COLUMNS)) == consumer.parts


def test_an_offset_out_of_range_is_raised_after_the_chunks_before_it(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"one"), Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "orders-0 does not hold offset 1")]
    chunks = kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4, COLUMNS)
    next(chunks)
    with pytest.raises(OffsetOutOfRange, match="orders-0 does not hold offset 1"):
        next(chunks)


def test_a_read_that_fails_otherwise_says_why(consumer: FakeConsumer) -> None:
    consumer.parts = [Refusal(ErrorCode.REQUEST_TIMED_OUT, "orders-0: nothing came")]
    with pytest.raises(Refusal, match="nothing came"):
        list(kraft_cluster.connect(["localhost:9094"]).read(ORDERS_0, 0, 4, COLUMNS))


def test_a_truncated_log_is_reported_without_the_clients_remedy(consumer: FakeConsumer) -> None:
    consumer.parts = [part(b"a", b"b"), LogTruncated(ORDERS_0, 2, 1)]
    chunks = kraft_cluster.KraftCluster(["any:1"]).read(ORDERS_0, 0, 9, COLUMNS)
    assert offsets_of(next(chunks)) == [0, 1]
    with pytest.raises(TruncatedWhileRead, match=r"orders-0: the log was truncated to offset 1.*hold other records$"):
        next(chunks)
