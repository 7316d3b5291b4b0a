"""What a task writes, under which transactional id, and what it tells the driver."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from kraft.client import ColumnsToSend, ErrorCode, PreparedTransaction, Refusal, Unreachable
from spark_connector import sink, sink_clients
from spark_connector.given import OptionError
from spark_connector.sink import KraftBatchWriter, KraftStreamWriter, SinkError, Written
from spark_connector.sink_ids import TransactionalIds
from spark_connector.sink_options import SinkOptions

OPTIONS = SinkOptions(bootstrap_servers=("a:1",), topic="orders")
AT_LEAST_ONCE = SinkOptions(bootstrap_servers=("a:1",), topic="orders", is_exactly_once=False)
VALUES = StructType([StructField("value", BinaryType())])
REFUSAL = Refusal(ErrorCode.MESSAGE_TOO_LARGE, "too large")


@dataclass
class FakeProducer:
    """Notes its calls. The last records sent are refused if that is asked for, when all have been sent."""

    transactional_id: str
    refuses: bool = False
    calls: list[str] = field(default_factory=list)
    sent: list[bytes | None] = field(default_factory=list)
    futures: list[Future[Any]] = field(default_factory=list)

    def partitions_for(self, topic: str) -> list[int]:
        return [0]

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def send_columns(self, topic: str, columns: ColumnsToSend) -> Future[Any]:
        self.sent += columns.values
        self.futures.append(Future())
        return self.futures[-1]

    def prepare_transaction(self) -> PreparedTransaction:
        self.calls.append("prepare")
        if self.refuses:
            raise REFUSAL
        return PreparedTransaction(transactional_id=self.transactional_id, producer_id=1, producer_epoch=0)

    def flush(self) -> None:
        self.calls.append("flush")
        for future in self.futures[:-1]:
            future.set_result(None)
        if self.refuses:
            self.futures[-1].set_exception(REFUSAL)
        else:
            self.futures[-1].set_result(None)

    def close(self, timeout_ms: int | None = None) -> None:
        self.calls.append("close")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class FakeClients:
    """The clients of one process."""

    def __init__(self) -> None:
        self.ids = TransactionalIds()
        self.producers: list[FakeProducer] = []
        self.refuses = False
        self.new = 0
        configs = [SimpleNamespace(name="max.message.bytes", value="1000")]
        self.admin = SimpleNamespace(new_transactional_id=self._new_id, describe_topic_configs=lambda topic: configs)

    def transactional_producer(self, options: SinkOptions, transactional_id: str, *, is_temporary: bool) -> Any:
        return self._opened(transactional_id)

    def producer(self, options: SinkOptions) -> Any:
        return self._opened("")

    def _opened(self, transactional_id: str) -> FakeProducer:
        self.producers.append(FakeProducer(transactional_id, self.refuses))
        return self.producers[-1]

    def _new_id(self, committer: str, timeout_ms: int) -> str:
        self.new += 1
        return f"{committer}/{self.new}"


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeClients:
    fake = FakeClients()
    monkeypatch.setattr(sink_clients, "clients", lambda servers: fake)
    return fake


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs one attempt of a task of query `q`, which gets these values, one a batch."""

    def run(
        *values: str,
        options: SinkOptions = OPTIONS,
        writer: type[KraftStreamWriter | KraftBatchWriter] = KraftStreamWriter,
        batch: int = 0,
        task: int = 0,
        attempt: int = 0,
    ) -> Written:
        properties = {
            "sql.streaming.queryId": "q",
            "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": "run",
        }
        context = SimpleNamespace(
            partitionId=lambda: task, attemptNumber=lambda: attempt, getLocalProperty=properties.get
        )
        monkeypatch.setattr(TaskContext, "get", lambda: context)
        return writer(options, VALUES).write(batches(*values))

    return run


def batches(*values: str) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("value", pa.binary())])
    for value in values:
        yield pa.RecordBatch.from_pylist([{"value": value.encode()}] if value else [], schema)


