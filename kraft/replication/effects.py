"""Effects that the machines of this package return. The shell runs the effects of one call in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kraft.model.alter_partition import IsrMember
from kraft.model.ids import LeaderEpoch, Offset, PartitionEpoch

# --- of a leader ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send this ISR to the controller, and report its response with the same `attempt`.

    The response to an earlier attempt is ignored once the next one is sent, but a copy of the earlier request may still
    reach a controller later. Only a newer partition epoch guarantees that it changes nothing.
    """

    attempt: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """Every in-sync replica has the records below `high_watermark` on disk: complete the requests that wait for it."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """The committed ISR or its required minimum changed: ask `acks_result` for parked produces."""


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
    """Drop the whole local log and restart it at `offset`; then report `truncated`."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedBelowHighWatermark:
    """The truncation that follows drops committed records, after an unclean election or by a bug: log an error."""

    offset: Offset
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHighWatermark:
    """The follower's high watermark changed: checkpoint it, and begin with it if this replica becomes the leader."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceLogStart:
    """Advance the local log start to the leader's, durably, before the next fetch reports it."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Call `next_fetch` again after this time."""

    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForMetadata:
    """A newer leader epoch exists: this machine is done, and another is made when the metadata arrives."""


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
