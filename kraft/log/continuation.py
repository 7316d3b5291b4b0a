"""Checks that batches fetched from a leader continue a log, and splits them by segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kraft.log.format.record_batch import BatchHeader, check_crc
from kraft.model.errors import InvalidBatch
from kraft.model.ids import Offset, TopicPartition

Batches = Sequence[tuple[BatchHeader, memoryview]]


class Continuation(NamedTuple):
    """End of the log once the batches are appended. `has_hole`: offsets are missing, as in a compacted leader's log."""

    next_offset: Offset
    has_hole: bool


def check_continuation(
    batches: Batches, log_end: Offset, latest_epoch: int, topic_partition: TopicPartition
) -> Continuation:
    """Return where the log would end. Raises InvalidBatch for a corrupt batch, or if an offset or epoch goes back."""
    next_offset, epoch, has_hole = log_end, latest_epoch, False
    for header, batch in batches:
        check_crc(header, batch)
        if header.base_offset < next_offset:
            raise InvalidBatch(f"{topic_partition}: received offset {header.base_offset}, expected {next_offset}")
        if header.leader_epoch < epoch:
            raise InvalidBatch(f"{topic_partition}: received leader epoch {header.leader_epoch} after {epoch}")
        has_hole = has_hole or header.base_offset > next_offset
        next_offset, epoch = header.next_offset, header.leader_epoch
    return Continuation(next_offset, has_hole)


def split_by_segment(
    batches: Batches, size_bytes: int, segment_bytes: int
) -> list[list[tuple[BatchHeader, memoryview]]]:
    """Split batches into runs of one segment each. The active segment already holds `size_bytes`."""
    runs: list[list[tuple[BatchHeader, memoryview]]] = []
    size = size_bytes
    for header, batch in batches:
        if not runs or size + header.size_bytes > segment_bytes:
            runs.append([])
            size = 0 if len(runs) > 1 else size
        runs[-1].append((header, batch))
        size += header.size_bytes
    return runs
