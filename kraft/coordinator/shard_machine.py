"""Runs one shard: decides commands in order, and releases each answer once everything it depends on is committed.

There are three replicated states. `committed` is the replay of the log below the high watermark, `appended` that of the
whole log, `latest` includes the decisions that are not in the log yet. A command is decided on `latest`. The decisions
of one turn are appended as one batch, and one batch at a time, so the log has the records in the order of the
decisions. The records of a decision for a producer's transaction are a batch of their own, and so is a marker. Both
are checked with the log first, so that an old producer or an old transaction coordinator is refused alone. Replies and
events belong to the last batch decided before them, and are released when that batch is committed.

A failed append was not written: the log refuses a batch as a whole. Earlier batches may be in the log without being
committed; nothing in this leader epoch removes them, so they are committed later, or with the next leader. Therefore
the shard continues from `appended`, the replay of the log up to its end. The volatile state counted on the batch that
failed, and is dropped: all waiting requests are refused with an error after which clients retry, and `loaded` is called
again after a pause, so that a log that refuses every append does not keep the broker busy. Events of what is undone
by this are never reported.

A decision that cannot be written, because it is too large or the log accepts no records now, is refused alone, and
changes nothing. If a timer led to it, the timer ends again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.shard import (
    BytesMax,
    DecisionContext,
    Encode,
    Reply,
    Shard,
    ShardDecision,
    Ticket,
    TimerKey,
    TransactionalProducer,
)
from kraft.coordinator.shard_batches import (
    DecisionWrite,
    Happening,
    ShardBatch,
    TooLarge,
    TransactionalBatch,
    WrittenRecord,
    size_bound,
)
from kraft.coordinator.shard_effects import (
    AppendBatch,
    DoWork,
    Effect,
    Load,
    RefuseAll,
    RemoveTimer,
    ReportEvents,
    SendReplies,
    SetMoreTimers,
    SetTimer,
)
from kraft.coordinator.shard_refusals import client_refusal, commit_overdue, coordinator_unavailable
from kraft.log.append_work import AppendOrigin
from kraft.log.format.compression import Codec
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import HEADER_BYTES, build_batch, read_header
from kraft.log.format.record_codec import Record as LogRecord
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

Replicated = TypeVar("Replicated")
Volatile = TypeVar("Volatile")
Command = TypeVar("Command")
Record = TypeVar("Record")

RETRY_MS: Final = 500
"""Pause before a timer whose decision was not written ends again, and before `loaded` after a failed append."""

TIMERS_AT_ONCE: Final = 500
"""Timers of a load that are set together: a shard may have a hundred thousand members."""

UNCOMMITTED_BYTES_MAX: Final = 16 << 20
"""Limit on the records of a shard that are decided and not committed."""


# --- timers of the host itself -------------------------------------------------------------------------------


class _CommitDeadline(Struct, frozen=True):
    """Ends when the replies of a batch have waited too long for its commit."""

    batch: int


class _Reload(Struct, frozen=True):
    """Ends when the shard is to be loaded after a failed append."""


# --- the machine ---------------------------------------------------------------------------------------------


class ShardFacts(Struct, frozen=True, kw_only=True):
    """Facts and limits that a shard depends on besides its state."""

    context: Callable[[], DecisionContext]
    batch_bytes_max: BytesMax
    """Decisions are written together in batches of at most this size, unless one is larger alone."""

    decision_bytes_max: BytesMax | None = None
    """Limit on the batch of one decision, if it is another."""

    append_refusal: Callable[[], Refusal | None]
    """Returns why the log would refuse an append now; None if nothing is known against it."""

    producer_refusal: Callable[[bytes, AppendOrigin], Refusal | None]
    """Returns why the log would refuse this batch of a producer's transaction now, because of the producer."""

    commit_timeout_ms: int = 5_000
    """How long a reply waits for the commit of what it depends on."""

    codec: Codec = Codec.NONE


