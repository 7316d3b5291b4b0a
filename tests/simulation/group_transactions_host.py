"""A coordinator's broker with transactions: the real shard, its real host machine and load, and the log's own checks of
producers, on a log in memory that can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.groups.commands import GroupCommand
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.coordinator.shard_effects import (
    AppendBatch,
    Load,
    RefuseAll,
    RemoveTimer,
    ReportEvents,
    SendReplies,
    SetMoreTimers,
    SetTimer,
)
from kraft.coordinator.shard_machine import ShardFacts, ShardMachine
from kraft.log.append_work import AppendOrigin
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import assign_offsets, decode_batch, read_header
from kraft.log.recovery.producer_state import ProducerStates
from kraft.log.transactions.verification import VerificationGuard
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from kraft.server.coordinator.group_kind import group_kind
from kraft.server.coordinator.shard_load import Newest, Replayed, replay

Hosted: TypeAlias = ShardMachine[Groups, GroupsVolatile, GroupCommand, GroupRecord]
Answer: TypeAlias = Callable[[object], None]
Log: TypeAlias = "list[bytes]"
"""Batches with their offsets."""

LOADING: Final = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")

RETENTION_MS: Final = 3_000
SETTINGS: Final = GroupShardSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=500)


class Entry(NamedTuple):
    """What one batch says: records of a producer's transaction or of none, or a marker."""

    producer_id: int
    records: tuple[tuple[int, GroupRecord], ...]
    """With their offsets."""

    is_commit: bool | None = None
    """None for anything but a marker."""


def entry(batch: bytes) -> Entry:
    header = read_header(batch)
    if (marker := marker_in(header, batch)) is not None:
        return Entry(header.producer_id, (), marker.type is MarkerType.COMMIT)
    records = []
    for each in decode_batch(batch):
        record = decode(each.key, each.value)
        assert isinstance(record, GroupRecord)
        records.append((each.offset, record))
    return Entry(header.producer_id, tuple(records))


def loaded(shard: GroupShard, log: Iterable[bytes]) -> Groups:
    """Return the state that a broker loads from the log."""
    newest = Newest()
    newest.add([(read_header(batch), memoryview(batch)) for batch in log])
    kind = replace(group_kind(SETTINGS), shard=shard)
    found = replay(kind, newest.in_order(), Replayed(shard.empty()))
    assert not found.skipped, found.reason
    return found.replicated


class Timer(Struct, frozen=True):
    at_ms: int
    number: int


