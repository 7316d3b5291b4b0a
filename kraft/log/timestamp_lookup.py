"""From a time to an offset: what a consumer asks that wants to begin at noon."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.log.record_batch import BatchHeader, decode_batch
from kraft.log.segment import Segment
from kraft.model.errors import InvalidBatch
from kraft.model.ids import Offset


def offset_for_timestamp(segments: Sequence[Segment], timestamp_ms: int, least: Offset) -> tuple[Offset, int] | None:
    """Offset and timestamp of the first record from `least` on that is of that time or later. Raises Corruption."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms or segment.next_offset <= least:
            continue
        for position, header in segment.batches_since(timestamp_ms, least):
            found = _first_record(segment, position, header, timestamp_ms, least)
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(segments: Sequence[Segment], least: Offset) -> tuple[Offset, int] | None:
    """Offset and timestamp of the first record from `least` on with the largest timestamp; None without records."""
    batches = [
        (position, header, segment)
        for segment in segments
        if segment.next_offset > least
        for position, header in segment.batches_since(segment.max_timestamp_ms, least)
    ]
    if not batches:
        return None
    # The first of equals, which is what max gives.
    position, header, segment = max(batches, key=lambda batch: batch[1].max_timestamp_ms)
    found = _first_record(segment, position, header, header.max_timestamp_ms, least)
    # A producer may claim a largest timestamp that none of its records has.
    return found or (header.last_offset, header.max_timestamp_ms)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, least: Offset
) -> tuple[Offset, int] | None:
    batch = segment.read_batch(position, header)
    try:
        records = decode_batch(batch)
    except InvalidBatch:
        # The checksum fits, so this is what a producer sent: the header is the best answer that can be given.
        return Offset(max(header.base_offset, least)), header.max_timestamp_ms
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= least:
            return Offset(record.offset), record.timestamp_ms
    return None
