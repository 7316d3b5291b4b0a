"""One record, whole as far as people read it, with what became of its transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import ErrorCode, Refusal
from kraft.console.records.browsing import PAGE_S, TURN_S, bounds_of, held, reading, write_down
from kraft.console.records.raw import Item, RawRecord
from kraft.console.records.reading import Limits, Range, Reader
from kraft.console.records.rows import WHOLE_CHARACTERS, Row, Sight, unreadable
from kraft.console.records.wanted import Wanted

if TYPE_CHECKING:
    from kraft.client import Consumer
    from kraft.console.asking import Asked

ONE_BYTES_MAX = 1
"""Fetched bytes after which nothing more is: the batch of the record, however large, is enough."""


class One(Struct, frozen=True, kw_only=True):
    record: Row
    start: int
    """First offset of the partition."""

    end: int
    """Its next one."""


def one(asked: Asked, topic: str, partition: int, offset: int, wanted: Wanted, sight: Sight) -> One:
    """Return the record at the offset. Raises KraftError, also if there is none."""
    deadline_s = time.monotonic() + PAGE_S
    stored = replace(wanted, committed=False)
    with asked.state.readers.turn(TURN_S):
        with reading(asked, stored) as consumer:
            bounds = bounds_of(asked, consumer, topic, [partition], stored)
            start, end = bounds.starts[partition], bounds.ends[partition]
            if not start <= offset < end:
                raise _missing(f"there is no record at offset {offset:,}: {held(partition, start, end)}")
            item = item_at(_reader(consumer, topic, deadline_s), partition, offset)
        if item is None:
            raise _missing(
                f"there is no record at offset {offset:,} of partition {partition}: compaction has removed it"
            )
        row = sight.of(item).row(WHOLE_CHARACTERS) if isinstance(item, RawRecord) else unreadable(item)
        if isinstance(item, RawRecord) and item.is_transactional and not item.marker:
            row = replace(row, tags=[*row.tags, _outcome(asked, topic, item, deadline_s)])
    write_down(asked, topic, sight, "record", [row], {})
    return One(record=row, start=start, end=end)


def _reader(consumer: Consumer, topic: str, deadline_s: float) -> Reader[Item]:
    limits = Limits(bytes_max=ONE_BYTES_MAX, deadline_s=deadline_s)
    return Reader(consumer, topic, limits, lambda item: item, with_markers=True)


def item_at(reader: Reader[Item], partition: int, offset: int) -> Item | None:
    """Return what the partition has at the offset; None if that is no record. Raises Refusal if it was not read."""
    item = next(reader.forward({partition: Range(offset, offset + 1)}), None)
    if item is None and (reader.problems or reader.stopped == "time"):
        reason = "; ".join(reader.problems) or f"it is larger than can be read in {PAGE_S:g} s"
        raise Refusal(
            ErrorCode.REQUEST_TIMED_OUT, f"offset {offset:,} of partition {partition} was not read: {reason}: try again"
        )
    return item


def _outcome(asked: Asked, topic: str, record: RawRecord, deadline_s: float) -> str:
    """Return how the transaction ended: readers of committed records get this one, or not, or not yet.

    If that is not known in time, return that.
    """
    with reading(asked, Wanted()) as consumer:
        stable = bounds_of(asked, consumer, topic, [record.partition], Wanted()).ends[record.partition]
        if record.offset >= stable:
            return "not committed yet"
        try:
            found = item_at(_reader(consumer, topic, deadline_s), record.partition, record.offset)
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.REQUEST_TIMED_OUT:
                raise
            return "committed or aborted: not known in time"
    return "aborted" if found is None else "committed"


def _missing(text: str) -> Refusal:
    return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, text)
