"""A transaction coordinator's broker: the real shard and its real host machine, on a log in memory that can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
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
from kraft.coordinator.shard_machine import ShardFacts, ShardMachine
from kraft.coordinator.transactions.commands import TransactionCommand
from kraft.coordinator.transactions.record_codec import decode, encode
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, Transactions, replay
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.volatile import TransactionsVolatile
from kraft.log.format.record_batch import decode_batch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

Hosted: TypeAlias = ShardMachine[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord]
Batch: TypeAlias = tuple[TransactionRecord, ...]
Answer: TypeAlias = Callable[[object], None]


class Timer(NamedTuple):
    at_ms: int
    number: int


class Host:
    """A coordinator from its load to its crash."""

    def __init__(
        self, shard: TransactionShard, context: Callable[[], DecisionContext], leader_epoch: int, log: Sequence[Batch]
    ) -> None:
        self.leader_epoch = leader_epoch
        self.log = list(log)
        self.appending: bytes | None = None
        self._shard = shard
        self._context = context
        self._waiting: dict[Ticket, Answer] = {}
        self._timers: dict[TimerKey, Timer] = {}
        self._tickets = 0
        self._loading: Transactions | None = None
        surroundings = ShardFacts(
            context=context,
            batch_bytes_max=lambda: 100_000,
            append_refusal=lambda: None,
            producer_refusal=lambda *_: None,
            commit_timeout_ms=2_000,
        )
        self.hosted: Hosted = ShardMachine(shard, encode, surroundings, replayed(log))
        self._carry_out(self.hosted.start())
        self.load()

    def load(self) -> None:
        if self._loading is not None:
            replicated, self._loading = self._loading, None
            self._carry_out(self.hosted.loaded(self._shard.loaded(replicated, self._context())))

    def receive(self, command: TransactionCommand, answer: Answer) -> None:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self._waiting[ticket] = answer
        self._carry_out(self.hosted.command(ticket, command))

    # --- the log -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._carry_out(self.hosted.flush())

    def append(self) -> None:
        if self.appending is not None:
            batch, self.appending = self.appending, None
            self.log.append(records_of(batch))
            self._carry_out(self.hosted.appended(Offset(len(self.log))))

    def fail_append(self) -> None:
        if self.appending is not None:
            self.appending = None
            self._carry_out(self.hosted.append_failed(Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")))

    def commit(self, high_watermark: int) -> None:
        self._carry_out(self.hosted.high_watermark_advanced(Offset(high_watermark)))

    # --- timers ------------------------------------------------------------------------------------------------------

    def next_timer_ms(self) -> int | None:
        return min((timer.at_ms for timer in self._timers.values()), default=None)

    def end_timers(self, now_ms: int) -> None:
        """End the timers that are due."""
        while any(timer.at_ms <= now_ms for timer in self._timers.values()):
            key = min(self._timers, key=lambda each: (self._timers[each].at_ms, repr(each)))
            number = self._timers.pop(key).number
            self._carry_out(self.hosted.timer_ended(key, number))

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect[Transactions]]) -> None:
        for effect in effects:
            match effect:
                case AppendBatch():
                    self.appending = effect.batch
                case SendReplies():
                    for reply in effect.replies:
                        self._waiting.pop(reply.ticket)(reply.response)
                case RefuseAll():
                    waiting, self._waiting = self._waiting, {}
                    for answer in waiting.values():
                        answer(effect.refusal)
                case SetTimer():
                    self._timers[effect.key] = Timer(self._context().now_ms + effect.delay_ms, effect.number)
                case RemoveTimer():
                    self._timers.pop(effect.key, None)
                case SetMoreTimers():
                    self._carry_out(self.hosted.set_more_timers())
                case Load():
                    self._loading = effect.replicated
                case DoWork() | ReportEvents():
                    raise AssertionError("this shard has no work for a thread, and reports nothing")


def replayed(log: Iterable[Batch]) -> Transactions:
    return reduce(replay, (record for batch in log for record in batch), NO_TRANSACTIONS)


def compacted(log: Sequence[Batch]) -> list[Batch]:
    """Return the last record of each id."""
    last = {record.key.transactional_id: record for batch in log for record in batch}
    return [tuple(last.values())]


def records_of(batch: bytes) -> Batch:
    records = []
    for each in decode_batch(batch):
        record = decode(each.key, each.value)
        assert isinstance(record, TransactionRecord)
        records.append(record)
    return tuple(records)
