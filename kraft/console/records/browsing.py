"""A page of records: where it begins in each partition, what it finds within its limits, and where it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kraft.client import KraftError, TopicPartition, partition_for_key
from kraft.console.forms import WrongInput
from kraft.console.records.raw import Item, RawRecord, Unreadable
from kraft.console.records.reading import Limits, Range, Reader, read_settings
from kraft.console.records.rows import Row, Sight, unreadable, with_outcomes
from kraft.console.records.viewing import View, note
from kraft.console.records.wanted import PARTITIONS_MAX, Wanted, partitions_text
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Consumer
    from kraft.console.asking import Asked

PAGE_S: Final = 2.0
"""Time of a page, which ends before that of its panel."""

LOOK_UP_MS: Final = 1_200
"""Longest wait for offsets."""

FIRST_LOOK_UP_MS: Final = 700
"""Longest wait for the first offsets of partitions: those whose leader is silent are left out of the page."""

PAGE_BYTES_MAX: Final = 8 << 20
SCAN_BYTES_MAX: Final = 64 << 20
"""Fetched bytes of a page with a filter: most of the records are not shown, and not kept."""

TURN_S: Final = 1.2
"""Longest wait for others who read at the same time; a part of PAGE_S."""


class Found(Struct, frozen=True, kw_only=True):
    rows: list[Row]
    newest_first: bool
    partitions: list[int]
    """Those that were read."""

    partitions_in_all: int
    looked_at: int
    """Records."""

    fetched_bytes: int
    notes: list[str]
    """Sentences: what was not read, and what to do."""

    more: dict[str, str]
    """Fields of the address that goes on; empty at the end."""

    is_masked: bool
    """Whether something of these records is hidden from this user."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Offsets of the partitions that answered, and why others did not."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    problems: list[str]


def browse(asked: Asked, topic: str, wanted: Wanted, sight: Sight) -> Found:
    """Read a page. Raises KraftError if nothing can be read."""
    deadline_s = time.monotonic() + PAGE_S
    condition = wanted.condition()
    with asked.state.readers.turn(TURN_S), reading(asked, wanted) as consumer:
        numbers, total = partitions_to_read(asked, topic, wanted)
        bounds = bounds_of(asked, consumer, topic, numbers, wanted)
        ranges, notes = ranges_of(asked, topic, bounds, wanted)
        bytes_max = SCAN_BYTES_MAX if wanted.is_filtered else PAGE_BYTES_MAX
        limits = Limits(bytes_max=bytes_max, deadline_s=deadline_s)

        def look(item: Item) -> tuple[Row | None, RawRecord | None]:
            if isinstance(item, Unreadable):
                return unreadable(item), None
            kept = without_bytes(item) if not wanted.committed and item.is_transactional else None
            found = sight.of(item)
            return found.row() if found.passes(wanted, condition) else None, kept

        reader = Reader(consumer, topic, limits, look, with_markers=not wanted.committed)
        rows: list[Row] = []
        transactions: list[RawRecord] = []
        looked_at = 0
        for row, kept in reader.backward(ranges) if wanted.newest_first else reader.forward(ranges):
            looked_at += 1
            if kept is not None:
                transactions.append(kept)
            if row is not None:
                rows.append(row)
                if len(rows) >= wanted.rows:
                    break
    notes += bounds.problems + reader.problems + _limits_said(reader, wanted)
    if reader.hidden:
        notes.append(f"{counted(reader.hidden, 'record')} of aborted transactions left out: choose all to see them.")
    if not wanted.committed:
        rows = with_outcomes(rows, transactions)
    write_down(asked, topic, sight, "page", rows, wanted.query())
    return Found(
        rows=rows,
        newest_first=wanted.newest_first,
        partitions=list(ranges),
        partitions_in_all=total,
        looked_at=looked_at,
        fetched_bytes=reader.fetched_bytes,
        notes=[*notes, *_hints(wanted, total, numbers)],
        more=_more(wanted, ranges, reader),
        is_masked=any(each.is_masked for each in rows),
    )


def write_down(
    asked: Asked, topic: str, sight: Sight, what: str, rows: Sequence[Row], query: Mapping[str, str]
) -> None:
    """Note who saw which records."""
    offsets: dict[int, tuple[int, int]] = {}
    for each in rows:
        first, last = offsets.get(each.partition, (each.offset, each.offset))
        offsets[each.partition] = min(first, each.offset), max(last, each.offset)
    wanted = {name: text for name, text in query.items() if name in ("key", "text", "filter")}
    note(
        View(
            cluster=asked.cluster.name,
            topic=topic,
            user=asked.user,
            viewing=sight.permission.viewing,
            what=what,
            partitions=sorted(offsets),
            records=len(rows),
            offsets=offsets,
            query=", ".join(f"{name}={text}" for name, text in wanted.items()),
        )
    )


@contextmanager
def reading(asked: Asked, wanted: Wanted) -> Iterator[Consumer]:
    """Open a consumer of the user without a group, and close it."""
    consumer = asked.client.consumer(**read_settings(committed=wanted.committed))
    try:
        yield consumer
    finally:
        consumer.close(1_000)


def without_bytes(record: RawRecord) -> RawRecord:
    return RawRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=None,
        value=None,
        producer_id=record.producer_id,
        is_transactional=record.is_transactional,
        marker=record.marker,
    )