class Host:
    """A broker from the moment at which it leads the partition until another leads."""

    def __init__(self, shard: GroupShard, context: Callable[[], DecisionContext], log: Sequence[bytes]) -> None:
        self.log: Log = list(log)
        self.load_end = len(self.log)
        self.producers = ProducerStates()
        for batch in self.log:
            header = read_header(batch)
            self.producers.update(header, marker_in(header, batch))
        self.hosted: Hosted | None = None
        self.appending: AppendBatch | None = None
        self.failed_by_producers = 0
        """Appends that the log refused because of the producer, although they were checked before."""
        self._shard = shard
        self._context = context
        self._loading: Groups | None = None
        self._waiting: dict[Ticket, Answer] = {}
        self._timers: dict[TimerKey, Timer] = {}
        self._tickets = 0

    @property
    def end(self) -> Offset:
        return read_header(self.log[-1]).next_offset if self.log else Offset(0)

    # --- life --------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        self.hosted = ShardMachine(
            self._shard,
            encode,
            ShardFacts(
                context=self._context,
                batch_bytes_max=lambda: 100_000,
                append_refusal=lambda: None,
                producer_refusal=self._producer_refusal,
                commit_timeout_ms=2_000,
            ),
            loaded(self._shard, self.log),
        )
        self._carry_out(self.hosted.start())

    def finish_load(self) -> None:
        if self.hosted is not None and self._loading is not None:
            groups, self._loading = self._loading, None
            self._carry_out(self.hosted.loaded(self._shard.loaded(groups, self._context())))

    def _producer_refusal(self, batch: bytes, origin: AppendOrigin) -> Refusal | None:
        header = read_header(batch)
        try:
            self.producers.check(header, marker_in(header, batch), origin)
        except Refusal as refusal:
            return refusal
        return None

    # --- requests ----------------------------------------------------------------------------------------------------

    def begin_verification(self, producer_id: int, epoch: int) -> VerificationGuard | None:
        if self.producers.has_open_transaction(producer_id, epoch):
            return None
        return self.producers.verifications.begin(producer_id, epoch, -1, begins_at_zero=False)

    def decide(self, command: GroupCommand, answer: Answer) -> None:
        if self.hosted is None:
            answer(LOADING)
            return
        self._carry_out(self.hosted.command(self._ticket(answer), command))

    def end_transaction(self, marker: bytes, transaction_version: int, answer: Answer) -> None:
        if self.hosted is None:
            answer(LOADING)
            return
        origin = AppendOrigin(is_coordinator=True, transaction_version=transaction_version)
        self._carry_out(self.hosted.end_transaction(self._ticket(answer), marker, origin))

    def _ticket(self, answer: Answer) -> Ticket:
        self._tickets += 1
        self._waiting[Ticket(self._tickets)] = answer
        return Ticket(self._tickets)

    def next_timer_ms(self) -> int | None:
        return min((timer.at_ms for timer in self._timers.values()), default=None)

    def end_timer(self) -> TimerKey:
        """End the timer that is due first, and return its key."""
        key = min(self._timers, key=lambda each: (self._timers[each].at_ms, repr(each)))
        number = self._timers.pop(key).number
        assert self.hosted is not None
        self._carry_out(self.hosted.timer_ended(key, number))
        return key

    # --- the log -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if self.hosted is not None and self.appending is None:
            self._carry_out(self.hosted.flush())

    def append(self) -> None:
        """Append what is under way, with the checks of the log."""
        if self.hosted is None or self.appending is None:
            return
        append, self.appending = self.appending, None
        batch = bytearray(append.batch)
        assign_offsets(batch, 0, self.end, LeaderEpoch(0))
        header = read_header(batch)
        marker = marker_in(header, batch)
        try:
            self.producers.check(header, marker, append.origin)
        except Refusal as refusal:
            self.failed_by_producers += 1
            self._carry_out(self.hosted.append_failed(refusal))
            return
        self.producers.update(header, marker)
        self.log.append(bytes(batch))
        self._carry_out(self.hosted.appended(Offset(len(self.log))))

    def fail_append(self, refusal: Refusal) -> None:
        if self.hosted is not None and self.appending is not None:
            self.appending = None
            self._carry_out(self.hosted.append_failed(refusal))

    def advance_high_watermark(self, batches: int) -> None:
        if self.hosted is not None:
            self._carry_out(self.hosted.high_watermark_advanced(Offset(batches)))

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[object]) -> None:
        # A broker writes reports to its log, which is not simulated here.
        for effect in (each for each in effects if not isinstance(each, ReportEvents)):
            match effect:
                case AppendBatch():
                    assert self.appending is None, "two appends at once"
                    self.appending = effect
                case SetTimer():
                    self._timers[effect.key] = Timer(self._context().now_ms + effect.delay_ms, effect.number)
                case RemoveTimer():
                    self._timers.pop(effect.key, None)
                case SetMoreTimers():
                    raise AssertionError("a simulated load has few timers")
                case SendReplies():
                    for reply in effect.replies:
                        if (answer := self._waiting.pop(reply.ticket, None)) is not None:
                            answer(reply.response)
                case RefuseAll():
                    waiting, self._waiting = self._waiting, {}
                    for answer in waiting.values():
                        answer(effect.refusal)
                case Load():
                    self._loading = effect.replicated
                case _:
                    raise AssertionError(f"{effect}: there is nothing to compute for so few members")
