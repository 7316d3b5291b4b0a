"""A coordinator's broker: the real shard and its real host machine, on a log in memory that can fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from kraft.coordinator.group_events import MemberJoined
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.group_records import ConsumerGroupMemberMetadataKey
from kraft.coordinator.groups.commands import GroupCommand
from kraft.coordinator.groups.queries import check_fetch
from kraft.coordinator.groups.replicated import NO_GROUPS, Groups, replay
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.offsets.fetch import fetch
from kraft.coordinator.shard import DecisionContext, ShardWork, Ticket, TimerKey
from kraft.coordinator.shard_batches import Happening
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
from kraft.log.format.record_batch import decode_batch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from tests.simulation.groups_history import Cause, FetchOffsets, History
from tests.support.offset_commands import asking

BATCH_BYTES_MAX = 100_000

Hosted: TypeAlias = ShardMachine[Groups, GroupsVolatile, GroupCommand, GroupRecord]


class Waiting(Protocol):
    """A request that waits for its response."""

    @property
    def command(self) -> GroupCommand | FetchOffsets: ...


class Batch(NamedTuple):
    leader_epoch: int
    records: tuple[GroupRecord, ...]


class Timer(NamedTuple):
    at_ms: int
    number: int


class Asked(Struct, frozen=True, kw_only=True, eq=False):
    """A command that work has brought."""

    command: GroupCommand


class WorkUnderWay(Struct, kw_only=True, eq=False):
    work: ShardWork
    commands: deque[GroupCommand] | None = None
    """None until they are computed."""

    asked: Asked | None = None
    """The command that waits for its response."""


class HostWorld(Struct, frozen=True, kw_only=True):
    """What all coordinators share."""

    shard: GroupShard
    context: Callable[[], DecisionContext]
    history: History
    reply: Callable[[Waiting, object], None]
    turn_ms: Callable[[], int] = lambda: 0
    """Time from a timer that has ended to the next one, while several are due: other events come in between."""


class Host:
    """A broker from the moment at which it leads the partition until it stops, or has learned that it does not lead."""

    def __init__(self, world: HostWorld, leader_epoch: int, log: Sequence[Batch]) -> None:
        self.leader_epoch = leader_epoch
        self.log = list(log)
        self.load_end = self.high_watermark = len(self.log)
        self.is_leader = True
        """False once another leads; this one does not know it yet."""
        self.is_gone = False
        self.refusal: Refusal | None = None
        """Why the log refuses appends, as far as the host knows."""
        self.frozen_until_ms = 0
        self.shard: Hosted | None = None
        self.appending: bytes | None = None
        self.loading: Groups | None = None
        self._world = world
        self.work: list[WorkUnderWay] = []
        """Work beside the shard, the oldest first."""
        self._waiting: dict[Ticket, Waiting] = {}
        self._timers: dict[TimerKey, Timer] = {}
        self._next_turn_ms = 0
        self.has_more_timers = False
        """Timers of the load are still to be set."""
        self._tickets = 0

    # --- its life ----------------------------------------------------------------------------------------------------

    def load(self, replicated: Groups) -> None:
        """Start the shard on the replay of the log, all of which is committed."""
        surroundings = ShardFacts(
            context=self._world.context,
            batch_bytes_max=lambda: BATCH_BYTES_MAX,
            append_refusal=lambda: self.refusal,
            producer_refusal=lambda *_: None,
            commit_timeout_ms=2_000,
        )
        self.shard = ShardMachine(self._world.shard, encode, surroundings, replicated)
        self._carry_out(self.shard.start())

    def finish_load(self) -> None:
        shard, replicated = self.shard, self.loading
        if shard is not None and replicated is not None:
            self.loading = None
            decision = self._world.shard.loaded(replicated, self._world.context())
            self._decide("loaded", lambda: shard.loaded(decision))

    def stop(self, refusal: Refusal | None = None) -> None:
        """Crash, or with a refusal: resign, and refuse what waits."""
        self.is_gone = True
        self._timers.clear()
        self.work.clear()
        if refusal is not None:
            self._refuse_all(refusal)
        self._waiting.clear()

    # --- requests and timers -----------------------------------------------------------------------------------------

    def receive(self, request: Waiting) -> None:
        shard, command = self.shard, request.command
        if shard is None:
            self._reply(request, Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading"))
        elif isinstance(command, FetchOffsets):
            self._reply(request, _fetched(shard.committed, command))
        else:
            self._tickets += 1
            ticket = Ticket(self._tickets)
            self._waiting[ticket] = request
            self._decide(request, lambda: shard.command(ticket, command))

    def next_timer_ms(self) -> int | None:
        at_ms = min((timer.at_ms for timer in self._timers.values()), default=None)
        return None if at_ms is None else max(at_ms, self._next_turn_ms)

    def set_more_timers(self) -> None:
        if self.has_more_timers and self.shard is not None:
            self.has_more_timers = False
            self._carry_out(self.shard.set_more_timers())

    def end_timer(self) -> None:
        """End the timer that is due first."""
        key = min(self._timers, key=lambda each: (self._timers[each].at_ms, repr(each)))
        number, shard = self._timers.pop(key).number, self.shard
        assert shard is not None
        self._decide(key, lambda: shard.timer_ended(key, number))
        self._next_turn_ms = self._world.context().now_ms + self._world.turn_ms()

    def _decide(self, cause: Cause, act: Callable[[], list[Effect[Groups]]]) -> None:
        shard = self.shard
        assert shard is not None
        before, volatile = shard.latest, shard.volatile
        effects = act()
        if self.is_leader and volatile is not None and shard.volatile is not None:
            self._world.history.decided(before, volatile, shard.latest, shard.volatile, cause)
        self._carry_out(effects)

    # --- work beside the shard ---------------------------------------------------------------------------------------

    def go_on_with_work(self) -> None:
        """Finish the computation of the oldest work, or decide the next command that it brings."""
        if not self.work:
            return
        under_way = self.work[0]
        if under_way.commands is None:
            under_way.commands = deque(under_way.work.commands())
        elif under_way.asked is None:
            under_way.asked = Asked(command=under_way.commands[0])
            self.receive(under_way.asked)

    def _work_answered(self, response: object) -> None:
        under_way = self.work[0]
        under_way.asked = None
        assert under_way.commands is not None
        if not isinstance(response, Refusal):
            under_way.commands.popleft()
            if response is not True or not under_way.commands:
                self.work.remove(under_way)
        else:
            assert response.error_code.retriable, response

    def _reply(self, request: Waiting, response: object) -> None:
        if not isinstance(request, Asked):
            self._world.reply(request, response)
        elif not self.is_gone:
            self._work_answered(response)

    # --- the log -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if self.shard is not None:
            self._carry_out(self.shard.flush())

    def append(self) -> None:
        if self.shard is not None and self.appending is not None:
            batch, self.appending = self.appending, None
            self.log.append(Batch(self.leader_epoch, tuple(_records(batch))))
            self._carry_out(self.shard.appended(Offset(len(self.log))))

    def fail_append(self, refusal: Refusal) -> None:
        if self.shard is not None and self.appending is not None:
            self.appending = None
            self._carry_out(self.shard.append_failed(refusal))

    def advance_high_watermark(self, high_watermark: int) -> None:
        if self.shard is not None:
            self.high_watermark = high_watermark
            self._carry_out(self.shard.high_watermark_advanced(Offset(high_watermark)))

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect[Groups]]) -> None:
        for effect in effects:
            match effect:
                case AppendBatch():
                    assert self.appending is None, "two appends at once"
                    self.appending = effect.batch
                case SendReplies():
                    for reply in effect.replies:
                        request = self._waiting.pop(reply.ticket, None)
                        if request is not None:
                            self._reply(request, reply.response)
                case ReportEvents():
                    self._check_reported(effect.happenings)
                case RefuseAll():
                    self._refuse_all(effect.refusal)
                case SetTimer() | RemoveTimer() | SetMoreTimers():
                    self._change_timers(effect)
                case Load():
                    self.loading = effect.replicated
                case DoWork():
                    self.work.append(WorkUnderWay(work=effect.work))

    def _change_timers(self, effect: SetTimer | RemoveTimer | SetMoreTimers) -> None:
        match effect:
            case SetTimer():
                at_ms = self._world.context().now_ms + effect.delay_ms
                self._timers[effect.key] = Timer(at_ms, effect.number)
            case RemoveTimer():
                self._timers.pop(effect.key, None)
            case SetMoreTimers():
                self.has_more_timers = True

    def _check_reported(self, happenings: Iterable[Happening]) -> None:
        """Check that the records are committed of members that are reported to have joined, if there are any."""
        assert self.shard is not None
        joined = {
            (each.event.group_id, each.event.member_id)
            for each in happenings
            if isinstance(each.event, MemberJoined) and each.event.group_id in self.shard.committed.consumer
        }
        if joined:
            committed = (record.key for batch in self.log[: self.high_watermark] for record in batch.records)
            keys = (key for key in committed if isinstance(key, ConsumerGroupMemberMetadataKey))
            unknown = joined - {(key.group_id, key.member_id) for key in keys}
            assert not unknown, f"{unknown} are reported to have joined, and are not committed"

    def _refuse_all(self, refusal: Refusal) -> None:
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            self._reply(request, refusal)


def replayed(log: Iterable[Batch], into: Groups = NO_GROUPS) -> Groups:
    return reduce(replay, (record for batch in log for record in batch.records), into)


def compacted(log: Sequence[Batch]) -> list[Batch]:
    """Return the last record of each key, without those that delete."""
    last = {repr(record.key): record for batch in log for record in batch.records}
    return [
        Batch(
            batch.leader_epoch,
            tuple(record for record in batch.records if record.value is not None and last[repr(record.key)] is record),
        )
        for batch in log
    ]


def _records(batch: bytes) -> list[GroupRecord]:
    records = []
    for each in decode_batch(batch):
        record = decode(each.key, each.value)
        assert isinstance(record, GroupRecord)
        records.append(record)
    return records


def _fetched(groups: Groups, command: FetchOffsets) -> object:
    topics = [asking(name, *numbers) for name, numbers in command.partitions.items()]
    try:
        check_fetch(groups, command.group_id, command.member_id, command.member_epoch)
    except Refusal as refusal:
        return refusal
    return fetch(groups.offsets, command.group_id, topics)
