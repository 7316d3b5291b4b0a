"""The cleaned files of a compaction, made ready to take their segments' places without keeping the log waiting."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.log.compaction import CleaningResult
from kraft.log.disk import Disk
from kraft.log.segment import Segment


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
