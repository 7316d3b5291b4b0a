"""Records from `send` to acknowledgement: a state machine without clock or network, with a queue for each partition.

A queue keeps its batches in order until each is acknowledged or dropped. Batches in flight are a prefix of the queue,
all sent to one leader. When an attempt fails, the queue sends nothing more until every batch in flight has been
answered, then starts again from its first batch. So order is kept, and with idempotence brokers recognise duplicates
by their sequence numbers.

When a batch that may have been sent is dropped, the queue has a *hole*: brokers may refuse what follows as out of
order, which means that neither the dropped batch nor any after it is stored. Only then may the later ones get new
sequence numbers, under a new producer id, without the risk of storing one twice. An out-of-order refusal without a
hole means that the broker lost what it had acknowledged; then all that the queue had sent fails with that error.

In a transaction, every queue has the identity of the transaction and begins with sequence 0. When a batch fails, the
transaction cannot be committed any more: it is given up, and nothing is sent or retried until the next one begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from kraft.client.model.errors import ClientClosed, DeliveryTimeout, NoRetriesLeft, TransactionAborted
from kraft.client.model.settings import ProducerSettings
from kraft.client.model.values import Delay
from kraft.client.sans_io.backoff import Backoff, Chance
from kraft.client.sans_io.column_records import ColumnRecords, RecordContent
from kraft.client.sans_io.copied_batch import CopiedBatch
from kraft.client.sans_io.send_batch import Batch, ProducerIdentity, Receipt
from kraft.client.sans_io.send_queue import Awaited, SendQueue
from kraft.client.sans_io.task_receipt import TaskFuture
from kraft.log.format.record_batch import HEADER_BYTES
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartitionResult

_LOST_PRODUCER_STATE = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
CONCURRENT_BACKOFF_MS: Final = 20
"""Pause before the first retry while the markers of the last transaction are being written, as in Kafka's clients. The
later ones are not longer than retry.backoff.ms."""

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Attempt(Struct, frozen=True):
    """One sending of a batch. A response to an attempt that is no longer in flight is ignored."""

    batch: Batch
    number: int


class Delivered(Struct, frozen=True):
    """The batch is stored. The offset is -1 if the broker did not return it."""

    batch: Batch
    base_offset: int = -1
    log_append_time_ms: int = -1


class Failed(Struct, frozen=True):
    """The batch was dropped."""

    batch: Batch
    error: Exception


BatchOutcome = Delivered | Failed


class SendBuffer:
    """The queues of one producer."""

    def __init__(self, settings: ProducerSettings, chance: Chance) -> None:
        self._settings = settings
        self._backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=chance)
        self._queues: dict[TopicPartition, SendQueue] = {}
        self._identity: ProducerIdentity | None = None
        self._concurrent_backoff = Backoff(
            first_ms=min(CONCURRENT_BACKOFF_MS, settings.retry_backoff_ms),
            max_ms=settings.retry_backoff_ms,
            chance=chance,
        )
        self._is_transactional = settings.transactional_id is not None
        self._given_up: str | None = None
        """Why no batch of the open transaction is sent any more; None while batches are sent."""
        self._attempts = 0
        self._batches = 0
        self.memory_used = 0
        self.is_hurried = False
        """Set while a sender waits for memory: batches do not linger."""
        self.trouble = ""
        """The reason why nothing can be sent now; the error of a batch that expires unsent names it."""

    # --- input ------------------------------------------------------------------------------------------------

    def fitting(self, partition: TopicPartition, ends: Sequence[int], start: int) -> int:
        """Return the end of the records from `start` on that one batch takes: the open one, or else a new one.

        `ends` are the sums of the records' sizes.
        """
        queue = self._queues.get(partition)
        used = HEADER_BYTES if queue is None or queue.open is None else queue.open.size_bytes
        room = (ends[start - 1] if start else 0) + self._settings.batch_size
        end = bisect_right(ends, room - used, start)
        count = 0 if queue is None or queue.open is None else len(queue.open.records)
        if end == start and used > HEADER_BYTES:
            end, count = bisect_right(ends, room - HEADER_BYTES, start), 0
        return max(min(end, start + self._settings.batch_num_messages - count), start + 1)

    def append(
        self,
        partition: TopicPartition,
        records: ColumnRecords,
        size_bytes: int,
        receipt: Receipt,
        now_ms: int,
        *,
        more_follow: bool = False,
    ) -> bool:
        """Add records that fit into one batch together, and not with those that follow. Return True if one is full."""
        queue, closed_one = self._lane_for(partition, size_bytes, now_ms)
        assert queue.open is not None, "the queue has room"
        queue.open.add(records, size_bytes, receipt)
        return self._added(queue, queue.open, size_bytes, is_full=more_follow) or closed_one

    def append_one(
        self, partition: TopicPartition, record: RecordContent, size_bytes: int, future: TaskFuture, now_ms: int
    ) -> bool:
        """Add one record. Return True if a batch is full."""
        queue, closed_one = self._lane_for(partition, size_bytes, now_ms)
        assert queue.open is not None, "the queue has room"
        queue.open.add_one(record, size_bytes, future)
        return self._added(queue, queue.open, size_bytes) or closed_one

    def append_copy(self, copy: CopiedBatch) -> None:
        """Add a batch as another leader stored it, after the records that the partition has."""
        queue = self._queues.setdefault(copy.partition, SendQueue(copy.partition))
        queue.seal()
        self._batches += 1
        copy.serial = self._batches
        queue.batches.append(copy)
        self.memory_used += copy.size_bytes - HEADER_BYTES

    def _lane_for(self, partition: TopicPartition, size_bytes: int, now_ms: int) -> tuple[SendQueue, bool]:
        """Return the queue, with an open batch that has room, and whether another batch was closed for that."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = SendQueue(partition)
        closed_one = queue.open is not None and queue.open.size_bytes + size_bytes > self._settings.batch_size
        if closed_one:
            queue.seal()
        if queue.open is None:
            self._batches += 1
            queue.open = Batch(partition, now_ms, self._batches)
        return queue, closed_one

    def _added(self, queue: SendQueue, batch: Batch, size_bytes: int, *, is_full: bool = False) -> bool:
        self.memory_used += size_bytes
        is_full = is_full or len(batch.records) >= self._settings.batch_num_messages
        if is_full or batch.size_bytes >= self._settings.batch_size:
            queue.seal()
            return True
        return False

    # --- identity ---------------------------------------------------------------------------------------------

    @property
    def needs_identity(self) -> bool:
        """True while a queue waits for a producer id that it may use. In transactions, no queue does."""
        if not self._settings.enable_idempotence or self._is_transactional:
            return False
        return any(
            queue.identity is None and self._identity in (None, queue.spent_identity) for queue in self._busy_lanes()
        )

    def give_identity(self, identity: ProducerIdentity) -> None:
        """Set the producer id for queues that have none. Others keep theirs and its sequences."""
        self._identity = identity

    # --- transactions -----------------------------------------------------------------------------------------

    def begin_transaction(self, identity: ProducerIdentity) -> None:
        """Begin the next transaction. Every record of the last one has an outcome."""
        self._given_up = None
        if identity == self._identity:
            # Nothing was sent in the last transaction: its end would have changed the epoch.
            return
        self._identity = identity
        for queue in self._queues.values():
            queue.begin_transaction()

    def give_up(self, reason: str) -> list[BatchOutcome]:
        """Drop what is not in flight, and retry nothing: the transaction will be aborted."""
        if self._given_up is None:
            self._given_up = reason
        return self.drop_unsent(self._queues, self._aborted)

    def _aborted(self, batch: Batch) -> TransactionAborted:
        return TransactionAborted(f"{batch.partition}: the transaction of the records is aborted: {self._given_up}")

    # --- output -----------------------------------------------------------------------------------------------

    def waiting(self) -> list[TopicPartition]:
        """Return the partitions with records that are not acknowledged."""
        return [queue.partition for queue in self._busy_lanes()]

    def close_batches(self) -> None:
        """Close the open batches: no records are added to them, and they do not linger."""
        for queue in self._queues.values():
            queue.seal()

    def unfinished(self) -> set[int]:
        """Return the serial numbers of the closed batches that are not acknowledged."""
        return {batch.serial for queue in self._queues.values() for batch in queue.batches}

    def is_ready(self, partition: TopicPartition, now_ms: int) -> bool:
        """True if a batch of the partition can be sent, provided that its leader is known."""
        queue = self._queues[partition]
        if (
            now_ms < queue.retry_at_ms
            or len(queue.in_flight) >= self._in_flight_max(queue)
            or (queue.is_retrying and queue.in_flight)
        ):
            return False
        if len(queue.batches) > len(queue.in_flight):
            return True
        # Closed only now that it can be sent: until then records are added, so that a backlog leaves in few batches.
        opened = queue.open
        if opened is not None and (self.is_hurried or now_ms >= opened.created_ms + self._settings.linger_ms):
            queue.seal()
            return True
        return False

    def _in_flight_max(self, queue: SendQueue) -> int:
        # A broker accepts any first sequence of a producer that it does not know (KIP-360). If the first batch was
        # refused and a broker that has just become the leader accepted the second, the first could never be stored.
        if self._settings.enable_idempotence and not queue.is_known:
            return 1
        return self._settings.max_in_flight_requests_per_connection

    def drain(self, leader: str, partitions: Iterable[TopicPartition], now_ms: int) -> list[Attempt]:
        """Return the batches of one request to this leader: at most one per partition, `max_request_size` in total.

        Partitions that the last requests had no room for come first.
        """
        attempts: list[Attempt] = []
        room = self._settings.max_request_size
        for partition in sorted(partitions, key=lambda each: self._queues[each].last_attempt):
            queue = self._queues[partition]
            if not self.is_ready(partition, now_ms) or (queue.in_flight and queue.leader != leader):
                continue
            batch = self._encoded(queue)
            if batch is None or batch.encoded is None:
                continue
            if attempts and len(batch.encoded) > room:
                break
            room -= len(batch.encoded)
            attempts.append(self._begin(queue, batch, leader, now_ms))
        return attempts

    def leader_moved(self, partition: TopicPartition, leader: str) -> None:
        """Take back what is in flight to the former leader, which may never answer: there is a newer one.

        Without idempotence the queue waits for the response instead, because a retry could store records twice.
        """
        queue = self._queues[partition]
        if queue.leader in ("", leader):
            return
        if queue.in_flight and not self._settings.enable_idempotence:
            return
        for batch in queue.in_flight:
            batch.last_reason = f"{queue.leader} is no longer the leader"
        queue.has_lost = queue.has_lost or bool(queue.in_flight)
        queue.in_flight.clear()
        # The former leader's failures say nothing about the new one.
        queue.leader, queue.retry_at_ms, queue.failures = leader, 0, 0

    def _encoded(self, queue: SendQueue) -> Batch | None:
        """Return the queue's next batch, encoded; None while the queue has no producer id or must wait."""
        if queue.must_renumber and not queue.in_flight:
            queue.renumber_after_hole() if self._is_transactional else queue.renumber()
        batch = queue.next_batch()
        if batch is None or batch.encoded is not None:
            return batch
        if not self._settings.enable_idempotence:
            batch.encode(self._settings.compression_type, None, -1)
            return batch
        if queue.identity is None:
            if self._identity in (None, queue.spent_identity):
                return None
            queue.identity = self._identity
        if queue.is_far_ahead(self._settings.max_in_flight_requests_per_connection):
            return None
        queue.encoded_count += 1
        batch.encoded_as = queue.encoded_count
        codec = self._settings.compression_type
        batch.encode(codec, queue.identity, queue.next_sequence, transactional=self._is_transactional)
        queue.next_sequence = batch.next_sequence
        return batch

    def _begin(self, queue: SendQueue, batch: Batch, leader: str, now_ms: int) -> Attempt:
        self._attempts += 1
        batch.attempts += 1
        batch.sent_ms = now_ms
        queue.leader = leader
        queue.in_flight[batch] = queue.last_attempt = self._attempts
        if queue.is_retrying:
            # What the leader said before the attempt failed says nothing about this one.
            queue.is_retrying, queue.awaited = False, None
        return Attempt(batch, self._attempts)

    # --- responses --------------------------------------------------------------------------------------------

    def answered(self, attempt: Attempt, result: ProducePartitionResult, now_ms: int) -> list[BatchOutcome]:
        queue = self._lane_of(attempt)
        if queue is None:
            return []
        batch, code = attempt.batch, result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return self._complete(queue, batch, result.base_offset, result.log_append_time_ms)
        batch.last_reason = f"{code.name}: {result.error_message}" if result.error_message else code.name
        if code in _LOST_PRODUCER_STATE:
            return self._out_of_order(queue, batch, Refusal(code, _about(batch, result.error_message)), now_ms)
        if code.retriable:
            is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
            return self._retry(queue, batch, now_ms, self._concurrent_backoff if is_concurrent else self._backoff)
        if code in _TOO_LARGE and batch.record_count > 1 and self._may_split(queue):
            self._split(queue, batch)
            return []
        return self._fail(queue, batch, Refusal(code, _about(batch, result.error_message)))

    def lost(self, attempt: Attempt, reason: str, now_ms: int) -> list[BatchOutcome]:
        """Send the batch again: the attempt gets no response, so its outcome is unknown."""
        queue = self._lane_of(attempt)
        if queue is None:
            return []
        awaited = queue.awaited_now(now_ms)
        attempt.batch.last_reason = f"{reason}; it last said that it {awaited}" if awaited else reason
        queue.has_lost = True
        return self._retry(queue, attempt.batch, now_ms, self._backoff)

    def explained(self, partition: TopicPartition, awaited: Awaited) -> None:
        """Note what the leader of an unanswered batch waits for, with an empty text if it does not say."""
        queue = self._queues[partition]
        oldest = queue.batches[0] if queue.batches else None
        if oldest in queue.in_flight and oldest.sent_ms <= awaited.asked_ms:
            queue.awaited = awaited if awaited.text else None

    def sent(self, attempt: Attempt) -> list[BatchOutcome]:
        """Complete an attempt with acks=0, which gets no response."""
        queue = self._lane_of(attempt)
        return [] if queue is None else self._complete(queue, attempt.batch, -1, -1)

    def _lane_of(self, attempt: Attempt) -> SendQueue | None:
        """Return the attempt's queue; None if the attempt is no longer in flight."""
        queue = self._queues[attempt.batch.partition]
        return queue if queue.in_flight.get(attempt.batch) == attempt.number else None

    def _complete(
        self, queue: SendQueue, batch: Batch, base_offset: int, log_append_time_ms: int
    ) -> list[BatchOutcome]:
        # The broker accepted this batch, so the dropped ones before it were stored after all.
        for hole in queue.holes_before(batch):
            queue.holes.remove(hole)
        queue.failures, queue.last_failure, queue.awaited = 0, None, None
        queue.is_known = True
        queue.batches.remove(batch)
        del queue.in_flight[batch]
        self._release(batch)
        return [Delivered(batch, base_offset, log_append_time_ms)]

    def _retry(self, queue: SendQueue, batch: Batch, now_ms: int, backoff: Backoff) -> list[BatchOutcome]:
        if self._given_up is not None:
            return self._fail(queue, batch, self._aborted(batch))
        if batch.attempts > self._settings.retries:
            return self._fail(queue, batch, NoRetriesLeft(batch.partition, self._settings.retries, batch.last_reason))
        del queue.in_flight[batch]
        queue.last_failure = now_ms, batch.last_reason
        if not queue.is_retrying:
            # Batches that were in flight together fail together: this counts as one failure.
            queue.is_retrying = True
            queue.failures += 1
            queue.retry_at_ms = now_ms + backoff.delay_ms(queue.failures)
        return []

    def _out_of_order(self, queue: SendQueue, batch: Batch, error: Refusal, now_ms: int) -> list[BatchOutcome]:
        if batch is not queue.batches[0]:
            # The batches before it are not stored yet, so the gap is expected.
            return self._retry(queue, batch, now_ms, self._backoff)
        if queue.holes_before(batch):
            queue.must_renumber = True
            return self._retry(queue, batch, now_ms, self._backoff)
        outstanding = [each for each in queue.batches if each.base_sequence >= 0]
        queue.in_flight.clear()
        outcomes = [outcome for each in outstanding for outcome in self._fail(queue, each, error)]
        queue.renumber()
        return outcomes

    def _may_split(self, queue: SendQueue) -> bool:
        # A transaction has one identity. With another attempt of what follows under way, sequences cannot be reused.
        return self._given_up is None and not (self._is_transactional and queue.has_lost)

    def _split(self, queue: SendQueue, batch: Batch) -> None:
        """Replace a batch that is too large for the partition by its two halves."""
        halves = batch.halves()
        place = queue.batches.index(batch)
        queue.drop(batch)
        queue.batches[place:place] = halves
        if self._settings.enable_idempotence:
            # The refused batch leaves a gap in the sequences, so nothing after it is stored either.
            queue.must_renumber = True
        queue.is_retrying = True

    def _fail(self, queue: SendQueue, batch: Batch, error: Exception) -> list[BatchOutcome]:
        queue.drop(batch)
        self._release(batch)
        return [Failed(batch, error)]

    def _release(self, batch: Batch) -> None:
        self.memory_used -= batch.size_bytes - HEADER_BYTES

    # --- time -------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> list[BatchOutcome]:
        """Drop batches that are older than `delivery_timeout_ms`, or that belong to a transaction that is given up."""
        timeout_ms = self._settings.delivery_timeout_ms
        outcomes = [] if self._given_up is None else self.drop_unsent(self._queues, self._aborted)
        for queue in self._busy_lanes():
            if queue.open is not None and queue.open.created_ms + timeout_ms <= now_ms:
                queue.seal()
            while queue.batches and queue.batches[0].created_ms + timeout_ms <= now_ms:
                batch = queue.batches[0]
                reason = queue.reason(batch, now_ms) or self.trouble or "no response yet"
                outcomes += self._fail(queue, batch, DeliveryTimeout(batch.partition, timeout_ms, reason))
        return outcomes

    def abandon(self) -> list[BatchOutcome]:
        """Drop everything, because the producer is closed."""
        outcomes: list[BatchOutcome] = []
        for queue in self._busy_lanes():
            queue.seal()
            for batch in list(queue.batches):
                reason = batch.last_reason or self.trouble
                why = f"; last reason: {reason}" if reason else ""
                error = ClientClosed(f"{batch.partition}: the producer was closed before its records were stored{why}")
                outcomes += self._fail(queue, batch, error)
        return outcomes

    def drop_unsent(
        self, partitions: Iterable[TopicPartition], error_of: Callable[[Batch], Exception]
    ) -> list[BatchOutcome]:
        """Drop what these partitions have and is not in flight: to send it, or to send it again, is in vain."""
        outcomes: list[BatchOutcome] = []
        for queue in [self._queues[each] for each in partitions]:
            queue.seal()
            for batch in [each for each in queue.batches if each not in queue.in_flight]:
                outcomes += self._fail(queue, batch, error_of(batch))
        return outcomes

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the next time at which something is due; None if nothing is waiting."""
        return min((each for queue in self._busy_lanes() for each in self._deadlines(queue, now_ms)), default=None)

    def _deadlines(self, queue: SendQueue, now_ms: int) -> Iterator[int]:
        oldest = queue.batches[0] if queue.batches else queue.open
        if oldest is not None:
            yield oldest.created_ms + self._settings.delivery_timeout_ms
        if queue.open is not None:
            lingers_until_ms = queue.open.created_ms + self._settings.linger_ms
            if lingers_until_ms > now_ms:
                yield lingers_until_ms
        if queue.retry_at_ms > now_ms:
            yield queue.retry_at_ms

    def longest_delay(self, now_ms: int) -> Delay | None:
        """Return the delay of the partition whose oldest record has waited longest; None if no reason is known."""
        delays = (queue.delay(now_ms, self.trouble) for queue in self._busy_lanes())
        return max(filter(None, delays), key=lambda delay: delay.waited_ms, default=None)

    def _busy_lanes(self) -> Iterator[SendQueue]:
        return (queue for queue in self._queues.values() if queue.batches or queue.open is not None)


def _about(batch: Batch, message: str) -> str:
    return f"{batch.partition}: {message}" if message else str(batch.partition)
