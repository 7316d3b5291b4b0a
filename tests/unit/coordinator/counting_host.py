"""A host of a shard that counts, on a log in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.coordinator.shard_effects import (
    AppendBatch,
    Load,
    RefuseAll,
    RemoveTimer,
    ReportEvents,
    SendReplies,
    SetTimer,
)
from kraft.coordinator.shard_machine import RETRY_MS, ShardFacts, ShardMachine
from kraft.log.format.record_batch import decode_batch
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import Refusal
from kraft.model.ids import Offset
from tests.support.counter_shard import Command, CounterShard, encode


@dataclass
class Host:
    """Carries out effects on a log in memory, with timers that end on request."""

    batch_bytes_max: int = 1_000
    refusal: Refusal | None = None
    """Why the log refuses appends, as far as it is known before."""
    log: list[int] = field(default_factory=list)
    batches: int = 0
    answers: dict[int, Any] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    timers: dict[TimerKey, SetTimer] = field(default_factory=dict)
    now_ms: int = 1_000
    loads: int = 0
    fails: Refusal | None = None
    """Why the next append fails."""
    holds: bool = False
    """Appends stay under way until `append`."""
    held: AppendBatch | None = None
    tickets: int = 0
    reported: list[tuple[object, int]] = field(default_factory=list)
    """Events, and when they were decided."""

    def __post_init__(self) -> None:
        self.shard: ShardMachine[int, Any, Command, bytes] = ShardMachine(
            CounterShard(),
            encode,
            ShardFacts(
                context=lambda: DecisionContext(now_ms=self.now_ms, image=EMPTY_IMAGE, random_id="id"),
                batch_bytes_max=lambda: self.batch_bytes_max,
                append_refusal=lambda: self.refusal,
                producer_refusal=lambda *_: None,
            ),
            0,
        )
        self.run(self.shard.start())

    def run(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case AppendBatch():
                    assert self.held is None, "one append at a time"
                    self.held = effect
                    if not self.holds:
                        self.append()
                case SendReplies():
                    for reply in effect.replies:
                        self.answer(reply.ticket, reply.response)
                case ReportEvents():
                    self.reported += [(each.event, each.at_ms) for each in effect.happenings]
                case RefuseAll():
                    for ticket in sorted(self.waiting):
                        self.answer(ticket, effect.refusal)
                case SetTimer():
                    self.timers[effect.key] = effect
                case RemoveTimer():
                    self.timers.pop(effect.key, None)
                case Load():
                    self.loads += 1
                    context = DecisionContext(now_ms=self.now_ms, image=EMPTY_IMAGE, random_id="id")
                    self.run(self.shard.loaded(CounterShard().loaded(effect.replicated, context)))
                case _:
                    raise AssertionError(effect)

    def answer(self, ticket: int, response: object) -> None:
        if ticket in self.waiting:
            self.waiting.discard(ticket)
            self.answers[ticket] = response.error_code if isinstance(response, Refusal) else response

    def append(self) -> None:
        """End the append that is under way."""
        append, self.held = self.held, None
        assert append is not None
        if self.fails is not None:
            reason, self.fails = self.fails, None
            self.run(self.shard.append_failed(reason))
            return
        self.batches += 1
        assert len(append.batch) <= self.batch_bytes_max
        self.log += [int(record.value or b"") for record in decode_batch(append.batch)]
        self.run(self.shard.appended(Offset(len(self.log))))

    def send(self, command: Command) -> int:
        self.tickets += 1
        self.waiting.add(self.tickets)
        self.run(self.shard.command(Ticket(self.tickets), command))
        return self.tickets

    def flush(self) -> None:
        while self.shard.wants_flush and self.held is None:
            self.run(self.shard.flush())

    def commit(self, end: int | None = None) -> None:
        self.run(self.shard.high_watermark_advanced(Offset(len(self.log) if end is None else end)))

    def do(self, command: Command) -> Any:
        """Send a command, and return its answer after everything is committed."""
        ticket = self.send(command)
        self.flush()
        self.commit()
        return self.answers.get(ticket)

    def end_timer(self, key: TimerKey) -> None:
        timer = self.timers.pop(key)
        self.run(self.shard.timer_ended(timer.key, timer.number))

    def reload(self) -> None:
        """End the pause after a failed append."""
        loads = self.loads
        for key in [key for key in self.own_timers() if self.timers[key].delay_ms == RETRY_MS]:
            self.end_timer(key)
        assert self.loads == loads + 1

    def own_timers(self) -> list[TimerKey]:
        """The timers of the host itself."""
        return [key for key in self.timers if not isinstance(key, (str, int))]
