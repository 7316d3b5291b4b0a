"""Writes the records of a batch or a stream: tasks write, and the driver commits what they wrote (docs/adr/0037).

Each attempt of a task writes in a transaction of its own, and leaves it open. The driver commits the transactions of a
micro-batch in one request, which the coordinator carries out once for each batch id, as a whole or not at all. What a
lost or superfluous attempt has written is never committed: its transaction is aborted, or times out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector.arrow_stream_writer import DataSourceStreamArrowWriter
from spark_connector.given import OptionError
from spark_connector.sink_columns import Rows, check_schema, rows_of
from spark_connector.sink_ids import Use
from spark_connector.sink_options import SinkOptions

if TYPE_CHECKING:
    from kraft.client import PreparedTransaction, Producer
    from spark_connector.sink_clients import Clients

FIRST_CONTACT_TIMEOUT_MS: Final = 10_000
"""Short, so that a wrong address fails soon. Calls after the first answer have the client's default timeout."""

TASKS_THAT_FIT: Final = 3_000
"""Tasks whose transactions are committed together with the default configuration of a cluster; more may be."""

_RECORD_BYTES: Final = 110
"""The least that the coordinator records for each transaction beside its id."""

_TRANSACTIONS_TOPIC: Final = "__transaction_state"

ABORT_TIMEOUT_MS: Final = 5_000
"""Time to abort what a failed batch has written; later, it ends at its transaction.timeout.ms."""

CLOSE_AFTER_ERROR_MS: Final = 5_000

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Changes with each start of a query."""

log = logging.getLogger("spark_connector")


class SinkError(Exception):
    """Records could not be written. The text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Commit message of one attempt of a task."""

    committer: str = ""
    """Transactional id under which the driver commits; empty if there is nothing to commit."""

    transaction: PreparedTransaction | None = None
    records: int = 0
    may_have_lost: bool = False
    """True if earlier attempts may have left transactions open: of this task, or of an earlier run of the query."""


class KraftBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: all of it or nothing becomes visible to readers of committed records."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options.topic)
        self._options = options
        # Spark pickles this object for the tasks, and for the commit.
        self._committer = f"{options.id_prefix}-{_app(options) or uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self._options, self._attempt, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit(self._options, messages, self._options.app_version)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort(self._options, messages, self._committer)

    def _attempt(self, context: TaskContext) -> Attempt:
        return Attempt(self._committer, None, context.partitionId(), context.attemptNumber())


def _app(options: SinkOptions) -> str | None:
    """Return what a version counts for: the application's writes to this topic. No topic has a colon in its name."""
    return f"{options.app_id}:{options.topic}" if options.app_id and options.topic else options.app_id


class KraftStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query. Each is committed once, also if it is run again from the checkpoint."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options.topic)
        if options.app_id is not None:
            raise OptionError("options txnAppId and txnVersion are for batches: leave them out, a stream has its own")
        self.schema = schema
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self._options, self._attempt, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        commit(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        abort(self._options, messages)

    def _attempt(self, context: TaskContext) -> Attempt:
        query_id = context.getLocalProperty(_QUERY_ID)
        if not query_id:
            raise SinkError("Spark did not tell the task its query: set delivery.guarantee=at-least-once")
        # A query that writes to another topic from now on begins anew.
        committer = "-".join(filter(None, (self._options.id_prefix, query_id, self._options.topic)))
        use = Use(context.getLocalProperty(_RUN_ID), context.getLocalProperty(_BATCH_ID))
        return Attempt(committer, use, context.partitionId(), context.attemptNumber())


# --- tasks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task, and what it commits under."""

    committer: str
    use: Use | None
    """The micro-batch of a stream; None for a batch write, whose ids nobody uses again."""

    partition: int
    number: int


def write(
    options: SinkOptions, attempt_of: Callable[[TaskContext], Attempt], batches: Iterator[pa.RecordBatch]
) -> Written:
    """Write what one attempt of a task gets. Its records are stored when this returns."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Written()
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    with _one_line():
        # Importing gRPC takes a tenth of a second, and the processes that only plan do without.
        from spark_connector.sink_clients import clients

        found = clients(options)
        all_batches = chain((first,), filled)
        if not options.is_exactly_once:
            return _write_at_least_once(options, found, all_batches)
        return _write_in_transaction(options, found, attempt_of(context), all_batches)


def _write_in_transaction(
    options: SinkOptions, found: Clients, attempt: Attempt, batches: Iterator[pa.RecordBatch]
) -> Written:
    use = attempt.use
    may_have_lost = attempt.number > 0 or (use is not None and found.ids.is_new(attempt.committer, use))
    transactional_id = _transactional_id(found, attempt)
    if attempt.partition >= TASKS_THAT_FIT:
        _check_tasks(found, attempt.partition + 1, len(transactional_id.encode()))
    producer = found.transactional_producer(options, transactional_id, is_temporary=use is None)
    try:
        producer.begin_transaction()
        records = _send_all(options, producer, batches, [])
        transaction = producer.prepare_transaction()
    except BaseException:
        producer.close(CLOSE_AFTER_ERROR_MS)
        raise
    producer.close()
    return Written(attempt.committer, transaction, records, may_have_lost)


def _transactional_id(found: Clients, attempt: Attempt) -> str:
    committer, use = attempt.committer, attempt.use
    if use is not None and (free := found.ids.take(committer, use)) is not None:
        return free
    new = found.admin.new_transactional_id(committer, timeout_ms=FIRST_CONTACT_TIMEOUT_MS)
    if use is not None:
        found.ids.add(committer, new, use)
    return new


def _check_tasks(found: Clients, tasks: int, id_bytes: int) -> None:
    """Raise SinkError before anything is written if so many tasks cannot be committed together."""
    configs = {each.name: each.value for each in found.admin.describe_topic_configs(_TRANSACTIONS_TOPIC)}
    size_max = int(configs["max.message.bytes"] or 0)
    if tasks * (id_bytes + _RECORD_BYTES) > size_max:
        raise SinkError(
            f"{tasks} tasks or more are too many to commit together: coalesce the query to {TASKS_THAT_FIT}, "
            f"raise max.message.bytes of {_TRANSACTIONS_TOPIC}, or set delivery.guarantee=at-least-once"
        )


def _write_at_least_once(options: SinkOptions, found: Clients, batches: Iterator[pa.RecordBatch]) -> Written:
    sent: list[Future[Any]] = []
    with found.producer(options) as producer:
        records = _send_all(options, producer, batches, sent)
        producer.flush()
    for future in sent:
        future.result()
    return Written(records=records)


def _send_all(
    options: SinkOptions, producer: Producer, batches: Iterator[pa.RecordBatch], sent: list[Future[Any]]
) -> int:
    return sum(_send(options, producer, batch, sent) for batch in batches)


def _send(options: SinkOptions, producer: Producer, batch: pa.RecordBatch, sent: list[Future[Any]]) -> int:
    found = rows_of(batch, options.topic, lambda topic: len(producer.partitions_for(topic)))
    sent += [_send_rows(producer, rows) for rows in found]
    while sent and sent[0].done():
        sent.pop(0).result()
    return int(batch.num_rows)


def _send_rows(producer: Producer, rows: Rows) -> Future[Any]:
    from kraft.client import ColumnsToSend

    columns = ColumnsToSend(values=rows.values, keys=rows.keys, headers=rows.headers, partitions=rows.partition)
    return producer.send_columns(rows.topic, columns)


# --- the driver ------------------------------------------------------------------------------------------------------


def commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], sequence: int) -> None:
    """Commit what the tasks have written, all or nothing, unless this sequence was committed before."""
    written = [each for each in messages if isinstance(each, Written) and each.transaction is not None]
    if not written:
        return
    committer, transactions = written[0].committer, _transactions(written)
    with _one_line():
        admin = _admin(options)
        is_new = admin.commit_transactions(committer, sequence, transactions)
        if not is_new:
            records = sum(each.records for each in written)
            event = "batch not written again, it was committed before: committer=%s batch=%d records=%d"
            log.warning(event, committer, sequence, records)
            _clean_up(lambda: admin.abort_transactions(transactions))
        if any(each.may_have_lost for each in written):
            kept = {each.transactional_id for each in transactions}
            _clean_up(lambda: admin.abort_other_transactions(committer, kept))


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], committer: str = "") -> None:
    """Abort what the tasks have written; what a commit has already decided stays committed."""
    if not options.is_exactly_once:
        return
    written = [each for each in messages if isinstance(each, Written) and each.transaction is not None]
    committer = committer or next((each.committer for each in written), "")
    if not committer:
        return
    admin = _admin(options)
    if written:
        _clean_up(lambda: admin.abort_transactions(_transactions(written), timeout_ms=ABORT_TIMEOUT_MS))
    _clean_up(lambda: admin.abort_other_transactions(committer, timeout_ms=ABORT_TIMEOUT_MS))


def _transactions(written: Sequence[Written]) -> list[PreparedTransaction]:
    return [each.transaction for each in written if each.transaction is not None]


def _admin(options: SinkOptions) -> Any:
    from spark_connector.sink_clients import clients

    return clients(options).admin


def _clean_up(do: Callable[[], object]) -> None:
    """Abort without waiting for success: what is left open ends at its timeout."""
    from kraft.client import KraftError, Unreachable

    try:
        do()
    except (KraftError, Unreachable) as error:
        log.warning("transactions left open until their transaction.timeout.ms: reason=%s", error)


@contextmanager
def _one_line() -> Iterator[None]:
    """Raise the client's errors as one line, without what led to them inside of the client."""
    from kraft.client import KraftError, Unreachable

    try:
        yield
    except (KraftError, Unreachable) as error:
        raise SinkError(str(error) or type(error).__name__) from None
