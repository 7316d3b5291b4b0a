"""What a compaction has written beside the log, and what makes it ready to take its segments' places.

Nothing here changes the log: that is for `PartitionLog.install_cleaned`, which so does not have to wait for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraft.log.disk import Disk
from kraft.log.segment.facts import SegmentFacts
from kraft.log.segment.segment import Segment
from kraft.model.ids import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A file that stands beside the log, synced, and can take the place of some segments (see segment_swap.py)."""

    replaced: tuple[SegmentFacts, ...]
    """The segments whose place it takes, as they were when they were read."""

    path: str
    size_bytes: int
    """Of the cleaned file; 0 when no record is left."""

    @property
    def base_offset(self) -> Offset:
        return self.replaced[0].base_offset

    @property
    def end_offset(self) -> Offset:
        return self.replaced[-1].end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult:
    """`groups` ascend. Segments that lost nothing are in none of them."""

    groups: tuple[CleanedGroup, ...]
    end_offset: Offset
    """How far the log is clean once all groups are in: less than the plan's when the offset map was full before."""

    records_read: int
    records_kept: int
    """Of all batches up to `end_offset` but those that are never looked into: control and transactional ones."""

    batches_unreadable: int
    """Kept whole, because their records cannot be decoded though the checksum is right: a producer sent them so."""

    bytes_read: int
    """In the second pass, so of the segments from the start of the log."""

    bytes_kept: int
    """Of these. The difference is what cleaning gains."""

    map_keys: int
    map_bytes: int
    """How many keys the offset map came to hold, and how much memory for them."""

    def fits(self, segments: Sequence[SegmentFacts]) -> bool:
        """Whether the segments to be replaced are still those of the log. If not, the result is to be discarded."""
        current = {segment.base_offset: segment for segment in segments[:-1]}
        return all(current.get(old.base_offset) == old for group in self.groups for old in group.replaced)


def discard(disk: Disk, result: CleaningResult) -> None:
    """Removes the files of a result that will not be swapped in."""
    for group in result.groups:
        disk.remove(group.path)


def open_cleaned(disk: Disk, directory: str, result: CleaningResult, index_interval_bytes: int) -> list[Segment]:
    """One segment for each group of the result, its batches checked once more and indexed.

    Reads everything that compaction wrote, so it is for the thread that cleaned. Raises Corruption and OSError.
    """
    segments: list[Segment] = []
    try:
        segments.extend(
            Segment.at(disk, directory, group.base_offset, index_interval_bytes, group.path) for group in result.groups
        )
    except BaseException:
        close_cleaned(segments)
        raise
    return segments


def close_cleaned(segments: Sequence[Segment]) -> None:
    """For segments that will not be installed."""
    for segment in segments:
        segment.file.close()
