"""State of one partition that a consumer reads: where it stands, and what it has fetched ahead."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from msgspec import Struct

from kraft.client.model.values import PartitionColumns
from kraft.client.sans_io.read_epochs import UNKNOWN, ReadEpochs
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import TopicPartition


class FetchedChunk(Struct, frozen=True):
    """Record batches of one response, back to back. The first may begin before the requested offset."""

    records: bytes
    next_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()
    """Aborted transactions with records here, for readers of committed records."""


@dataclass(slots=True)
class PartitionState:
    """State of one assigned partition."""

    partition: TopicPartition
    generation: int
    position: int | None = None
    fetch_offset: int | None = None
    reset_to: int | None = None
    """The timestamp to look the position up by; None when no look-up is needed."""
    needs_committed: bool = False
    """The group's committed offset is to be looked up first; the reset policy is for a partition without one."""
    stop_at: int | None = None
    """Fetching stops at this offset, excluded."""
    epochs: ReadEpochs = field(default_factory=ReadEpochs)
    """Leader epochs of the records fetched, up to `fetch_offset`."""
    checked_epoch: int = UNKNOWN
    """The last leader epoch whose leader is known to have every record up to `fetch_offset`."""
    chunks: deque[FetchedChunk] = field(default_factory=deque)
    buffered_bytes: int = 0
    ready: deque[PartitionColumns] = field(default_factory=deque)
    """Decoded records, from `position` on."""
    end_offset: int = -1
    """The high watermark of the last response, or its last stable offset for readers of committed records."""
    is_paused: bool = False
    retry_at_ms: int = 0
    failures: int = 0
    """Failures in a row of the leader of `failed_epoch`."""
    failed_epoch: int = UNKNOWN
    error: Exception | None = None
    is_error_passing: bool = False
    """The error may end by itself: it is raised once, and then what failed is tried again."""
    was_error_raised: bool = False

    @property
    def is_read(self) -> bool:
        """True if the user has every record that was fetched."""
        return not (self.ready or self.chunks)

    @property
    def needs_position(self) -> bool:
        """True if the position has to be looked up now: records fetched before a reset are returned first."""
        return self.reset_to is not None and self.error is None and self.is_read

    @property
    def is_fetchable(self) -> bool:
        if self.fetch_offset is None or self.error is not None or self.is_paused:
            return False
        return self.stop_at is None or self.fetch_offset < self.stop_at

    def is_due(self, leader_epoch: int, now_ms: int) -> bool:
        """Return False while a failed leader is left alone; the leader of the next epoch has not failed."""
        return now_ms >= self.retry_at_ms or leader_epoch > self.failed_epoch

    def needs_check(self, leader_epoch: int) -> bool:
        """True if the leader of this epoch may lack records that were read. After a seek, none were read."""
        return self.epochs.latest != UNKNOWN and self.checked_epoch < leader_epoch
