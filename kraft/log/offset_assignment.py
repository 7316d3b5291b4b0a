"""Placement of a leader's batches: offsets, leader epoch and append time, as the log stores them."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.log.format.record_batch import BatchHeader, Buffer, with_assigned_offsets
from kraft.model.ids import LeaderEpoch, Offset


def assign_offsets(
    batches: Sequence[tuple[BatchHeader, memoryview]],
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    append_time_ms: int | None,
) -> tuple[list[Buffer], list[BatchHeader]]:
    """Return the bytes, in pieces, and the headers of the batches from `base_offset` on."""
    next_offset = base_offset
    pieces: list[Buffer] = []
    headers: list[BatchHeader] = []
    for header, batch in batches:
        pieces += with_assigned_offsets(batch, next_offset, leader_epoch, append_time_ms)
        stored = header.with_assigned_offsets(next_offset, leader_epoch, append_time_ms)
        headers.append(stored)
        next_offset = Offset(next_offset + header.last_offset_delta + 1)
    return pieces, headers
