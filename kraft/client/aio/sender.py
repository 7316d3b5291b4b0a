"""Sends what a producer's `SendBuffer` decides: streams to the leaders, the producer id, and the clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from kraft.client.aio.produce_link import LinkEvents, ProduceLink
from kraft.client.aio.stalled_produces import StalledProduces
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.network import Network
from kraft.client.model.errors import AuthenticationFailed, BufferExhausted, ClientClosed
from kraft.client.model.settings import ProducerSettings
from kraft.client.model.values import Delay, RecordMetadata
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.column_records import ColumnRecords, RecordContent
from kraft.client.sans_io.copied_batch import CopiedBatch
from kraft.client.sans_io.send_batch import ProducerIdentity, Receipt
from kraft.client.sans_io.send_buffer import CONCURRENT_BACKOFF_MS, Attempt, BatchOutcome, Delivered, Failed, SendBuffer
from kraft.client.sans_io.transactions import ProducerTransactions
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.model.produce import ACKS_ALL, ProducePartitionResult
from kraft.rpc.calls import INIT_PRODUCER_ID, PRODUCE
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.init_producer_id import InitProducerIdRequest

STALL_MS: Final = 1_000
"""Age of a request after which the producer refreshes its metadata: the leader may have changed."""

_NEVER_MS: Final = 1 << 62

log = logging.getLogger("kraft.client")


class Sender:
    """A task that decides what is sent when. The links' tasks report to it, all on one event loop."""

    def __init__(self, settings: ProducerSettings, network: Network, transactions: ProducerTransactions | None) -> None:
        self._settings = settings
        self._clock = network.clock
        self._transactions = transactions
        self._connections = network.connect(settings)
        self._metadata = MetadataCache(self._connections, settings, network.clock, network.chance)
        self._metadata.on_refresh = self._metadata_refreshed
        self._buffer = SendBuffer(settings, network.chance)
        self._stalled = StalledProduces(self._connections, self._buffer.explained)
        self._backoff = Backoff(
            first_ms=min(CONCURRENT_BACKOFF_MS, settings.retry_backoff_ms),
            max_ms=settings.retry_backoff_max_ms,
            chance=network.chance,
        )
        self._links: dict[str, ProduceLink] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._identity_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._memory_freed = asyncio.Event()
        self._waiting_for_memory = 0
        self._flushes: list[tuple[set[int], asyncio.Event]] = []
        self._sleeps_until_ms = 0
        self._events = LinkEvents(
            answered=self._answered,
            sent=self._sent,
            lost=self._lost,
            refused=self._refused_at,
            has_room=self._wake_up,
        )
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kraft producer")

    # --- for the producer -------------------------------------------------------------------------------------

    async def partition_count(self, topic: str, partition: int | None = None) -> int:
        """Return the number of partitions. If the topic does not have `partition`, it may soon: that is waited for."""
        count = self._metadata.partition_count(topic)
        if count is None:
            metadata = await self._metadata.topic(topic, self._settings.max_block_ms)
            count = len(metadata.partitions)
        # Whatever is no number is refused when the record is placed.
        if isinstance(partition, int) and partition >= count:
            count = await self._metadata.until_has(TopicPartition(topic, partition), self._settings.max_block_ms)
        return count

    async def find_topics(self, topics: Iterable[str]) -> None:
        """Look up those of the topics that are not known yet, together. Raises Unreachable and Refusal."""
        await self._metadata.look_up(topics, self._settings.max_block_ms)

    def lacks(self, topic: str, partition: int) -> bool:
        """True if the topic is known, and not to have this partition."""
        count = self._metadata.partition_count(topic)
        return count is not None and partition >= count

    def fitting(self, partition: TopicPartition, ends: Sequence[int], start: int) -> int:
        """Return the end of the records from `start` on that one batch takes; `ends` are the sums of their sizes."""
        return self._buffer.fitting(partition, ends, start)

    def is_short_of(self, size_bytes: int) -> bool:
        """True while `memory_for` has to wait until records are acknowledged."""
        used = self._buffer.memory_used
        return used > 0 and used + size_bytes > self._settings.buffer_memory

    def add(
        self,
        partition: TopicPartition,
        records: ColumnRecords,
        size_bytes: int,
        receipt: Receipt,
        transaction: int,
        *,
        more_follow: bool,
    ) -> bool:
        """Queue records that fit into one batch together, and not with those that follow.

        Return True if a batch is full now. Raises TransactionAborted or TransactionConflict unless the transaction is
        still open.
        """
        self._check_open(transaction)
        now_ms = self._clock.monotonic_ms()
        is_full = self._buffer.append(partition, records, size_bytes, receipt, now_ms, more_follow=more_follow)
        self._wake_for(now_ms, is_full)
        return is_full

    def add_one(
        self,
        partition: TopicPartition,
        record: RecordContent,
        size_bytes: int,
        future: asyncio.Future[RecordMetadata],
        transaction: int,
    ) -> bool:
        """Queue one record, as `add` does."""
        self._check_open(transaction)
        now_ms = self._clock.monotonic_ms()
        is_full = self._buffer.append_one(partition, record, size_bytes, future, now_ms)
        self._wake_for(now_ms, is_full)
        return is_full

    def add_copy(self, copy: CopiedBatch, transaction: int) -> None:
        """Queue a batch as another leader stored it. Raises as `add` does."""
        self._check_open(transaction)
        self._buffer.append_copy(copy)
        self._wake_up()

    def _check_open(self, transaction: int) -> None:
        if self._task.done():
            reason = f"; last reason: {self._buffer.trouble}" if self._buffer.trouble else ""
            raise ClientClosed(f"the producer is closed{reason}")
        if self._transactions is not None:
            self._transactions.check_open(transaction)

    def _wake_for(self, now_ms: int, is_full: bool) -> None:
        if is_full or now_ms + self._settings.linger_ms < self._sleeps_until_ms:
            self._wake_up()

    def now_ms(self) -> int:
        """Return the time by which batches age."""
        return self._clock.monotonic_ms()

    async def flush(self, timeout_ms: int | None) -> bool:
        self._buffer.close_batches()
        unfinished = self._buffer.unfinished()
        if not unfinished:
            return True
        done = asyncio.Event()
        self._flushes.append((unfinished, done))
        self._wake_up()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await done.wait()
        except TimeoutError:
            self._flushes = [flush for flush in self._flushes if flush[1] is not done]
            return False
        return True

    def coordinators(self, key_type: CoordinatorType) -> Coordinators:
        """Return the coordinators of groups or of transactional ids, found through this producer's connections."""
        return Coordinators(self._connections, self._metadata.any_broker, self._backoff, self._clock, key_type)

    def begin_transaction(self, identity: ProducerIdentity) -> None:
        self._buffer.begin_transaction(identity)

    def fail_transaction(self, error: Exception, number: int | None = None) -> None:
        """Give the open transaction up because of an error, unless it is not the one with this number."""
        if self._transactions is not None and self._transactions.failed(error, number):
            self.give_up()

    def give_up(self) -> None:
        """Drop the records of the transaction that are not in flight; it will be aborted."""
        if self._transactions is not None:
            self._settle(self._buffer.give_up(self._transactions.reason))
            self._wake_up()

    def longest_delay(self) -> Delay | None:
        return self._buffer.longest_delay(self._clock.monotonic_ms())

    async def close(self) -> None:
        """Fail the records that are not stored and close the connections."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._identity_task is not None:
            self._identity_task.cancel()
            await asyncio.wait([self._identity_task])
        await self._stalled.close()
        for link in self._links.values():
            await link.close()
        if self._closing:
            await asyncio.wait(self._closing)
        await self._metadata.close()
        self._settle(self._buffer.abandon())
        await self._connections.close()

    async def memory_for(self, size_bytes: int) -> None:
        """Wait until there is memory for the records. Raises BufferExhausted after `max_block_ms`."""
        self._waiting_for_memory += 1
        self._buffer.is_hurried = True
        self._wake_up()
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while self.is_short_of(size_bytes):
                    self._memory_freed.clear()
                    await self._memory_freed.wait()
        except TimeoutError:
            reason = f"; {self._buffer.trouble}" if self._buffer.trouble else ""
            raise BufferExhausted(
                f"buffer.memory={self._settings.buffer_memory} stayed full for "
                f"max.block.ms={self._settings.max_block_ms}{reason}"
            ) from None
        finally:
            self._waiting_for_memory -= 1
            self._buffer.is_hurried = self._waiting_for_memory > 0

    # --- the loop ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                self._wake.clear()
                now_ms = self._clock.monotonic_ms()
                self._settle(self._buffer.expire(now_ms))
                self._watch_links(now_ms)
                self._dispatch(now_ms)
                self._ensure_identity()
                await self._sleep(now_ms)
        except Exception as error:
            log.exception("producer stopped: internal error")
            self._buffer.trouble = f"internal error: {error!r}"
        finally:
            # However this task ends, every record gets an outcome.
            self._settle(self._buffer.abandon())

    async def _sleep(self, now_ms: int) -> None:
        deadline_ms = self._buffer.next_deadline_ms(now_ms)
        if any(not link.is_idle for link in self._links.values()):
            deadline_ms = min(now_ms + STALL_MS, _NEVER_MS if deadline_ms is None else deadline_ms)
        self._sleeps_until_ms = _NEVER_MS if deadline_ms is None else deadline_ms
        try:
            # At least 1 ms: the next round handles a deadline that has just passed, and must be a later millisecond.
            async with asyncio.timeout(None if deadline_ms is None else max(1, deadline_ms - now_ms) / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._sleeps_until_ms = 0

    def _wake_up(self) -> None:
        self._wake.set()

    def _watch_links(self, now_ms: int) -> None:
        for link in self._links.values():
            age_ms = link.oldest_age_ms(now_ms)
            if age_ms >= self._settings.request_timeout_ms:
                link.fail(
                    f"{link.address} did not answer within request.timeout.ms={self._settings.request_timeout_ms}"
                )
            elif age_ms >= STALL_MS:
                self._metadata.request_refresh()
                if self._settings.acks == ACKS_ALL:
                    self._stalled.ask(link.address, link.oldest_partitions(), now_ms)
        for link in [link for link in self._links.values() if link.is_broken]:
            del self._links[link.address]
            # With acks=0 a broken stream is the only sign that the broker is not the leader.
            self._metadata.request_refresh()
            closing = asyncio.get_running_loop().create_task(link.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _dispatch(self, now_ms: int) -> None:
        by_leader: dict[str, list[TopicPartition]] = {}
        if not self._buffer.needs_identity:
            self._buffer.trouble = ""
        for partition in self._buffer.waiting():
            leader = self._metadata.leader(partition)
            if leader is None:
                self._buffer.trouble = self._metadata.trouble or self._no_leader(partition)
                self._metadata.request_refresh()
                continue
            self._buffer.leader_moved(partition, leader.address)
            if self._buffer.is_ready(partition, now_ms):
                by_leader.setdefault(leader.address, []).append(partition)
        for address, partitions in by_leader.items():
            self._send_to(address, partitions, now_ms)

    def _send_to(self, address: str, partitions: list[TopicPartition], now_ms: int) -> None:
        link = self._links.get(address)
        if link is None:
            stream = self._connections.peer(address).open(PRODUCE)
            link = self._links[address] = ProduceLink(address, stream, self._settings, self._clock, self._events)
        while link.has_room and not link.is_broken:
            attempts = self._buffer.drain(address, partitions, now_ms)
            if not attempts:
                return
            if self._transactions is not None:
                self._transactions.written()
            link.submit(attempts, now_ms)

    def _no_leader(self, partition: TopicPartition) -> str:
        refusal = self._metadata.refusal_of(partition.topic)
        return str(refusal) if refusal is not None else self._metadata.no_leader(partition).message

    # --- responses --------------------------------------------------------------------------------------------

    def _answered(self, attempt: Attempt, result: ProducePartitionResult) -> None:
        if result.error_code is not ErrorCode.NONE:
            self._metadata.learn_leader(attempt.batch.partition, result.leader_id, result.leader_epoch)
            if result.error_code.retriable:
                self._metadata.request_refresh()
        self._settle(self._buffer.answered(attempt, result, self._clock.monotonic_ms()))

    def _sent(self, attempt: Attempt) -> None:
        self._settle(self._buffer.sent(attempt))

    def _lost(self, attempt: Attempt, reason: str) -> None:
        self._metadata.request_refresh()
        self._settle(self._buffer.lost(attempt, reason, self._clock.monotonic_ms()))

    def _refused_at(self, address: str, error: AuthenticationFailed) -> None:
        """Fail what waits for a leader that does not accept this client."""
        leaders = {each: self._metadata.leader(each) for each in self._buffer.waiting()}
        led = [each for each, leader in leaders.items() if leader is not None and leader.address == address]
        self._fail_unsent(led, error)

    def _fail_unsent(self, partitions: Sequence[TopicPartition], error: AuthenticationFailed | Refusal) -> None:
        self._settle(self._buffer.drop_unsent(partitions, lambda _: error))

    def _metadata_refreshed(self) -> None:
        """Go on, or fail what waits for a leader if no broker that may know it accepts this client."""
        if self._metadata.refused is not None:
            without = [each for each in self._buffer.waiting() if self._metadata.leader(each) is None]
            self._fail_unsent(without, self._metadata.refused)
        self._wake_up()

    def _settle(self, outcomes: list[BatchOutcome]) -> None:
        failure: Exception | None = None
        for outcome in outcomes:
            batch = outcome.batch
            if isinstance(outcome, Failed):
                failure = failure or outcome.error
            for receipt, first, count in batch.receipts:
                if isinstance(outcome, Delivered):
                    receipt.delivered(batch, first, count, outcome.base_offset, outcome.log_append_time_ms)
                else:
                    receipt.failed(outcome.error)
        if outcomes:
            self._memory_freed.set()
            self._check_flushes()
        if failure is not None:
            self.fail_transaction(failure)

    def _check_flushes(self) -> None:
        if not self._flushes:
            return
        left = self._buffer.unfinished()
        for unfinished, done in self._flushes:
            if unfinished.isdisjoint(left):
                done.set()
        self._flushes = [flush for flush in self._flushes if not flush[1].is_set()]

    # --- identity ---------------------------------------------------------------------------------------------

    def _ensure_identity(self) -> None:
        if self._buffer.needs_identity and (self._identity_task is None or self._identity_task.done()):
            self._identity_task = asyncio.get_running_loop().create_task(self._take_identity(), name="producer id")

    async def _take_identity(self) -> None:
        async def ask(address: str, timeout_s: float) -> ProducerIdentity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            response = await self._connections.peer(address).call(INIT_PRODUCER_ID, request, timeout_s)
            return ProducerIdentity(
                producer_id=ProducerId(response.producer_id), producer_epoch=ProducerEpoch(response.producer_epoch)
            )

        try:
            identity = await self._metadata.any_broker.call(ask, self._settings.request_timeout_ms)
        except AuthenticationFailed as error:
            self._fail_unsent(self._buffer.waiting(), error)
        except (Unreachable, Refusal) as error:
            if isinstance(error, Refusal) and error.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # It may write no topic at all.
                self._fail_unsent(self._buffer.waiting(), error)
            self._buffer.trouble = f"no producer id: {error}"
            await asyncio.sleep(self._settings.retry_backoff_max_ms / 1000)
        else:
            self._buffer.give_identity(identity)
        self._wake_up()
