"""Effects that the machines of this package return. The shell runs the effects of one call in their order."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kraft.log.format.record_batch import Buffer
from kraft.model.alter_partition import IsrMember
from kraft.model.ids import LeaderEpoch, Offset, PartitionEpoch

# --- of a leader ---------------------------------------------------------------------------------------------


class ProposeIsr(Struct, frozen=True, kw_only=True):
    """Send this ISR to the controller, and report its response with the same `attempt`.

    The response to an earlier attempt is ignored once the next one is sent, but a copy of the earlier request may still
    reach a controller later. Only a newer partition epoch guarantees that it changes nothing.
    """

    attempt: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


class HighWatermarkAdvanced(Struct, frozen=True, kw_only=True):
    """Every in-sync replica has the records below `high_watermark` on disk: complete the requests that wait for it."""

    high_watermark: Offset


class IsrChanged(Struct, frozen=True, kw_only=True):
    """The committed ISR or its required minimum changed: ask `acks_result` for parked produces."""


LeaderEffect: TypeAlias = ProposeIsr | HighWatermarkAdvanced | IsrChanged

# --- of a follower -------------------------------------------------------------------------------------------


class AppendRecords(Struct, frozen=True, kw_only=True):
    """Append these batches as the leader wrote them and sync; then report `appended` or `append_refused`."""

    records: Buffer


class TruncateTo(Struct, frozen=True, kw_only=True):
    """Drop the local records from `offset` on; then report `truncated`."""

    offset: Offset


class RestartAt(Struct, frozen=True, kw_only=True):
    """Drop the whole local log and restart it at `offset`; then report `truncated`."""

    offset: Offset


class TruncatedBelowHighWatermark(Struct, frozen=True, kw_only=True):
    """The truncation that follows drops committed records, after an unclean election or by a bug: log an error."""

    offset: Offset
    high_watermark: Offset


class SetHighWatermark(Struct, frozen=True, kw_only=True):
    """The follower's high watermark changed: checkpoint it, and begin with it if this replica becomes the leader."""

    high_watermark: Offset


class AdvanceLogStart(Struct, frozen=True, kw_only=True):
    """Advance the local log start to the leader's, durably, before the next fetch reports it."""

    offset: Offset


class Retry(Struct, frozen=True, kw_only=True):
    """Call `next_fetch` again after this time."""

    after_ms: int


class WaitForMetadata(Struct, frozen=True, kw_only=True):
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