def test_a_task_leaves_its_transaction_open_and_tells_the_driver(process: FakeClients, write: Any) -> None:
    found = write("a", "", "b")
    [producer] = process.producers
    assert producer.calls == ["begin", "prepare", "close"]
    assert producer.sent == [b"a", b"b"]
    assert (found.committer, found.transaction.transactional_id) == ("kraft-spark-q-orders", "kraft-spark-q-orders/1")
    assert found.records == 2


def test_a_task_without_records_writes_nothing(process: FakeClients, write: Any) -> None:
    assert write("", "") == Written()
    assert process.producers == []


def test_queries_that_write_to_different_topics_commit_apart(process: FakeClients, write: Any) -> None:
    other = SinkOptions(bootstrap_servers=("a:1",), topic="payments")
    assert write("a").committer != write("a", options=other).committer


def test_the_driver_is_told_when_earlier_attempts_may_have_left_transactions(process: FakeClients, write: Any) -> None:
    assert write("a").may_have_lost, "the first of this process in this run: what ran before is not known"
    assert not write("a", task=1).may_have_lost
    assert not write("a", batch=1).may_have_lost
    assert write("a", batch=1, task=1, attempt=1).may_have_lost


def test_an_id_is_used_again_by_the_next_batch_and_never_within_one(process: FakeClients, write: Any) -> None:
    ids = [write("a", batch=batch, task=task).transaction.transactional_id for batch in (0, 1) for task in (0, 1)]
    assert len(set(ids[:2])) == 2
    assert set(ids[2:]) == set(ids[:2])
    # The id of an attempt that fails is not free for the next attempt.
    assert write("a", batch=1, attempt=1).transaction.transactional_id not in ids


def test_a_producer_that_was_refused_is_closed(process: FakeClients, write: Any) -> None:
    process.refuses = True
    with pytest.raises(SinkError, match="too large"):
        write("a")
    assert process.producers[0].calls == ["begin", "prepare", "close"]


def test_a_cluster_that_does_not_answer_is_named_in_one_line(process: FakeClients, write: Any) -> None:
    def unreachable(committer: str, timeout_ms: int) -> str:
        raise Unreachable("a:1", "connection refused")

    process.admin.new_transactional_id = unreachable
    with pytest.raises(SinkError, match=r"^a:1 cannot be reached: connection refused$"):
        write("a")


def test_too_many_tasks_are_refused_before_one_writes(process: FakeClients, write: Any) -> None:
    write("a", task=sink.TASKS_THAT_FIT - 1)
    with pytest.raises(SinkError, match="3001 tasks or more are too many"):
        write("a", task=sink.TASKS_THAT_FIT)
    assert len(process.producers) == 1


def test_at_least_once_a_task_ends_when_all_is_stored(process: FakeClients, write: Any) -> None:
    assert write("a", "b", options=AT_LEAST_ONCE) == Written(records=2)
    assert process.producers[0].calls == ["flush", "close"]
    process.refuses = True
    with pytest.raises(SinkError, match="too large"):
        write("a", "b", options=AT_LEAST_ONCE)


def test_an_application_writes_its_version_once_to_each_topic(process: FakeClients, write: Any) -> None:
    def committer(topic: str | None) -> str:
        options = SinkOptions(bootstrap_servers=("a:1",), topic=topic, app_id="nightly", app_version=7)
        return str(write("a", options=options, writer=KraftBatchWriter).committer)

    assert committer("orders") == committer("orders") == "kraft-spark-nightly:orders"
    assert committer("payments") == "kraft-spark-nightly:payments"


def test_a_stream_refuses_the_version_of_an_application() -> None:
    options = SinkOptions(bootstrap_servers=("a:1",), topic="orders", app_id="nightly", app_version=7)
    with pytest.raises(OptionError, match="txnAppId and txnVersion are for batches"):
        KraftStreamWriter(options, VALUES)
