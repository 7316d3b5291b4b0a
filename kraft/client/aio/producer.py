"""Asyncio producer: the public calls. `SendBuffer` keeps the records, `Sender` sends them."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from itertools import accumulate
from types import TracebackType
from typing import Any, Final, ParamSpec

from kraft.client.aio import batch_copies
from kraft.client.aio.dropped import close_when_dropped
from kraft.client.aio.memory_wait import MemoryWait
from kraft.client.aio.receipts import CallReceipt, DeliveryReceipt
from kraft.client.aio.sender import Sender
from kraft.client.aio.transactions import TransactionCalls
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import checked_bytes, checked_headers, checked_timestamp, checked_topic
from kraft.client.model.errors import ClientClosed, RecordTooLarge, TransactionConflict
from kraft.client.model.group_offsets import checked_offsets
from kraft.client.model.settings import LOCAL_BROKER, ProducerSettings, settings_of
from kraft.client.model.values import ColumnsToSend, Delay, Delivery, GroupMetadata, OffsetAndMetadata, RecordMetadata
from kraft.client.sans_io.column_places import (
    chosen_partition,
    last_partition,
    place_of,
    places_in_order,
    places_of,
    with_chosen_partitions,
)
from kraft.client.sans_io.column_records import ColumnRecords, column_records, record_size
from kraft.client.sans_io.partitioner import StickyPartitioner
from kraft.client.sans_io.transactions import ProducerTransactions
from kraft.log.format.record_codec import Header
from kraft.model.callbacks import AsyncCallback
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.transactions import PreparedTransaction
from kraft.rpc.peers import Unreachable

CLOSE_AFTER_ERROR_MS: Final = 5_000

log = logging.getLogger("kraft.client")

Parameters = ParamSpec("Parameters")


def _acknowledged(
    send: Callable[Parameters, Coroutine[Any, Any, asyncio.Future[RecordMetadata]]],
) -> Callable[Parameters, Coroutine[Any, Any, RecordMetadata]]:
    @wraps(send, assigned=())
    async def send_and_wait(*args: Parameters.args, **kwargs: Parameters.kwargs) -> RecordMetadata:
        """Send one record as `send` does, and wait until it is acknowledged."""
        return await (await send(*args, **kwargs))

    return send_and_wait


class Producer:
    """Asyncio producer. Sends records in batches to partition leaders, with retries until they are acknowledged.

    With acks=all, the default, a record whose future has a result is stored once and stays stored; retries
    across changes of leader neither lose nor duplicate it. After DeliveryTimeout or NoRetriesLeft it is unknown
    whether the record was stored. If a broker lost its state of this producer (OUT_OF_ORDER_SEQUENCE_NUMBER or
    UNKNOWN_PRODUCER_ID), the records of that partition in flight fail with that error, and later ones are sent under
    a new producer id.

    With transactional.id, records are sent in transactions: `transaction` commits at its end, or aborts on an error. A
    record that fails, or cannot be queued, fails its transaction, which can then only be aborted. The cluster needs
    the feature transaction.version 2.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create a producer; `settings` are the fields of ProducerSettings. Connects at first use.

        Raises InvalidSetting.
        """
        self._settings = settings_of(ProducerSettings, bootstrap_servers, settings)
        self._network = network or Network()
        self._sticky = StickyPartitioner(self._network.entropy.below)
        self._sender: Sender | None = None
        self._state: ProducerTransactions | None = None
        self._transactions: TransactionCalls | None = None
        if (transactional_id := self._settings.transactional_id) is not None:
            self._state = ProducerTransactions(
                transactional_id,
                self._settings.transaction_timeout_ms,
                is_temporary=self._settings.transactional_id_temporary,
            )
            self._transactions = TransactionCalls(transactional_id, self._state, self.started, self._network.clock)
        self._when_dropped: weakref.finalize[..., Any] | None = None
        self._is_closed = False

    @property
    def settings(self) -> ProducerSettings:
        """The settings in use, defaults included."""
        return self._settings

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nobody waits for the rest; without one, all records sent must be stored.
        await self.close(timeout_ms=self.close_after_error_ms if kind is not None else None)

    # --- sending ----------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue one record and return a future of its RecordMetadata.

        Waits for metadata of a new topic and while `buffer_memory` is full, each at most `max_block_ms`. Raises
        RecordTooLarge, BufferExhausted, Unreachable, or a Refusal that names a missing topic.
        """
        number, topic = self.transaction_number(), checked_topic(topic)
        time_ms = self._network.clock.wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        key, value, headers = checked_bytes("key", key), checked_bytes("value", value), checked_headers(headers)
        future: asyncio.Future[RecordMetadata] = self.new_future()
        size = record_size(key, value, headers)
        try:
            sender = self.started()
            self._check_size(size)
            count = await sender.partition_count(topic, partition)
            if partition is None and (partitioner := self._settings.partitioner) is not None:
                partition = chosen_partition(partitioner, topic, count, key, value)
            place = place_of(topic, count, key, partition)
            chosen = TopicPartition(topic, self._sticky.partition(topic, count) if place is None else place)
            if sender.is_short_of(size):
                await sender.memory_for(size)
            is_full = sender.add_one(chosen, (key, value, headers, time_ms), size, future, number)
        except (KraftError, Unreachable) as error:
            self.record_not_queued(error, number)
            raise
        if is_full:
            await self._batch_filled(topic, count, place)
        return future

    send_and_wait = _acknowledged(send)
    """Send one record as `send` does, and wait until it is acknowledged."""

    async def find_topic(self, topic: str, partition: int | None = None) -> None:
        """Wait for metadata of the topic, or for one of its partitions, as `send` does. Raises as `send` does."""
        place_of(topic, await self.started().partition_count(topic, partition), None, partition)

    def lacks(self, topic: str, partition: int) -> bool:
        """True if the topic, which was found, does not have the partition, which `send` would wait for."""
        return self._sender is not None and self._sender.lacks(topic, partition)

    async def submit(
        self,
        topic: str,
        records: ColumnRecords,
        partition: int | None,
        receipt: CallReceipt,
        number: int,
        memory: MemoryWait,
    ) -> None:
        """Queue records in their order, for the open transaction. What cannot be queued is reported to the receipt."""
        try:
            sender = self.started()
            count = await sender.partition_count(topic, partition)
            if partition is None and self._settings.partitioner is not None:
                columns = ColumnsToSend(values=records.values, keys=records.keys)
                places = list(
                    places_of(topic, count, with_chosen_partitions(self._settings.partitioner, topic, count, columns))
                )
            else:
                places = list(places_in_order(topic, count, records.keys, partition))
        except (KraftError, Unreachable) as error:
            self.record_not_queued(error, number)
            receipt.not_queued(error)
            return
        for place, rows in places:
            if rows is None:
                await self._add(sender, topic, count, place, records, receipt, number, memory)
            else:
                await self._add(sender, topic, count, place, records.at(rows), receipt.at(rows), number, memory)

    async def produce_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> asyncio.Future[Delivery]:
        """Queue many records, small ones at a tenth of the CPU of `send`, and return one future for all of them.

        Every record is checked before the first is queued. The future fails with the first error; the other records
        are sent nevertheless.
        """
        number, topic = self.transaction_number(), checked_topic(topic)
        records = self._records(values, keys, timestamps_ms)
        try:
            self._check_size(max(records.sizes(), default=0))
        except RecordTooLarge as error:
            self.record_not_queued(error, number)
            raise
        future: asyncio.Future[Delivery] = self.new_future()
        await self.submit(topic, records, partition, DeliveryReceipt(future, len(records)), number, MemoryWait())
        return future

    async def send_columns(self, topic: str, columns: ColumnsToSend) -> asyncio.Future[Delivery]:
        """Queue records as columns, also with headers and to several partitions, and return one future for all of them.

        Lengths and types of the columns are checked before the first record is queued.
        """
        sender, number, topic = self.started(), self.transaction_number(), checked_topic(topic)
        given_ms = columns.timestamp_ms
        time_ms = self._network.clock.wall_ms() if given_ms is None else checked_timestamp(given_ms)
        records = column_records(columns, time_ms)
        future: asyncio.Future[Delivery] = self.new_future()
        receipt = DeliveryReceipt(future, len(records))
        try:
            count = await sender.partition_count(topic, last_partition(columns))
            chosen = with_chosen_partitions(self._settings.partitioner, topic, count, columns)
            places = list(places_of(topic, count, chosen))
        except (KraftError, Unreachable) as error:
            self.record_not_queued(error, number)
            raise
        memory = MemoryWait()
        for place, rows in places:
            part = records if rows is None else records.at(rows)
            await self._add(sender, topic, count, place, part, receipt, number, memory)
        return future

    find_topics = batch_copies.find_topics
    send_stored = batch_copies.send_stored

    async def _add(
        self,
        sender: Sender,
        topic: str,
        count: int,
        place: int | None,
        records: ColumnRecords,
        receipt: CallReceipt,
        number: int,
        memory: MemoryWait,
    ) -> None:
        """Queue records for one partition; without one, for a partition after the other, batch by batch."""
        ends = list(accumulate(records.sizes()))
        start, all_records = 0, len(records)
        while start < all_records:
            partition = TopicPartition(topic, self._sticky.partition(topic, count) if place is None else place)
            end = sender.fitting(partition, ends, start)
            size = ends[end - 1] - (ends[start - 1] if start else 0)
            is_all = end - start == all_records
            part = records if is_all else records[start:end]
            its_receipt = receipt if is_all else receipt.part(start, end)
            start, is_full = end, False
            try:
                self._check_size(size)
                await memory.until_free(sender, size)
                is_full = sender.add(partition, part, size, its_receipt, number, more_follow=end < all_records)
            except (KraftError, Unreachable) as error:
                self.record_not_queued(error, number)
                its_receipt.not_queued(error)
            if is_full:
                await self._batch_filled(topic, count, place)

    async def _batch_filled(self, topic: str, count: int, place: int | None) -> None:
        if place is None:
            self._sticky.batch_is_full(topic, count)
        # Yields to the sender's task, which a caller that sends in a loop would otherwise never let run.
        await asyncio.sleep(0)

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of the topic: cached ones, refreshed every metadata.max.age.ms.

        A topic that was deleted after it was cached is still returned. Raises a Refusal that names a topic that is
        neither cached nor exists, or Unreachable.
        """
        return list(range(await self.started().partition_count(topic)))

    def longest_delay(self) -> Delay | None:
        """Return the delay of the record that has waited longest, with its partition and the reason.

        None if no record waits, or only for its turn.
        """
        return None if self._sender is None else self._sender.longest_delay()

    # --- transactions -----------------------------------------------------------------------------------------

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Fence earlier producers with the transactional id, and end the transaction that one of them left open.

        The first `begin_transaction` does this too. Call it earlier to read, for example, what the earlier producer has
        committed. May be repeated after TransactionTimeout. Raises ProducerFenced, or the Refusal of the coordinator.
        """
        await self.transactions_for("init_transactions").initialise(self.block_ms(timeout_ms))

    async def begin_transaction(self) -> None:
        """Begin a transaction; all records are part of it until its end. Raises as `init_transactions` does."""
        await self.transactions_for("begin_transaction").begin(self.block_ms(None))

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Wait until all records are stored, and commit them, all or none; `timeout_ms` is max.block.ms by default.

        Raises TransactionAborted if a record has failed or the coordinator has aborted the transaction: abort, then
        begin again. After TransactionTimeout it may be committed or not: call commit_transaction again until it
        returns. Raises TransactionOutcomeUnknown if that was not learned before a temporary transactional id was
        deleted, and ProducerFenced if another producer uses the id.
        """
        await self.transactions_for("commit_transaction").commit(self.block_ms(timeout_ms))

    async def prepare_transaction(self, timeout_ms: int | None = None) -> PreparedTransaction | None:
        """Wait until all records are stored, and leave the transaction open for `Admin.commit_transactions`.

        Returns None if no record was sent: there is nothing to commit. The producer can then only be closed, which
        leaves the transaction open, or abort it. Raises as `commit_transaction` does.
        """
        return await self.transactions_for("prepare_transaction").prepare(self.block_ms(timeout_ms))

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction: they count once it is committed, and not if it is aborted.

        The offsets may be those of `Consumer.consumed`. The group is `Consumer.group_metadata`, by which the group's
        coordinator refuses a consumer that has lost its partitions; that consumer needs enable.auto.commit=false.
        Raises TransactionAborted if they are refused or not stored in time, and ValueError for what is not an offset.
        """
        transactions = self.transactions_for("send_offsets_to_transaction")
        if not isinstance(group, GroupMetadata):
            raise TypeError(f"group must be what Consumer.group_metadata() returns, not {type(group).__name__}")
        await transactions.send_offsets(checked_offsets(offsets), group, self.block_ms(timeout_ms))

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort: drop records that were not sent, wait for those that were, and end the transaction.

        May be repeated after TransactionTimeout. Raises ProducerFenced if another producer uses the transactional id.
        """
        await self.transactions_for("abort_transaction").abort(self.block_ms(timeout_ms))

    @asynccontextmanager
    async def transaction(self, timeout_ms: int | None = None) -> AsyncGenerator[None, None]:
        """Begin a transaction, commit it at the end of the block, or abort it on any error and raise that.

        A transaction that the block has ended itself is left as it is. If the commit is interrupted or times out, it
        may have succeeded, so nothing is aborted then: call commit_transaction until it returns.
        """
        transactions = self.transactions_for("transaction")
        number = transactions.next_number
        try:
            await self.begin_transaction()
            yield
            if transactions.is_open(number):
                await self.commit_transaction(timeout_ms)
        except BaseException as error:
            await transactions.abort_after(error, number, self.block_ms(timeout_ms))
            raise

    def transactions_for(self, call: str) -> TransactionCalls:
        """Return what carries out calls about transactions. Raises TransactionConflict without transactional.id."""
        if self._transactions is None:
            raise TransactionConflict(f"{call}: the producer has no transactions; give transactional.id")
        return self._transactions

    def block_ms(self, timeout_ms: int | None) -> int:
        """Return the timeout of a call: max.block.ms if None."""
        return self._settings.max_block_ms if timeout_ms is None else timeout_ms

    def transaction_number(self) -> int:
        """Return the number of the transaction that records belong to; 0 without transactional.id.

        Raises TransactionConflict if none is open, and TransactionAborted or ProducerFenced if it has failed.
        """
        return 0 if self._state is None else self._state.current()

    def record_not_queued(self, error: Exception, transaction: int) -> None:
        """Fail the transaction with this number, which lacks a record."""
        if self._sender is not None and not isinstance(error, TransactionConflict):
            self._sender.fail_transaction(error, transaction)

    # --- flush and close --------------------------------------------------------------------------------------

    async def flush(self, timeout_ms: int | None = None) -> bool:
        """Wait until all records sent so far are stored or failed. Return False if `timeout_ms` passes first."""
        return self._sender is None or await self._sender.flush(timeout_ms)

    @property
    def close_after_error_ms(self) -> int:
        """Timeout of a close after an error: time to abort the open transaction, for which readers wait."""
        return 0 if self._transactions is None else CLOSE_AFTER_ERROR_MS

    async def abort_open(self, timeout_ms: int | None) -> None:
        """Abort the open transaction before a close; a failure to is logged."""
        if self._transactions is None or self._sender is None or timeout_ms == 0:
            return
        try:
            await self._transactions.abort_open(self.block_ms(timeout_ms))
        except (KraftError, Unreachable) as error:
            log.warning("producer closed with an open transaction, which ends at its timeout: %s", error)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush for at most `timeout_ms` (None: no limit), then close. Records not stored then fail with ClientClosed.

        An open transaction is aborted, unless `timeout_ms` is 0. May be called more than once.
        """
        try:
            await self.abort_open(timeout_ms)
        finally:
            # Also when this close is cancelled: the producer has no other way left to close.
            self._is_closed = True
            if self._sender is not None:
                sender, self._sender = self._sender, None
                if self._when_dropped is not None:
                    self._when_dropped.detach()
                try:
                    await sender.flush(timeout_ms)
                finally:
                    await sender.close()

    # --- inside -----------------------------------------------------------------------------------------------

    def started(self) -> Sender:
        """Return the sender, which starts at first use; no part of the producer's interface. Raises ClientClosed."""
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._sender is None:
            self._sender = sender = Sender(self._settings, self._network, self._state)
            abort = self._abort_when_dropped(sender)
            self._when_dropped = close_when_dropped(self, partial(_close_dropped, sender, abort))
        return self._sender

    def _abort_when_dropped(self, sender: Sender) -> AsyncCallback | None:
        """Return what aborts the open transaction, without this producer; None without transactional.id."""
        if self._state is None or self._settings.transactional_id is None:
            return None
        transactions = TransactionCalls(
            self._settings.transactional_id, self._state, lambda: sender, self._network.clock
        )
        return partial(transactions.abort_open, CLOSE_AFTER_ERROR_MS)

    def new_future(self) -> asyncio.Future[Any]:
        """Return a future that nobody has to look at if a transaction reports its error."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._state is not None:
            # The end of the transaction reports the error, so that nobody has to look at the future.
            future.add_done_callback(_retrieve)
        return future

    def _records(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, timestamps_ms: Sequence[int] | None
    ) -> ColumnRecords:
        for name, column in (("keys", keys), ("timestamps_ms", timestamps_ms)):
            if column is not None and len(column) != len(values):
                raise ValueError(f"{len(column)} {name} for {len(values)} values")
        count, now_ms = len(values), self._network.clock.wall_ms()
        return ColumnRecords(
            [None] * count if keys is None else [checked_bytes("key", key) for key in keys],
            [checked_bytes("value", value) for value in values],
            [()] * count,
            [now_ms] * count if timestamps_ms is None else list(map(checked_timestamp, timestamps_ms)),
        )

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_request_size:
            raise RecordTooLarge(size, self._settings.max_request_size)


async def _close_dropped(sender: Sender, abort: AsyncCallback | None) -> None:
    """Abort the open transaction, for which readers wait, or store what was sent, and close the connections."""
    try:
        if abort is not None:
            await abort()
        await sender.flush(None if abort is None else CLOSE_AFTER_ERROR_MS)
    except (KraftError, Unreachable) as error:
        log.warning("producer dropped with an open transaction, which ends at its timeout: %s", error)
    finally:
        await sender.close()


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
