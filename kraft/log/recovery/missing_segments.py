"""Segments that a log's checkpoint names and that are gone: lost, or removed on purpose and still named.

A version that does not name segments leaves the names where they are while it merges or truncates segments, until it
writes the checkpoint. What it removed then still lies there as `.deleted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kraft.log.disk import Disk
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME, LogCheckpoint, write_checkpoint
from kraft.log.segment.paths import DELETED_SUFFIX, LOG_SUFFIX, file_name
from kraft.model.errors import Corruption
from kraft.model.ids import Offset

MISSING_SEGMENT: Final = "the segment is missing"


def check_all_exist(
    disk: Disk, directory: str, checkpoint: LogCheckpoint, base_offsets: Sequence[Offset]
) -> LogCheckpoint:
    """Raise Corruption if a segment is lost. Return the checkpoint, without the names of those removed on purpose.

    It has then been written: call this before `.deleted` files are removed, which an interrupted start cannot repeat.
    """
    first = base_offsets[0] if base_offsets else None
    reason = checkpoint.missing_front(first)
    if reason is not None:
        name = CHECKPOINT_NAME if first is None else file_name(first, LOG_SUFFIX)
        raise Corruption(f"{directory}/{name}", 0, reason)
    lost = lost_segment(disk, directory, checkpoint, base_offsets)
    if lost is not None:
        raise Corruption(f"{directory}/{file_name(lost, LOG_SUFFIX)}", 0, MISSING_SEGMENT)
    if checkpoint.missing_segments(base_offsets):
        left = set(base_offsets)
        checkpoint = replace(checkpoint, segments=tuple(each for each in checkpoint.segments if each in left))
        write_checkpoint(disk, directory, checkpoint)
    return checkpoint


def lost_segment(disk: Disk, directory: str, checkpoint: LogCheckpoint, left: Sequence[Offset]) -> Offset | None:
    """Return the first segment that must exist, is not among `left`, and was not removed on purpose."""
    for base_offset in checkpoint.missing_segments(left):
        if not disk.exists(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{DELETED_SUFFIX}"):
            return base_offset
    return None
