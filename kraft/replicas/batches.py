"""Compares what two replicas hold of a range of offsets: batch by batch, and record by record where batches differ.

Replicas hold the same batches byte for byte, as followers copy them. Compaction is each broker's own: it may have left
different records, in different batches, but what both have at an offset is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from kraft.log.format.record_batch import BatchHeader, check_crc, decode_batch_columns
from kraft.model.errors import InvalidBatch

Batch: TypeAlias = tuple[BatchHeader, memoryview]

_Content: TypeAlias = tuple[object, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """How a replica differs from the one that it is compared with, in records, and from which offset on."""

    first_offset: int | None = None
    """None if nothing differs."""

    differing: int = 0
    """At the same offset, with another timestamp, key, value or headers."""

    missing: int = 0
    additional: int = 0
    batches: int = 0
    """Batches with the same records in another header, or cut elsewhere."""

    compacted: int = 0
    """Records that only one of both still has, in a topic that is compacted. It is no difference."""

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            first_offset=other.first_offset if self.first_offset is None else self.first_offset,
            differing=self.differing + other.differing,
            missing=self.missing + other.missing,
            additional=self.additional + other.additional,
            batches=self.batches + other.batches,
            compacted=self.compacted + other.compacted,
        )


SAME = Comparison()


def compared(
    reference: Sequence[Batch], other: Sequence[Batch], start: int, end: int, *, is_compacted: bool
) -> Comparison:
    """Compare the offsets from `start` up to `end`, excluded, which both sides cover.

    Raises InvalidBatch for a batch of either side with a wrong checksum, or that cannot be decoded.
    """
    mine = [each for each in reference if each[0].base_offset < end]
    theirs = [each for each in other if each[0].base_offset < end]
    for header, batch in mine:
        _check(header, batch)
    if [bytes(batch) for _, batch in mine] == [bytes(batch) for _, batch in theirs]:
        return SAME
    for header, batch in theirs:
        _check(header, batch)
    return _compared_records(*_without_equal(mine, theirs), start, end, is_compacted)


def _check(header: BatchHeader, batch: memoryview) -> None:
    try:
        check_crc(header, batch)
    except InvalidBatch as error:
        raise InvalidBatch(f"the batch at offset {header.base_offset}: {error.message}", error.error_code) from error


def _without_equal(mine: Sequence[Batch], theirs: Sequence[Batch]) -> tuple[list[Batch], list[Batch]]:
    """Return the batches that the other side does not have, byte for byte."""
    both = {bytes(batch) for _, batch in mine} & {bytes(batch) for _, batch in theirs}
    return [each for each in mine if bytes(each[1]) not in both], [
        each for each in theirs if bytes(each[1]) not in both
    ]


def _compared_records(
    mine: Sequence[Batch], theirs: Sequence[Batch], start: int, end: int, is_compacted: bool
) -> Comparison:
    here, there = _records(mine, start, end), _records(theirs, start, end)
    differing = {offset for offset, content in here.items() if there.get(offset, content) != content}
    missing, additional = here.keys() - there.keys(), there.keys() - here.keys()
    if is_compacted:
        return Comparison(
            first_offset=min(differing, default=None),
            differing=len(differing),
            compacted=len(missing) + len(additional),
        )
    all_of_them = differing | missing | additional
    # Where the records are the same, it is the headers that differ.
    batches = 0 if all_of_them else max(len(mine), len(theirs))
    first = min((each[0].base_offset for each in (*mine, *theirs)), default=start)
    return Comparison(
        first_offset=min(all_of_them, default=max(start, first)),
        differing=len(differing),
        missing=len(missing),
        additional=len(additional),
        batches=batches,
    )


def _records(batches: Sequence[Batch], start: int, end: int) -> dict[int, _Content]:
    """Return what the records hold, by offset; control records, too."""
    found: dict[int, _Content] = {}
    for header, batch in batches:
        columns = decode_batch_columns(batch)
        for offset, content in zip(columns.offsets, zip(*columns[1:], strict=True), strict=True):
            if start <= offset < end:
                found[offset] = (header.is_control, *content)
    return found