def partitions_to_read(asked: Asked, topic: str, wanted: Wanted) -> tuple[list[int], int]:
    """Return the partitions to read, and how many there are. Raises WrongInput."""
    described = asked.admin.describe_topics([topic], timeout_ms=LOOK_UP_MS)[0]
    every = sorted(each.partition_index for each in described.metadata.partitions)
    if wanted.partitions is None:
        return every[:PARTITIONS_MAX], len(every)
    first, last = wanted.partitions
    chosen = [each for each in every if first <= each <= last]
    if not chosen:
        raise WrongInput(
            f"there is no partition {partitions_text(wanted.partitions)}: the topic has {every[0]} to {every[-1]}"
        )
    return chosen[:PARTITIONS_MAX], len(every)


def bounds_of(asked: Asked, consumer: Consumer, topic: str, numbers: list[int], wanted: Wanted) -> Bounds:
    places = [TopicPartition(topic, each) for each in numbers]
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    problems = []
    earliest = asked.admin.list_offsets(dict.fromkeys(places, EARLIEST_TIMESTAMP), timeout_ms=FIRST_LOOK_UP_MS)
    # A leader that is silent is waited for once.
    known = [each for each in places if not isinstance(earliest[each], KraftError)]
    latest = asked.admin.list_offsets(dict.fromkeys(known, LATEST_TIMESTAMP), timeout_ms=LOOK_UP_MS) if known else {}
    for place in places:
        start, end = earliest[place], latest.get(place, earliest[place])
        if isinstance(start, KraftError) or isinstance(end, KraftError):
            problems.append(
                f"partition {place.partition} is left out: {start if isinstance(start, KraftError) else end}"
            )
        else:
            starts[place.partition], ends[place.partition] = start.offset, end.offset
    if problems and not starts:
        raise next(each for each in (*earliest.values(), *latest.values()) if isinstance(each, KraftError))
    if wanted.committed and starts:
        stable = consumer.end_offsets([TopicPartition(topic, each) for each in starts], timeout_ms=LOOK_UP_MS)
        open_after = [place.partition for place, end in stable.items() if end < ends[place.partition]]
        ends |= {place.partition: end for place, end in stable.items()}
        if open_after:
            listed = ", ".join(map(str, open_after[:10]))
            problems.append(f"transactions are open in partition {listed}: records after their begin are not shown yet")
    return Bounds(starts=starts, ends=ends, problems=problems)


def ranges_of(asked: Asked, topic: str, bounds: Bounds, wanted: Wanted) -> tuple[dict[int, Range], list[str]]:
    """Return what may be read of each partition, and sentences about offsets that it does not hold."""
    starts, ends = bounds.starts, bounds.ends
    notes: list[str] = []
    if wanted.at is not None:
        # Partitions that an earlier page has finished are not in the address.
        given = {number: at for number, at in wanted.at.items() if number in starts}
        if wanted.newest_first:
            return {each: Range(starts[each], max(starts[each], min(ends[each], at))) for each, at in given.items()}, []
        return {each: Range(min(max(starts[each], at), ends[each]), ends[each]) for each, at in given.items()}, []
    begins = dict(starts)
    if wanted.begin == "offset":
        begins = dict.fromkeys(starts, wanted.offset)
        for number, start in starts.items():
            if not start <= wanted.offset <= ends[number]:
                notes.append(held(number, start, ends[number]))
    elif wanted.begin == "time":
        places = {TopicPartition(topic, each): wanted.time_ms for each in starts}
        for place, at in asked.admin.list_offsets(places, timeout_ms=LOOK_UP_MS).items():
            if isinstance(at, KraftError):
                notes.append(f"partition {place.partition} is read from its beginning: {at}")
            else:
                begins[place.partition] = at.offset if at.offset >= 0 else ends[place.partition]
    return {
        number: Range(min(max(start, begins[number]), ends[number]), ends[number]) for number, start in starts.items()
    }, notes[:5]


def _more(wanted: Wanted, ranges: Mapping[int, Range], reader: Reader[Any]) -> dict[str, str]:
    """Return the address that goes on, if something is left to read or may come."""
    left = {
        number: at
        for number, at in reader.positions.items()
        if (at > ranges[number].start if wanted.newest_first else at < ranges[number].end)
    }
    return wanted.query(left) if left else {}


def _limits_said(reader: Reader[Any], wanted: Wanted) -> list[str]:
    if reader.stopped == "bytes":
        limit = (SCAN_BYTES_MAX if wanted.is_filtered else PAGE_BYTES_MAX) >> 20
        return [f"This page ends after {limit} MiB: go on to see more."]
    return ["This page ends because its time is over: go on to see more."] if reader.stopped == "time" else []


def _hints(wanted: Wanted, total: int, numbers: list[int]) -> list[str]:
    hints = []
    if len(numbers) == PARTITIONS_MAX and total > PARTITIONS_MAX:
        following = f"{numbers[-1] + 1}-{numbers[-1] + PARTITIONS_MAX}"
        hints.append(
            f"{PARTITIONS_MAX} of {total} partitions are read at a time: give partition {following} for the next ones."
        )
    if wanted.key and total > 1 and (wanted.partitions is None or wanted.partitions[0] != wanted.partitions[1]):
        number = partition_for_key(wanted.key.encode(errors="replace"), total)
        hints.append(f"Kafka's default partitioner puts this key into partition {number}: read only that to be faster.")
    return hints


def held(partition: int, start: int, end: int) -> str:
    """Return what a partition holds, as words."""
    if start == end:
        return f"partition {partition} is empty, and its next offset is {end:,}"
    return f"partition {partition} holds offsets {start:,} to {end:,}, the last one excluded"
