"""Cleaned files that a compaction has written beside the log, and how they are opened as segments.

Nothing here changes the log. `PartitionLog.install_cleaned` does, and this preparation keeps it short.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kraft.log.disk import Disk
from kraft.log.segment.segment import Segment
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.ids import Offset


class CleanedGroup(Struct, frozen=True, kw_only=True):
    """A cleaned file beside the log, synced, that can replace one or more segments (see segment_swap.py)."""

    replaced: tuple[SegmentFacts, ...]
    """The segments that it replaces, as they were when they were read."""

    path: str
    size_bytes: int
    """Size of the cleaned file; 0 if no record is left."""

    aborted: tuple[AbortedTxn, ...] = ()
    """Aborted transactions of which batches were left and whose markers are in the file."""

    @property
    def base_offset(self) -> Offset:
        return self.replaced[0].base_offset

    @property
    def end_offset(self) -> Offset:
        return self.replaced[-1].end_offset


class CleaningResult(Struct, frozen=True, kw_only=True):
    """Result of one cleaning. `groups` ascend; segments that lost nothing are in none of them."""

    groups: tuple[CleanedGroup, ...]
    end_offset: Offset
    """End of the clean part once all groups are installed; below the plan's end if the offset map was full before."""

    records_read: int
    records_kept: int
    """Records read and kept in the batches below `end_offset`, without control records."""

    batches_unreadable: int
    """Batches kept whole because their records, although the checksum is right, cannot be decoded."""

    bytes_read: int
    """Bytes read in the second pass, which begins at the first segment of the log."""

    bytes_kept: int
    """Bytes of these that are kept; cleaning frees the rest."""

    map_keys: int
    map_bytes: int
    """Keys in the offset map at its end, and the memory that it uses."""

    def fits(self, segments: Sequence[SegmentFacts]) -> bool:
        """Return whether the replaced segments are still those of the log. If not, discard the result."""
        current = {segment.base_offset: segment for segment in segments[:-1]}
        return all(current.get(old.base_offset) == old for group in self.groups for old in group.replaced)


def discard(disk: Disk, result: CleaningResult) -> None:
    """Remove the files of a result that will not be installed."""
    for group in result.groups:
        disk.remove(group.path)


def open_cleaned(disk: Disk, directory: str, result: CleaningResult, index_interval_bytes: int) -> list[Segment]:
    """Open a segment for each group of the result; its batches are checked again and indexed.

    Reads everything that compaction wrote, so it runs in the cleaner's thread. Raises Corruption and OSError.
    """
    segments: list[Segment] = []
    try:
        for group in result.groups:
            segment = Segment.at(disk, directory, group.base_offset, index_interval_bytes, group.path)
            segments.append(segment)
            if group.aborted:
                segment.aborted.replace(group.aborted)
    except BaseException:
        close_cleaned(segments)
        raise
    return segments


def close_cleaned(segments: Sequence[Segment]) -> None:
    """Close segments that will not be installed."""
    for segment in segments:
        segment.file.close()
