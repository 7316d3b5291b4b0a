"""Facts about one segment of a log, enough to decide on retention and compaction without its files."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.ids import Offset

NO_TIMESTAMP_MS = -1
"""Timestamp of a segment without records."""


class SegmentFacts(Struct, frozen=True, kw_only=True):
    """Facts of one segment at one moment. Only the last segment of a log, the active one, still grows."""

    base_offset: Offset
    """Offset in the names of its files. In a compacted log the first record may have a higher one."""

    end_offset: Offset
    """Base offset of the next segment; for the active one, the log end offset."""

    size_bytes: int
    """Size of the `.log`."""

    max_timestamp_ms: int
    """Largest timestamp of any record; NO_TIMESTAMP_MS in a segment without records."""

    first_timestamp_ms: int
    """Timestamp of the first batch, from which the segment's age is counted; NO_TIMESTAMP_MS as above."""

    path: str
    """Path of the `.log`."""
