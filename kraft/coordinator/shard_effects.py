"""What the machine of a shard asks its host to do, in the order of the effects."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from kraft.coordinator.shard import Reply, ShardWork, TimerKey
from kraft.coordinator.shard_batches import Happening
from kraft.log.append_work import COORDINATOR_RECORDS, AppendOrigin
from kraft.model.errors import Refusal

Replicated = TypeVar("Replicated")


class AppendBatch(Struct, frozen=True):
    """Append this batch. The host calls `appended` or `append_failed` next; no other append is asked for until then."""

    batch: bytes
    origin: AppendOrigin = COORDINATOR_RECORDS


class SendReplies(Struct, frozen=True):
    """Send these replies. A request that no longer waits is ignored."""

    replies: tuple[Reply, ...]


class RefuseAll(Struct, frozen=True):
    """Refuse every waiting request."""

    refusal: Refusal


class ReportEvents(Struct, frozen=True):
    """Write these events to the node's log: they are committed."""

    happenings: tuple[Happening, ...]


class SetTimer(Struct, frozen=True):
    """Call `timer_ended` with key and number after the delay. It replaces an earlier timer with the key."""

    key: TimerKey
    number: int
    delay_ms: int
    refusal: Refusal | None = None
    """Why the decision of this timer was not written; it ends again after the delay."""


class RemoveTimer(Struct, frozen=True):
    """Remove the timer with the key."""

    key: TimerKey


class SetMoreTimers(Struct, frozen=True):
    """Call `set_more_timers` in a later turn of the loop."""


class Load(Struct, Generic[Replicated], frozen=True):
    """Call the shard's `loaded` with this state, in any thread, and then `loaded` of this machine."""

    replicated: Replicated


class DoWork(Struct, frozen=True):
    """Do this work in a thread, and decide the commands that it returns."""

    work: ShardWork


Effect: TypeAlias = (
    DoWork
    | AppendBatch
    | SendReplies
    | ReportEvents
    | RefuseAll
    | SetTimer
    | RemoveTimer
    | SetMoreTimers
    | Load[Replicated]
)
