"""What is known of one segment of a log without opening it: enough to decide on retention and compaction."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.ids import Offset

NO_TIMESTAMP_MS = -1
"""Of a segment without records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """A segment of a log, as it was when it was asked for. Only the last one of a log, the active one, still grows."""

    base_offset: Offset
    """In the name of its files. The first record may have a higher one, in a log that was compacted."""

    end_offset: Offset
    """Where the next segment begins; for the active one, the log end."""

    size_bytes: int
    """Of the `.log`."""

    max_timestamp_ms: int
    """The largest of any record; NO_TIMESTAMP_MS in a segment without records."""

    first_timestamp_ms: int
    """Of the first batch, from which the age of the segment is counted; NO_TIMESTAMP_MS as above."""

    path: str
    """Of the `.log`."""
