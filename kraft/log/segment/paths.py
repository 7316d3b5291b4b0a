"""File names and paths of a segment."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"

INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)
"""Suffixes of the files that are rebuilt from the log if they are missing."""


def file_name(base_offset: int, suffix: str) -> str:
    """Return the file name, with twenty digits so that names sort like offsets."""
    return f"{base_offset:020d}{suffix}"


class SegmentPaths(Struct, frozen=True, kw_only=True):
    """Paths of a segment's files."""

    log: str
    index: str
    time_index: str
    aborted_index: str


def segment_paths(directory: str, base_offset: int) -> SegmentPaths:
    stem = f"{directory}/{file_name(base_offset, '')}"
    return SegmentPaths(
        log=stem + LOG_SUFFIX,
        index=stem + INDEX_SUFFIX,
        time_index=stem + TIME_INDEX_SUFFIX,
        aborted_index=stem + ABORTED_INDEX_SUFFIX,
    )
