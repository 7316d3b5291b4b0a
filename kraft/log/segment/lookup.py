"""Look-ups over the segments of a log, in order of their offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence

from msgspec import Struct

from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.segment.aborted_index import AbortedEntries, AbortedSteps, aborted_steps
from kraft.log.segment.segment import Segment
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.model.ids import Offset


def segment_number(segments: Sequence[Segment], offset: Offset) -> int:
    """Return the number of the segment that holds `offset`, counted from 0."""
    if segments[-1].base_offset <= offset:
        # The common case of reads.
        return len(segments) - 1
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def end_of(segments: Sequence[Segment], number: int, log_end: Offset) -> Offset:
    """Return the base offset of the next segment, or the log end."""
    return log_end if number + 1 == len(segments) else segments[number + 1].base_offset


def facts(segments: Sequence[Segment], log_end: Offset) -> tuple[SegmentFacts, ...]:
    """Return the facts of each segment, in order."""
    return tuple(segment.facts(end_of(segments, number, log_end)) for number, segment in enumerate(segments))


def read(
    segments: Sequence[Segment],
    start: Offset,
    bytes_max: int,
    upper: Offset,
    epochs: LeaderEpochCache,
    is_sparse: bool,
    log_end: Offset,
) -> bytes:
    """Return whole batches, as `PartitionLog.read` does. Raises Corruption, and OSError from the disk."""
    for number in range(segment_number(segments, start), len(segments)):
        if start >= upper:
            break
        records = segments[number].read(start, bytes_max, upper, epochs, is_sparse)
        if records:
            return records
        # Compaction may have removed the last records of a segment.
        start = max(start, end_of(segments, number, log_end))
    return b""


def aborted_entries(segments: Sequence[Segment], start: Offset, copied: bool) -> Iterator[AbortedEntries]:
    """Yield the entries of the segments from `start` on that have aborted transactions."""
    for segment in segments[segment_number(segments, start) :]:
        if len(segment.aborted):
            yield segment.aborted.entries(segment.next_offset, copied)


class AbortedLookUp(Struct, frozen=True, kw_only=True):
    """A look-up of aborted transactions. Valid if the log `still_has` the segments after the last step."""

    segments: Sequence[Segment]
    steps: AbortedSteps
    """Runs in any thread."""


def aborted(segments: Sequence[Segment], start: Offset, upper: Offset, producers: Container[int]) -> AbortedLookUp:
    """Return the look-up of these producers' aborted transactions that overlap [start, upper)."""
    held = segments[segment_number(segments, start) :]
    entries = aborted_entries(held, start, copied=False)
    return AbortedLookUp(segments=held, steps=aborted_steps(entries, start, upper, producers))
