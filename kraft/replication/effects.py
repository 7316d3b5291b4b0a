"""What the machines of this package want done. The shell runs the effects of one call in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kraft.model.alter_partition import IsrMember
from kraft.model.ids import LeaderEpoch, Offset, PartitionEpoch

# --- of a leader ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Ask the controller for this ISR, and report its answer with the same `attempt`.

    Nobody waits for an earlier attempt once the next one is sent, but a copy of it may still reach a controller, at
    any later time. Only a newer partition epoch makes sure that it changes nothing.
    """

    attempt: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """Every in-sync replica has the records below `high_watermark` on disk: complete what waits for them."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """The committed ISR, or the minimum it is measured against, changed: ask `acks_result` for parked produces."""


LeaderEffect: TypeAlias = ProposeIsr | HighWatermarkAdvanced | IsrChanged

# --- of a follower -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """Append these batches as the leader wrote them and sync; then report `appended` or `append_refused`."""

    records: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Drop the local records from `offset` on; then report `truncated`."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAt:
    """Drop the whole local log and let it begin at `offset`; then report `truncated`."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedBelowHighWatermark:
    """The truncation that follows drops records that were committed: an unclean election, or a bug. Log it loudly."""

    offset: Offset
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHighWatermark:
    """The local high watermark, for the checkpoint and for a later leadership."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceLogStart:
    """The leader's log begins here, and so does this one from now on: durably, before the next fetch says so."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Ask for `next_fetch` again, after this time."""

    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForMetadata:
    """A newer leader epoch exists: this machine is done, its successor begins when the metadata arrives."""


FollowerEffect: TypeAlias = (
    AppendRecords
    | TruncateTo
    | RestartAt
    | TruncatedBelowHighWatermark
    | SetHighWatermark
    | AdvanceLogStart
    | Retry
    | WaitForMetadata
)
