"""Synchronous producer: runs `kraft.client.aio.producer.Producer` on the event loop thread of the process."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from kraft.client.aio.producer import Producer as AsyncProducer
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import (
    checked_bytes,
    checked_headers,
    checked_number,
    checked_timestamp,
    checked_topic,
)
from kraft.client.model.errors import TransactionTimeout
from kraft.client.model.settings import LOCAL_BROKER
from kraft.client.model.values import ColumnsToSend, Delivery, RecordMetadata
from kraft.client.sans_io.column_places import last_partition
from kraft.client.threads.client import ThreadClient, on_loop, waiting
from kraft.client.threads.inbox import Inbox
from kraft.client.threads.inbox_drain import InboxDrain
from kraft.client.threads.loop_thread import LoopThread
from kraft.client.threads.record_future import RecordFuture
from kraft.log.format.record_codec import Header
from kraft.model.transactions import PreparedTransaction
from kraft.runtime.clock import Clock


class Producer(ThreadClient[AsyncProducer]):
    """Synchronous producer; see `kraft.client.aio.Producer` for what it guarantees.

    May be used from any thread, but not in a forked process that did not create it. `send` passes records to the
    event loop through an inbox, so that many of them cost one thread switch.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create a producer; `settings` are the fields of ProducerSettings. Raises InvalidSetting."""
        self._network = network or Network()
        super().__init__(AsyncProducer(bootstrap_servers, network=self._network, **settings))
        used = self._client.settings
        self._inbox = Inbox(used.max_block_ms, used.buffer_memory, self._thread.is_current)
        self._drain = InboxDrain(self._inbox, self._client)
        self._when_dropped = weakref.finalize(
            self, _close_dropped, self._thread, self._drain, self._client, self._network.clock
        )
        # At the end of the process there is no event loop any more.
        self._when_dropped.atexit = False

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(timeout_ms=self._client.close_after_error_ms if kind is not None else None)

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """Queue one record and return a future of its RecordMetadata. Errors, a missing topic too, are in the future.

        A topic or partition that is not found is also logged once. Raises TypeError for arguments of a wrong type, such
        as text as the value. With transactional.id, raises TransactionConflict unless a transaction is open, and
        TransactionAborted if it has failed.

        The future cannot be cancelled, as in Kafka: a record that is queued is sent.
        Waits at most `max_block_ms` while the buffers are full, then raises BufferExhausted. Raises ClientClosed.
        Callbacks of the future run in the thread of the clients' event loop: they may send, but wait for nothing.
        """
        if self._thread.is_inherited:
            self._thread.check_process()
        transaction = self._client.transaction_number()
        place = None if partition is None else checked_number("partition", partition)
        time_ms = self._network.clock.wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        key, value, checked = checked_bytes("key", key), checked_bytes("value", value), checked_headers(headers)
        future = RecordFuture()
        record = checked_topic(topic), place, transaction, key, value, checked, time_ms, future
        try:
            if self._inbox.put(record):
                self._thread.call_soon(self._drain.start)
        except BaseException:
            # An interrupt such as Ctrl-C may have come before the call, for which later records would wait.
            self._thread.call_soon(self._drain.start)
            raise
        return future

    def produce_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> Future[Delivery]:
        """Queue many records, small ones at a tenth of the CPU of `send`, and return one future for all of them.

        Waits while `buffer_memory` is full. Raises RecordTooLarge, BufferExhausted, Unreachable, or a Refusal.
        """

        async def produce() -> Future[Delivery]:
            await self._drain.wait(topic=topic, last_partition=partition)
            many = await self._client.produce_many(
                topic, values, keys, partition=partition, timestamps_ms=timestamps_ms
            )
            return _thread_future(many)

        return self._thread.run(produce)

    def send_columns(self, topic: str, columns: ColumnsToSend) -> Future[Delivery]:
        """Queue records as columns, also with headers and to several partitions. Waits and raises as `produce_many`."""

        async def send() -> Future[Delivery]:
            await self._drain.wait(topic=topic, last_partition=last_partition(columns))
            return _thread_future(await self._client.send_columns(topic, columns))

        return self._thread.run(send)

    partitions_for = waiting(AsyncProducer.partitions_for)

    longest_delay = on_loop(AsyncProducer.longest_delay)

    # --- transactions -----------------------------------------------------------------------------------------

    init_transactions = waiting(AsyncProducer.init_transactions)

    begin_transaction = waiting(AsyncProducer.begin_transaction)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Wait until all records are stored, and commit them, all or none; `timeout_ms` is max.block.ms by default.

        Raises TransactionAborted if a record has failed or the coordinator has aborted the transaction,
        TransactionTimeout, after which commit_transaction is called again until it returns, and
        TransactionOutcomeUnknown if it was committed or aborted, and a temporary transactional id is deleted.
        """

        async def commit() -> None:
            left_ms = await self._all_queued("commit_transaction", timeout_ms)
            await self._client.commit_transaction(left_ms)

        self._thread.run(commit)

    def prepare_transaction(self, timeout_ms: int | None = None) -> PreparedTransaction | None:
        """Wait until all records are stored, and leave the transaction open for `Admin.commit_transactions`.

        See `kraft.client.aio.Producer.prepare_transaction`.
        """

        async def prepare() -> PreparedTransaction | None:
            left_ms = await self._all_queued("prepare_transaction", timeout_ms)
            return await self._client.prepare_transaction(left_ms)

        return self._thread.run(prepare)

    send_offsets_to_transaction = waiting(AsyncProducer.send_offsets_to_transaction)

    abort_transaction = waiting(AsyncProducer.abort_transaction)

    @contextmanager
    def transaction(self, timeout_ms: int | None = None) -> Iterator[None]:
        """Begin a transaction, commit it at the end of the block, or abort it on any error and raise that.

        A transaction that the block has ended itself is left as it is. If the commit is interrupted or times out, it
        may have succeeded, so nothing is aborted then: call commit_transaction until it returns.
        """
        transactions = self._client.transactions_for("transaction")
        number = transactions.next_number
        try:
            self.begin_transaction()
            yield
            if transactions.is_open(number):
                self.commit_transaction(timeout_ms)
        except BaseException as error:
            self._thread.run(partial(transactions.abort_after, error, number, self._client.block_ms(timeout_ms)))
            raise

    # --- flush and close --------------------------------------------------------------------------------------

    def flush(self, timeout_ms: int | None = None) -> bool:
        """Wait until all records sent so far are stored or failed. Return False if `timeout_ms` passes first."""

        async def flush() -> bool:
            began_ms = self._network.clock.monotonic_ms()
            if not await self._drain.wait(timeout_ms):
                return False
            used_ms = self._network.clock.monotonic_ms() - began_ms
            return await self._client.flush(None if timeout_ms is None else max(0, timeout_ms - used_ms))

        return self._thread.run(flush)

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush for at most `timeout_ms` (None: no limit), then close. Records not stored then fail with ClientClosed.

        An open transaction is aborted, unless `timeout_ms` is 0. May be called more than once.
        """
        if not self._thread.is_of_this_process():
            return
        self._thread.check_may_wait()
        self._inbox.close()

        self._when_dropped.detach()
        close = partial(_close, self._drain, self._client, self._network.clock)
        try:
            self._thread.run(partial(close, timeout_ms))
        except BaseException:
            # Interrupted, as by Ctrl-C: nobody else closes the producer.
            self._thread.run_soon(partial(close, 0))
            raise

    async def _all_queued(self, call: str, timeout_ms: int | None) -> int:
        """Wait until the records are in their batches. Return the time that is left. Raises TransactionTimeout."""
        block_ms, began_ms = self._client.block_ms(timeout_ms), self._network.clock.monotonic_ms()
        if not await self._drain.wait(block_ms):
            raise TransactionTimeout(f"{call}: records were not queued within {block_ms} ms; repeat it")
        return max(0, block_ms - (self._network.clock.monotonic_ms() - began_ms))


async def _close(drain: InboxDrain, producer: AsyncProducer, clock: Clock, timeout_ms: int | None) -> None:
    began_ms = clock.monotonic_ms()
    await producer.abort_open(timeout_ms)
    if not await drain.wait(timeout_ms):
        drain.cancel()
    used_ms = clock.monotonic_ms() - began_ms
    await producer.close(None if timeout_ms is None else max(0, timeout_ms - used_ms))
    drain.fail_rest()


def _close_dropped(thread: LoopThread, drain: InboxDrain, producer: AsyncProducer, clock: Clock) -> None:
    """Store what was sent, and close the connections of a producer that was dropped without a close."""
    if thread.is_of_this_process():
        thread.run_soon(partial(_close, drain, producer, clock, None))
        # Last, as a warning may be an error.
        warnings.warn("a producer was dropped without a close()", ResourceWarning, stacklevel=2)


def _thread_future(many: asyncio.Future[Delivery]) -> Future[Delivery]:
    """Return a future for threads that finishes as the given one does."""
    future: Future[Delivery] = Future()
    future.set_running_or_notify_cancel()

    def finish(done: asyncio.Future[Delivery]) -> None:
        if future.done():
            return
        error = done.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    many.add_done_callback(finish)
    return future
