"""Records from `send` to acknowledgement: a state machine without clock or network, with a lane for each partition.

A lane keeps its batches in order until each is acknowledged or dropped. Batches in flight are a prefix of the lane, all
sent to one leader. When an attempt fails, the lane sends nothing more until every batch in flight has been answered,
then starts again from its first batch. So order is kept, and with idempotence brokers recognise duplicates by their
sequence numbers.

When a batch that may have been sent is dropped, the lane has a *hole*: brokers may refuse what follows as out of
order, which means that neither the dropped batch nor any after it is stored. Only then may the later ones get new
sequence numbers, under a new producer id, without the risk of storing one twice. An out-of-order refusal without a
hole means that the broker lost what it had acknowledged; then all that the lane had sent fails with that error.

In a transaction, every lane has the identity of the transaction and begins with sequence 0. When a batch fails, the
transaction cannot be committed any more: it is given up, and nothing is sent or retried until the next one begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from kraft.client.model.errors import ClientClosed, DeliveryTimeout, TransactionAborted
from kraft.client.model.settings import ProducerSettings
from kraft.client.model.values import Delay
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.column_records import ColumnRecords, RecordContent
from kraft.client.sans_io.send_batch import Batch, ProducerIdentity, Receipt
from kraft.client.sans_io.send_lane import Awaited, Lane
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
    """The lanes of one producer."""

    def __init__(self, settings: ProducerSettings, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=chance)
        self._lanes: dict[TopicPartition, Lane] = {}
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
        lane = self._lanes.get(partition)
        used = HEADER_BYTES if lane is None or lane.open is None else lane.open.size_bytes
        room = (ends[start - 1] if start else 0) + self._settings.batch_size
        end = bisect_right(ends, room - used, start)
        if end == start and used > HEADER_BYTES:
            end = bisect_right(ends, room - HEADER_BYTES, start)
        return max(end, start + 1)

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
        lane, closed_one = self._lane_for(partition, size_bytes, now_ms)
        assert lane.open is not None, "the lane has room"
        lane.open.add(records, size_bytes, receipt)
        return self._added(lane, lane.open, size_bytes, is_full=more_follow) or closed_one

    def append_one(
        self, partition: TopicPartition, record: RecordContent, size_bytes: int, future: TaskFuture, now_ms: int
    ) -> bool:
        """Add one record. Return True if a batch is full."""
        lane, closed_one = self._lane_for(partition, size_bytes, now_ms)
        assert lane.open is not None, "the lane has room"
        lane.open.add_one(record, size_bytes, future)
        return self._added(lane, lane.open, size_bytes) or closed_one

    def _lane_for(self, partition: TopicPartition, size_bytes: int, now_ms: int) -> tuple[Lane, bool]:
        """Return the lane, with an open batch that has room, and whether another batch was closed for that."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition)
        closed_one = lane.open is not None and lane.open.size_bytes + size_bytes > self._settings.batch_size
        if closed_one:
            lane.seal()
        if lane.open is None:
            self._batches += 1
            lane.open = Batch(partition, now_ms, self._batches)
        return lane, closed_one

    def _added(self, lane: Lane, batch: Batch, size_bytes: int, *, is_full: bool = False) -> bool:
        self.memory_used += size_bytes
        if is_full or batch.size_bytes >= self._settings.batch_size:
            lane.seal()
            return True
        return False

    # --- identity ---------------------------------------------------------------------------------------------

    @property
    def needs_identity(self) -> bool:
        """True while a lane waits for a producer id that it may use. In transactions, no lane does."""
        if not self._settings.enable_idempotence or self._is_transactional:
            return False
        return any(
            lane.identity is None and self._identity in (None, lane.spent_identity) for lane in self._busy_lanes()
        )

    def give_identity(self, identity: ProducerIdentity) -> None:
        """Set the producer id for lanes that have none. Others keep theirs and its sequences."""
        self._identity = identity

    # --- transactions -----------------------------------------------------------------------------------------

    def begin_transaction(self, identity: ProducerIdentity) -> None:
        """Begin the next transaction. Every record of the last one has an outcome."""
        self._given_up = None
        if identity == self._identity:
            # Nothing was sent in the last transaction: its end would have changed the epoch.
            return
        self._identity = identity
        for lane in self._lanes.values():
            lane.begin_transaction()

    def give_up(self, reason: str) -> list[BatchOutcome]:
        """Drop what is not in flight, and retry nothing: the transaction will be aborted."""
        if self._given_up is None:
            self._given_up = reason
        return self._drop_given_up()

    def _drop_given_up(self) -> list[BatchOutcome]:
        self.close_batches()
        return [
            outcome
            for lane in self._lanes.values()
            for batch in [each for each in lane.batches if each not in lane.in_flight]
            for outcome in self._fail(lane, batch, self._aborted(batch))
        ]

    def _aborted(self, batch: Batch) -> TransactionAborted:
        return TransactionAborted(f"{batch.partition}: the transaction of the records is aborted: {self._given_up}")

    # --- output -----------------------------------------------------------------------------------------------

    def waiting(self) -> list[TopicPartition]:
        """Return the partitions with records that are not acknowledged."""
        return [lane.partition for lane in self._busy_lanes()]

    def close_batches(self) -> None:
        """Close the open batches: no records are added to them, and they do not linger."""
        for lane in self._lanes.values():
            lane.seal()

    def unfinished(self) -> set[int]:
        """Return the serial numbers of the closed batches that are not acknowledged."""
        return {batch.serial for lane in self._lanes.values() for batch in lane.batches}

    def is_ready(self, partition: TopicPartition, now_ms: int) -> bool:
        """True if a batch of the partition can be sent, provided that its leader is known."""
        lane = self._lanes[partition]
        if (
            now_ms < lane.retry_at_ms
            or len(lane.in_flight) >= self._in_flight_max(lane)
            or (lane.is_retrying and lane.in_flight)
        ):
            return False
        if len(lane.batches) > len(lane.in_flight):
            return True
        # Closed only now that it can be sent: until then records are added, so that a backlog leaves in few batches.
        if lane.open is not None and self._lingered(lane.open, now_ms):
            lane.seal()
            return True
        return False

    def _in_flight_max(self, lane: Lane) -> int:
        # A broker accepts any first sequence of a producer that it does not know (KIP-360). If the first batch was
        # refused and a broker that has just become the leader accepted the second, the first could never be stored.
        if self._settings.enable_idempotence and not lane.is_known:
            return 1
        return self._settings.max_in_flight_requests_per_connection

    def drain(self, leader: str, partitions: Iterable[TopicPartition], now_ms: int) -> list[Attempt]:
        """Return the batches of one request to this leader: at most one per partition, `max_request_size` in total.

        Partitions that the last requests had no room for come first.
        """
        attempts: list[Attempt] = []
        room = self._settings.max_request_size
        for partition in sorted(partitions, key=lambda each: self._lanes[each].last_attempt):
            lane = self._lanes[partition]
            if not self.is_ready(partition, now_ms) or (lane.in_flight and lane.leader != leader):
                continue
            batch = self._encoded(lane)
            if batch is None or batch.encoded is None:
                continue
            if attempts and len(batch.encoded) > room:
                break
            room -= len(batch.encoded)
            attempts.append(self._begin(lane, batch, leader, now_ms))
        return attempts

    def leader_moved(self, partition: TopicPartition, leader: str) -> None:
        """Take back what is in flight to the former leader, which may never answer: there is a newer one.

        Without idempotence the lane waits for the response instead, because a retry could store records twice.
        """
        lane = self._lanes[partition]
        if lane.leader in ("", leader):
            return
        if lane.in_flight and not self._settings.enable_idempotence:
            return
        for batch in lane.in_flight:
            batch.last_reason = f"{lane.leader} is no longer the leader"
        lane.has_lost = lane.has_lost or bool(lane.in_flight)
        lane.in_flight.clear()
        # The former leader's failures say nothing about the new one.
        lane.leader, lane.retry_at_ms, lane.failures = leader, 0, 0

    def _encoded(self, lane: Lane) -> Batch | None:
        """Return the lane's next batch, encoded; None while the lane has no producer id or must wait."""
        if lane.must_renumber and not lane.in_flight:
            lane.renumber_after_hole() if self._is_transactional else lane.renumber()
        batch = lane.next_batch()
        if batch is None or batch.encoded is not None:
            return batch
        if not self._settings.enable_idempotence:
            batch.encode(self._settings.compression_type, None, -1)
            return batch
        if lane.identity is None:
            if self._identity in (None, lane.spent_identity):
                return None
            lane.identity = self._identity
        if lane.is_far_ahead(self._settings.max_in_flight_requests_per_connection):
            return None
        lane.encoded_count += 1
        batch.encoded_as = lane.encoded_count
        codec = self._settings.compression_type
        batch.encode(codec, lane.identity, lane.next_sequence, transactional=self._is_transactional)
        lane.next_sequence = batch.next_sequence
        return batch

    def _begin(self, lane: Lane, batch: Batch, leader: str, now_ms: int) -> Attempt:
        self._attempts += 1
        batch.sent_ms = now_ms
        lane.leader = leader
        lane.in_flight[batch] = lane.last_attempt = self._attempts
        if lane.is_retrying:
            # What the leader said before the attempt failed says nothing about this one.
            lane.is_retrying, lane.awaited = False, None
        return Attempt(batch, self._attempts)

    def _lingered(self, batch: Batch, now_ms: int) -> bool:
        return self.is_hurried or now_ms >= batch.created_ms + self._settings.linger_ms

    # --- responses --------------------------------------------------------------------------------------------

    def answered(self, attempt: Attempt, result: ProducePartitionResult, now_ms: int) -> list[BatchOutcome]:
        lane = self._lane_of(attempt)
        if lane is None:
            return []
        batch, code = attempt.batch, result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return self._complete(lane, batch, result.base_offset, result.log_append_time_ms)
        batch.last_reason = f"{code.name}: {result.error_message}" if result.error_message else code.name
        if code in _LOST_PRODUCER_STATE:
            return self._out_of_order(lane, batch, Refusal(code, _about(batch, result.error_message)), now_ms)
        if code.retriable:
            is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
            return self._retry(lane, batch, now_ms, self._concurrent_backoff if is_concurrent else self._backoff)
        if code in _TOO_LARGE and len(batch.records) > 1 and self._may_split(lane):
            self._split(lane, batch)
            return []
        return self._fail(lane, batch, Refusal(code, _about(batch, result.error_message)))

    def lost(self, attempt: Attempt, reason: str, now_ms: int) -> list[BatchOutcome]:
        """Send the batch again: the attempt gets no response, so its outcome is unknown."""
        lane = self._lane_of(attempt)
        if lane is None:
            return []
        awaited = lane.awaited_now(now_ms)
        attempt.batch.last_reason = f"{reason}; it last said that it {awaited}" if awaited else reason
        lane.has_lost = True
        return self._retry(lane, attempt.batch, now_ms, self._backoff)

    def explained(self, partition: TopicPartition, awaited: Awaited) -> None:
        """Note what the leader of an unanswered batch waits for, with an empty text if it does not say."""
        lane = self._lanes[partition]
        oldest = lane.batches[0] if lane.batches else None
        if oldest in lane.in_flight and oldest.sent_ms <= awaited.asked_ms:
            lane.awaited = awaited if awaited.text else None

    def sent(self, attempt: Attempt) -> list[BatchOutcome]:
        """Complete an attempt with acks=0, which gets no response."""
        lane = self._lane_of(attempt)
        return [] if lane is None else self._complete(lane, attempt.batch, -1, -1)

    def _lane_of(self, attempt: Attempt) -> Lane | None:
        """Return the attempt's lane; None if the attempt is no longer in flight."""
        lane = self._lanes[attempt.batch.partition]
        return lane if lane.in_flight.get(attempt.batch) == attempt.number else None

    def _complete(self, lane: Lane, batch: Batch, base_offset: int, log_append_time_ms: int) -> list[BatchOutcome]:
        # The broker accepted this batch, so the dropped ones before it were stored after all.
        for hole in lane.holes_before(batch):
            lane.holes.remove(hole)
        lane.failures, lane.last_failure, lane.awaited = 0, None, None
        lane.is_known = True
        lane.batches.remove(batch)
        del lane.in_flight[batch]
        self._release(batch)
        return [Delivered(batch, base_offset, log_append_time_ms)]

    def _retry(self, lane: Lane, batch: Batch, now_ms: int, backoff: Backoff) -> list[BatchOutcome]:
        if self._given_up is not None:
            return self._fail(lane, batch, self._aborted(batch))
        del lane.in_flight[batch]
        lane.last_failure = now_ms, batch.last_reason
        if not lane.is_retrying:
            # Batches that were in flight together fail together: this counts as one failure.
            lane.is_retrying = True
            lane.failures += 1
            lane.retry_at_ms = now_ms + backoff.delay_ms(lane.failures)
        return []

    def _out_of_order(self, lane: Lane, batch: Batch, error: Refusal, now_ms: int) -> list[BatchOutcome]:
        if batch is not lane.batches[0]:
            # The batches before it are not stored yet, so the gap is expected.
            return self._retry(lane, batch, now_ms, self._backoff)
        if lane.holes_before(batch):
            lane.must_renumber = True
            return self._retry(lane, batch, now_ms, self._backoff)
        outstanding = [each for each in lane.batches if each.base_sequence >= 0]
        lane.in_flight.clear()
        outcomes = [outcome for each in outstanding for outcome in self._fail(lane, each, error)]
        lane.renumber()
        return outcomes

    def _may_split(self, lane: Lane) -> bool:
        # A transaction has one identity. With another attempt of what follows under way, sequences cannot be reused.
        return self._given_up is None and not (self._is_transactional and lane.has_lost)

    def _split(self, lane: Lane, batch: Batch) -> None:
        """Replace a batch that is too large for the partition by its two halves."""
        halves = batch.halves()
        place = lane.batches.index(batch)
        lane.drop(batch)
        lane.batches[place:place] = halves
        if self._settings.enable_idempotence:
            # The refused batch leaves a gap in the sequences, so nothing after it is stored either.
            lane.must_renumber = True
        lane.is_retrying = True

    def _fail(self, lane: Lane, batch: Batch, error: Exception) -> list[BatchOutcome]:
        lane.drop(batch)
        self._release(batch)
        return [Failed(batch, error)]

    def _release(self, batch: Batch) -> None:
        self.memory_used -= batch.size_bytes - HEADER_BYTES

    # --- time -------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> list[BatchOutcome]:
        """Drop batches that are older than `delivery_timeout_ms`, or that belong to a transaction that is given up."""
        timeout_ms = self._settings.delivery_timeout_ms
        outcomes = [] if self._given_up is None else self._drop_given_up()
        for lane in self._busy_lanes():
            if lane.open is not None and lane.open.created_ms + timeout_ms <= now_ms:
                lane.seal()
            while lane.batches and lane.batches[0].created_ms + timeout_ms <= now_ms:
                batch = lane.batches[0]
                reason = lane.reason(batch, now_ms) or self.trouble or "no response yet"
                outcomes += self._fail(lane, batch, DeliveryTimeout(batch.partition, timeout_ms, reason))
        return outcomes

    def abandon(self) -> list[BatchOutcome]:
        """Drop everything, because the producer is closed."""
        outcomes: list[BatchOutcome] = []
        for lane in self._busy_lanes():
            lane.seal()
            for batch in list(lane.batches):
                reason = batch.last_reason or self.trouble
                why = f"; last reason: {reason}" if reason else ""
                error = ClientClosed(f"{batch.partition}: the producer was closed before its records were stored{why}")
                outcomes += self._fail(lane, batch, error)
        return outcomes

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the next time at which something is due; None if nothing is waiting."""
        return min((each for lane in self._busy_lanes() for each in self._deadlines(lane, now_ms)), default=None)

    def _deadlines(self, lane: Lane, now_ms: int) -> Iterator[int]:
        oldest = lane.batches[0] if lane.batches else lane.open
        if oldest is not None:
            yield oldest.created_ms + self._settings.delivery_timeout_ms
        if lane.open is not None:
            lingers_until_ms = lane.open.created_ms + self._settings.linger_ms
            if lingers_until_ms > now_ms:
                yield lingers_until_ms
        if lane.retry_at_ms > now_ms:
            yield lane.retry_at_ms

    def longest_delay(self, now_ms: int) -> Delay | None:
        """Return the delay of the partition whose oldest record has waited longest; None if no reason is known."""
        delays = (lane.delay(now_ms, self.trouble) for lane in self._busy_lanes())
        return max(filter(None, delays), key=lambda delay: delay.waited_ms, default=None)

    def _busy_lanes(self) -> Iterator[Lane]:
        return (lane for lane in self._lanes.values() if lane.batches or lane.open is not None)


def _about(batch: Batch, message: str) -> str:
    return f"{batch.partition}: {message}" if message else str(batch.partition)
