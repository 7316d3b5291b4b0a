"""A small coordinator for tests: it counts, and answers those who wait for a count."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Reply, Shard, ShardDecision, Ticket, TimerKey
from kraft.model.errors import ErrorCode, Refusal


class Add(Struct, frozen=True):
    """Add to the count; the reply is the count."""

    number: int
    records: int = 1
    """How many records are written for it."""

    padding: int = 0
    """Bytes added to each record."""

    is_atomic: bool = True
    events: tuple[str, ...] = ()


class Read(Struct, frozen=True):
    """The reply is the count, and nothing is written."""

    events: tuple[str, ...] = ()


class WaitFor(Struct, frozen=True):
    """The reply comes once the count is this, or when the timer ends."""

    count: int
    timeout_ms: int = 60_000


class Fail(Struct, frozen=True):
    """The shard has a bug."""


class AddLater(Struct, frozen=True):
    """Add to the count when the timer with this name ends. A negative delay removes the timer."""

    name: str
    number: int
    delay_ms: int


class Sum(Struct, frozen=True):
    """Decide these additions one after the other, when a thread has found them; the reply is the count before."""

    additions: tuple[Add, ...]
    fails: bool = False
    """The work raises an error."""

    def commands(self) -> tuple[Add, ...]:
        if self.fails:
            raise AssertionError("the work has a bug")
        return self.additions

    def failed(self) -> Add:
        return Add(FAILED)


FAILED = 1_000_000
"""Added after work that has failed."""

Command = Add | Read | WaitFor | Fail | AddLater | Sum


class Waiters(Struct, frozen=True):
    """Who waits for which count, and what the timers add."""

    waiting: Mapping[Ticket, int] = {}
    later: Mapping[str, int] = {}


class CounterShard(Shard[int, Waiters, Command, bytes]):
    """The replicated state is the count, and a record is the number to add to it."""

    def empty(self) -> int:
        return 0

    def replay(self, replicated: int, record: bytes) -> int:
        return replicated + int(record)

    def loaded(self, replicated: int, context: DecisionContext) -> ShardDecision[Waiters, bytes]:
        return ShardDecision(volatile=Waiters())

    def decide(
        self, replicated: int, volatile: Waiters, ticket: Ticket, command: Command, context: DecisionContext
    ) -> ShardDecision[Waiters, bytes]:
        match command:
            case Add():
                return self._add(replicated, volatile, command, (ticket,))
            case Read():
                return ShardDecision(volatile=volatile, replies=(Reply(ticket, replicated),), events=command.events)
            case WaitFor():
                waiting = {**volatile.waiting, ticket: command.count}
                return ShardDecision(volatile=replace(volatile, waiting=waiting), timers={ticket: command.timeout_ms})
            case AddLater():
                later = {**volatile.later, command.name: command.number}
                delay_ms = command.delay_ms if command.delay_ms >= 0 else None
                return ShardDecision(
                    volatile=replace(volatile, later=later),
                    replies=(Reply(ticket, replicated),),
                    timers={command.name: delay_ms},
                )
            case Sum():
                return ShardDecision(volatile=volatile, replies=(Reply(ticket, replicated),), work=(command,))
            case Fail():
                raise AssertionError("the shard has a bug")

    def timer_ended(
        self, replicated: int, volatile: Waiters, key: TimerKey, context: DecisionContext
    ) -> ShardDecision[Waiters, bytes]:
        if isinstance(key, str):
            return self._add(replicated, volatile, Add(volatile.later[key]), ())
        waiting: dict[Any, int] = dict(volatile.waiting)
        del waiting[key]
        late = Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")
        return ShardDecision(volatile=replace(volatile, waiting=waiting), replies=(Reply(Ticket(key), late),))  # type: ignore[arg-type]  # The other keys are tickets.

    def _add(
        self, replicated: int, volatile: Waiters, command: Add, tickets: tuple[Ticket, ...]
    ) -> ShardDecision[Waiters, bytes]:
        count = replicated + command.number * command.records
        ready = tuple(ticket for ticket, wanted in volatile.waiting.items() if wanted <= count)
        waiting = {ticket: wanted for ticket, wanted in volatile.waiting.items() if wanted > count}
        return ShardDecision(
            volatile=replace(volatile, waiting=waiting),
            records=(b"%d%s" % (command.number, b" " * command.padding),) * command.records,
            replies=tuple(Reply(ticket, count) for ticket in (*tickets, *ready)),
            timers=dict.fromkeys(ready),
            is_atomic=command.is_atomic,
            events=command.events,
        )


_numbers = count()
"""Every record has a key of its own: none makes an earlier one superfluous. Keys have the same size, whatever tests
ran before."""


def encode(record: bytes) -> tuple[bytes, bytes | None]:
    return b"count" + next(_numbers).to_bytes(4, "big"), record


def decode(key: bytes | None, value: bytes | None) -> bytes | None:
    """Return the record; None for one to skip. Raises ValueError."""
    if key is None or not key.startswith(b"count") or value is None:
        return None
    int(value)
    return value