class ShardMachine(Generic[Replicated, Volatile, Command, Record]):
    """One shard in one leader epoch. Every event returns effects, which the host carries out in order."""

    def __init__(
        self,
        shard: Shard[Replicated, Volatile, Command, Record],
        encode: Encode[Record],
        facts: ShardFacts,
        replicated: Replicated,
    ) -> None:
        """`replicated` is the replay of the whole log, all of which is committed."""
        self._shard = shard
        self._encode = encode
        self._facts = facts
        self.committed = replicated
        """Everything below the high watermark."""
        self.latest = replicated
        """Everything decided."""
        self.volatile: Volatile | None = None
        """None until `loaded`, and again after an append failed."""
        self._appended = replicated
        self._decided: deque[ShardBatch[Replicated]] = deque()
        """Batches that are not appended yet; records are added to the last one."""
        self._in_flight: ShardBatch[Replicated] | None = None
        """The batch of the last `AppendBatch`."""
        self._waiting_producers: set[int] = set()
        """Producers with a batch of their own among those: each has one at most."""
        self._uncommitted: deque[ShardBatch[Replicated]] = deque()
        """Batches in the log that are not committed."""
        self._uncommitted_bytes = 0
        self._timers: dict[TimerKey, int] = {}
        """The number of the current timer with each key."""
        self._unset: dict[TimerKey, int] = {}
        """Timers of the last load that are still to be set, with their delays."""
        self._numbers = 0

    @property
    def wants_flush(self) -> bool:
        """True if `flush` would append."""
        return self._in_flight is None and bool(self._decided)

    @property
    def is_settled(self) -> bool:
        """True if everything decided is committed."""
        return self._last_batch() is None

    # --- loading ---------------------------------------------------------------------------------------------

    def start(self) -> list[Effect[Replicated]]:
        return [Load(self.latest)]

    def loaded(self, decision: ShardDecision[Volatile, Record]) -> list[Effect[Replicated]]:
        """Take what the shard's `loaded` returned. No command was decided since."""
        written = self._written(replace(decision, is_atomic=False))
        if isinstance(written, Refusal):
            return [self._set_timer(_Reload(), RETRY_MS, written)]
        effects = self._take(replace(decision, timers={}), written, self._facts.context())
        self._unset = {key: delay_ms for key, delay_ms in decision.timers.items() if delay_ms is not None}
        return effects + self.set_more_timers()

    def set_more_timers(self) -> list[Effect[Replicated]]:
        """Set some of the timers that the last load brought, unless a decision has set or removed them since."""
        effects: list[Effect[Replicated]] = [
            self._set_timer(key, self._unset[key]) for key in list(islice(self._unset, TIMERS_AT_ONCE))
        ]
        return [*effects, SetMoreTimers()] if self._unset else effects

    # --- commands and timers ---------------------------------------------------------------------------------

    def command(self, ticket: Ticket, command: Command) -> list[Effect[Replicated]]:
        """Decide one request. If the shard raises an exception, nothing has changed."""
        if self.volatile is None:
            return [
                _refused(ticket, coordinator_unavailable("the coordinator is loaded again after a failed write; retry"))
            ]
        context = self._facts.context()
        decision = self._shard.decide(self.latest, self.volatile, ticket, command, context)
        written = self._written(decision)
        return [_refused(ticket, written)] if isinstance(written, Refusal) else self._take(decision, written, context)

    def end_transaction(self, ticket: Ticket, marker: bytes, origin: AppendOrigin) -> list[Effect[Replicated]]:
        """Append the control batch that ends a producer's transaction; the response is None."""
        if self.volatile is None:
            return [
                _refused(ticket, coordinator_unavailable("the coordinator is loaded again after a failed write; retry"))
            ]
        header = read_header(marker)
        ended = marker_in(header, marker)
        assert ended is not None, "the control batch of a coordinator holds a marker"
        transactional = TransactionalBatch(producer_id=header.producer_id, batch=marker, origin=origin)
        refusal = self._log_refusal() or self._producer_refusal(transactional)
        if refusal is not None:
            return [_refused(ticket, refusal)]
        is_commit = ended.type is MarkerType.COMMIT
        after = self._shard.replay_end_transaction(self.latest, header.producer_id, is_commit)
        effects = self._begin_batch(transactional)
        self._grow(header.size_bytes, after)
        return effects + self._reply((Reply(ticket, None),))

    def timer_ended(self, key: TimerKey, number: int) -> list[Effect[Replicated]]:
        """Handle the end of a timer; one that was replaced or removed is ignored.

        If the shard raises an exception, nothing has changed: the timer is still set, and may end again.
        """
        if self._timers.get(key) != number:
            return []
        if isinstance(key, _Reload):
            del self._timers[key]
            return [Load(self.latest)]
        if isinstance(key, _CommitDeadline):
            del self._timers[key]
            return self._commit_is_overdue(key.batch)
        assert self.volatile is not None, "without a volatile state there are no timers of the shard"
        context = self._facts.context()
        decision = self._shard.timer_ended(self.latest, self.volatile, key, context)
        written = self._written(decision)
        if isinstance(written, Refusal):
            return [self._set_timer(key, RETRY_MS, written)]
        del self._timers[key]
        return self._take(decision, written, context)

    def _written(self, decision: ShardDecision[Volatile, Record]) -> DecisionWrite[Replicated] | Refusal:
        """Return the records of a decision as they are written, or why they cannot be. Changes nothing."""
        if not decision.records:
            return DecisionWrite([])
        if (refusal := self._log_refusal()) is not None:
            return refusal
        records = self._encoded(decision)
        if isinstance(records, Refusal):
            return records
        transactional = None if decision.producer is None else self._transactional(records, decision.producer)
        if transactional is not None and (refusal := self._producer_refusal(transactional)) is not None:
            return refusal
        after, written = self.latest, []
        for record, encoded in zip(decision.records, records, strict=True):
            if transactional is None:
                after = self._shard.replay(after, record)
            else:
                after = self._shard.replay_transactional(after, transactional.producer_id, record)
            written.append(WrittenRecord(encoded, after))
        return DecisionWrite(written, transactional)

    def _log_refusal(self) -> Refusal | None:
        if self._uncommitted_bytes > UNCOMMITTED_BYTES_MAX:
            return coordinator_unavailable("too many writes of this coordinator wait for their commit; retry")
        refusal = self._facts.append_refusal()
        return None if refusal is None else client_refusal(refusal)

    def _producer_refusal(self, transactional: TransactionalBatch) -> Refusal | None:
        """Return why the log will refuse a batch because of its producer.

        The log cannot tell while other batches of the producer are to be appended before it.
        """
        if transactional.producer_id in self._waiting_producers:
            return coordinator_unavailable(
                f"records of producer {transactional.producer_id} are still being written; retry"
            )
        refusal = self._facts.producer_refusal(transactional.batch, transactional.origin)
        if refusal is None or refusal.error_code is not ErrorCode.NOT_ENOUGH_REPLICAS:
            return refusal
        return client_refusal(refusal)

    def _transactional(self, records: list[LogRecord], producer: TransactionalProducer) -> TransactionalBatch:
        batch = build_batch(
            records,
            self._facts.codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transactional=True,
        )
        origin = AppendOrigin(is_coordinator=True, guard=producer.guard, is_verified_again=True)
        return TransactionalBatch(producer_id=producer.producer_id, batch=batch, origin=origin)

    def _encoded(self, decision: ShardDecision[Volatile, Record]) -> list[LogRecord] | Refusal:
        """Return the records as they are encoded. Of a decision that is too large, no more than fit are encoded."""
        facts = self._facts
        now_ms = facts.context().now_ms
        size_max = (facts.decision_bytes_max or facts.batch_bytes_max)()
        records: list[LogRecord] = []
        size = HEADER_BYTES
        for record in decision.records:
            key, value = self._encode(record)
            records.append(LogRecord(0, now_ms, key, value, ()))
            size = (size if decision.is_atomic else HEADER_BYTES) + size_bound(records[-1])
            if size > size_max:
                return TooLarge(size, size_max)
        return records

    def _take(
        self, decision: ShardDecision[Volatile, Record], written: DecisionWrite[Replicated], context: DecisionContext
    ) -> list[Effect[Replicated]]:
        effects: list[Effect[Replicated]] = []
        self.volatile = decision.volatile
        together = decision.is_atomic or written.transactional is not None
        for records in [written.records] if together else [[one] for one in written.records]:
            if records:
                effects += self._add_together(records, written.transactional)
        for key, delay_ms in decision.timers.items():
            effects.append(self._remove_timer(key) if delay_ms is None else self._set_timer(key, delay_ms))
        effects += [DoWork(work) for work in decision.work]
        return effects + self._reply(decision.replies) + self._report(decision, context)

    # --- batches ---------------------------------------------------------------------------------------------

    def _add_together(
        self, written: Sequence[WrittenRecord[Replicated]], transactional: TransactionalBatch | None
    ) -> list[Effect[Replicated]]:
        """Put the records into the last batch that is not appended yet, or into a new one."""
        size = sum(one.size for one in written)
        last = self._decided[-1] if self._decided and transactional is None else None
        has_room = last is not None and last.has_room(size, self._facts.batch_bytes_max())
        effects = [] if has_room else self._begin_batch(transactional)
        if transactional is None:
            self._decided[-1].records += [one.record for one in written]
        self._grow(size, written[-1].after)
        return effects

    def _begin_batch(self, transactional: TransactionalBatch | None) -> list[Effect[Replicated]]:
        self._numbers += 1
        self._decided.append(ShardBatch(self._numbers, transactional))
        if transactional is not None:
            self._waiting_producers.add(transactional.producer_id)
        return [self._set_timer(_CommitDeadline(self._numbers), self._facts.commit_timeout_ms)]

    def _grow(self, size: int, after: Replicated) -> None:
        """Take over the state after what was added to the last batch."""
        batch = self._decided[-1]
        batch.size += size
        self._uncommitted_bytes += size
        batch.after = self.latest = after

    def _last_batch(self) -> ShardBatch[Replicated] | None:
        """Return the last batch that is not committed."""
        if self._decided:
            return self._decided[-1]
        return self._in_flight or (self._uncommitted[-1] if self._uncommitted else None)

    def _reply(self, replies: tuple[Reply, ...]) -> list[Effect[Replicated]]:
        if not replies:
            return []
        batch = self._last_batch()
        if batch is None:
            return [SendReplies(replies)]
        if batch.is_overdue:
            return [SendReplies(commit_overdue(replies))]
        batch.replies += replies
        return []

    def _report(self, decision: ShardDecision[Volatile, Record], context: DecisionContext) -> list[Effect[Replicated]]:
        if not decision.events:
            return []
        is_written = bool(decision.records)
        happenings = [Happening(event, context.now_ms, is_written) for event in decision.events]
        batch = self._last_batch()
        if batch is None:
            return [ReportEvents(tuple(happenings))]
        batch.events += happenings
        return []

    def flush(self) -> list[Effect[Replicated]]:
        """Append the next batch, unless there is none, or one is being appended."""
        if not self.wants_flush:
            return []
        batch = self._in_flight = self._decided.popleft()
        if (transactional := batch.transactional) is not None:
            return [AppendBatch(transactional.batch, transactional.origin)]
        return [AppendBatch(build_batch(batch.records, self._facts.codec))]

    def appended(self, end: Offset) -> list[Effect[Replicated]]:
        """Handle that the batch of the last `AppendBatch` is in the log, which it now ends at this offset."""
        batch = self._in_flight
        assert batch is not None, "no append was asked for"
        self._in_flight = None
        if batch.transactional is not None:
            self._waiting_producers.remove(batch.transactional.producer_id)
        batch.end, batch.records = end, []
        self._appended = batch.after
        self._uncommitted.append(batch)
        return []

    def append_failed(self, reason: Refusal) -> list[Effect[Replicated]]:
        """Handle that the batch of the last `AppendBatch` was not appended, and never will be."""
        assert self._in_flight is not None, "no append was asked for"
        self._in_flight = None
        self._decided.clear()
        self._waiting_producers.clear()
        self.latest, self.volatile = self._appended, None
        self._unset.clear()
        for batch in self._uncommitted:
            batch.replies.clear()
            batch.events = [each for each in batch.events if each.is_written]
        self._uncommitted_bytes = sum(batch.size - HEADER_BYTES for batch in self._uncommitted)
        kept = {_CommitDeadline(batch.number) for batch in self._uncommitted}
        effects: list[Effect[Replicated]] = [self._remove_timer(key) for key in list(self._timers) if key not in kept]
        return [*effects, RefuseAll(client_refusal(reason)), self._set_timer(_Reload(), RETRY_MS)]

    def high_watermark_advanced(self, high_watermark: Offset) -> list[Effect[Replicated]]:
        """Handle that everything below this offset is committed."""
        effects: list[Effect[Replicated]] = []
        replies: list[Reply] = []
        happenings: list[Happening] = []
        while self._uncommitted and self._uncommitted[0].end <= high_watermark:
            batch = self._uncommitted.popleft()
            self.committed = batch.after
            self._uncommitted_bytes -= batch.size - HEADER_BYTES
            replies += batch.replies
            happenings += batch.events
            if (deadline := _CommitDeadline(batch.number)) in self._timers:
                effects.append(self._remove_timer(deadline))
        if replies:
            effects.append(SendReplies(tuple(replies)))
        return [*effects, ReportEvents(tuple(happenings))] if happenings else effects

    def _commit_is_overdue(self, number: int) -> list[Effect[Replicated]]:
        """Refuse the replies that wait for a batch. Its records stay, and are committed later."""
        in_flight = () if self._in_flight is None else (self._in_flight,)
        batch = next(each for each in (*self._uncommitted, *in_flight, *self._decided) if each.number == number)
        replies, batch.replies, batch.is_overdue = tuple(batch.replies), [], True
        return [SendReplies(commit_overdue(replies))] if replies else []

    # --- timers ----------------------------------------------------------------------------------------------

    def _set_timer(self, key: TimerKey, delay_ms: int, refusal: Refusal | None = None) -> SetTimer:
        self._unset.pop(key, None)
        self._numbers += 1
        self._timers[key] = self._numbers
        return SetTimer(key, self._numbers, max(delay_ms, 0), refusal)

    def _remove_timer(self, key: TimerKey) -> RemoveTimer:
        self._unset.pop(key, None)
        self._timers.pop(key, None)
        return RemoveTimer(key)


def _refused(ticket: Ticket, refusal: Refusal) -> SendReplies:
    return SendReplies((Reply(ticket, refusal),))
