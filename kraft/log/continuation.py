"""Whether batches that were copied from a leader continue a log, and which of them belong into one segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kraft.log.format.record_batch import BatchHeader, check_crc
from kraft.model.errors import InvalidBatch
from kraft.model.ids import Offset, TopicPartition

Batches = Sequence[tuple[BatchHeader, memoryview]]


class Continuation(NamedTuple):
    """Where the log ends with them. `has_hole`: offsets are left out, as a leader does whose log was compacted."""

    next_offset: Offset
    has_hole: bool


def check_continuation(
    batches: Batches, log_end: Offset, latest_epoch: int, topic_partition: TopicPartition
) -> Continuation:
    """Raises InvalidBatch unless the batches are whole, and neither offset nor leader epoch goes back."""
    next_offset, epoch, has_hole = log_end, latest_epoch, False
    for header, batch in batches:
        check_crc(header, batch)
        if header.base_offset < next_offset:
            raise InvalidBatch(f"{topic_partition}: offset {header.base_offset} came, expected {next_offset}")
        if header.leader_epoch < epoch:
            raise InvalidBatch(f"{topic_partition}: leader epoch {header.leader_epoch} came after {epoch}")
        has_hole = has_hole or header.base_offset > next_offset
        next_offset, epoch = header.next_offset, header.leader_epoch
    return Continuation(next_offset, has_hole)


def runs_that_fit(batches: Batches, size_bytes: int, segment_bytes: int) -> list[list[tuple[BatchHeader, memoryview]]]:
    """What a leader wrote over several segments is not written into one, which holds `size_bytes` already."""
    runs: list[list[tuple[BatchHeader, memoryview]]] = []
    size = size_bytes
    for header, batch in batches:
        if not runs or size + header.size_bytes > segment_bytes:
            runs.append([])
            size = 0 if len(runs) > 1 else size
        runs[-1].append((header, batch))
        size += header.size_bytes
    return runs
