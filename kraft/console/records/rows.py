"""Records as a page shows them: decoded, masked, cut to what people read, with what is special about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kraft.console.records.decoding import Decoded
from kraft.console.records.decoding.registry import Registry
from kraft.console.records.filters import Filter, Subject
from kraft.console.records.permissions import Permission
from kraft.console.records.raw import RawRecord, Unreadable
from kraft.console.records.viewing import Formats, Shown, shown
from kraft.console.records.wanted import Wanted, time_text

PREVIEW_CHARACTERS: Final = 400
WHOLE_CHARACTERS: Final = 256 << 10
"""What the page of one record shows of its value."""

HEADERS_MAX: Final = 50
"""Headers of a record that are decoded; the page says how many there are."""


class Cell(Struct, frozen=True, kw_only=True):
    """A key, a value or a header."""

    format: str
    text: str
    size_bytes: int | None
    """None: hidden."""

    cut: bool = False
    """Whether the text is only the beginning."""

    problem: str = ""


class HeaderCell(Struct, frozen=True, kw_only=True):
    name: str
    value: Cell


class Row(Struct, frozen=True, kw_only=True):
    """A record, or in the place of records that cannot be read, why not."""

    partition: int
    offset: int
    time: str
    """In UTC."""

    timestamp_ms: int
    stamped_by: str = "producer"
    """"producer" or "broker"."""

    key: Cell | None = None
    value: Cell | None = None
    headers: list[HeaderCell] = []
    headers_left_out: int = 0
    tags: list[str] = []
    """What is special: tombstone, commit marker, aborted, transaction."""

    is_marker: bool = False
    """Whether brokers wrote it, and programs do not get it."""

    problem: str = ""
    leader_epoch: int = -1
    """-1: not known."""

    codec: str = "none"
    size_bytes: int | None = None
    """Of key, value and headers, decompressed; None: hidden."""

    is_masked: bool = False
    """Whether something is hidden."""


class Seen(Struct, frozen=True, kw_only=True):
    """A record as its viewer may see it."""

    record: RawRecord
    shown: Shown
    hides_size: bool
    """Whether something is hidden, or could be in headers that were not looked at."""

    def passes(self, wanted: Wanted, condition: Filter | None) -> bool:
        if wanted.key and (self.record.key is None or self.shown.key.text != wanted.key):
            return False
        if wanted.text and not self._has(wanted.text.casefold()):
            return False
        return condition is None or condition(self._subject())

    def _has(self, text: str) -> bool:
        texts = [self.shown.key.text, self.shown.value.text]
        texts += [each for header in self.shown.headers for each in (header.name, header.value.text)]
        return any(text in each.casefold() for each in texts)

    def _subject(self) -> Subject:
        record = self.record
        return Subject(
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=self.shown.key,
            value=self.shown.value,
            headers=tuple((each.name, each.value) for each in self.shown.headers),
        )

    def row(self, characters: int = PREVIEW_CHARACTERS) -> Row:
        record, shown = self.record, self.shown
        return Row(
            partition=record.partition,
            offset=record.offset,
            time=time_text(record.timestamp_ms),
            timestamp_ms=record.timestamp_ms,
            stamped_by="broker" if record.stamped_by_broker else "producer",
            key=cell_of(shown.key, shown.key_bytes, characters),
            value=cell_of(shown.value, shown.value_bytes, characters),
            headers=[
                HeaderCell(name=each.name[:PREVIEW_CHARACTERS], value=cell_of(each.value, None, characters))
                for each in shown.headers
            ],
            headers_left_out=max(0, len(record.headers) - HEADERS_MAX),
            tags=tags_of(record),
            is_marker=bool(record.marker),
            leader_epoch=record.leader_epoch,
            codec=record.codec,
            size_bytes=None if self.hides_size else record.size_bytes,
            is_masked=shown.is_masked,
        )


class Sight(Struct, frozen=True, kw_only=True):
    """How one person sees the records of a topic."""

    permission: Permission
    registry: Registry | None
    formats: Formats

    def of(self, record: RawRecord) -> Seen:
        """Decode and mask a record: the only way from bytes to what pages, filters and the live tail have."""
        headers = record.headers[:HEADERS_MAX]
        seen = shown(record.key, record.value, headers, self.permission, self.registry, self.formats)
        are_left_out = len(record.headers) > HEADERS_MAX
        return Seen(
            record=record,
            shown=seen,
            hides_size=seen.is_masked or (are_left_out and self.permission.hides_something),
        )


def tags_of(record: RawRecord) -> list[str]:
    if record.marker:
        return ["control record" if record.marker == "control" else f"{record.marker} marker"]
    tags = ["tombstone"] if record.value is None else []
    return [*tags, "transaction"] if record.is_transactional else tags


def cell_of(decoded: Decoded, size_bytes: int | None, characters: int) -> Cell:
    text = pretty(decoded) if characters > PREVIEW_CHARACTERS else decoded.text
    return Cell(
        format=decoded.format,
        text=text[:characters],
        size_bytes=size_bytes,
        cut=len(text) > characters,
        problem=decoded.problem,
    )


def pretty(decoded: Decoded) -> str:
    """Return JSON with a member a line, its numbers as they are written; anything else as it is."""
    if not isinstance(decoded.value, (dict, list)):
        return decoded.text
    try:
        return msgspec.json.format(decoded.text, indent=2)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return decoded.text


def unreadable(item: Unreadable) -> Row:
    last = item.next_offset - 1
    which = f"the record at offset {item.offset:,}" if last <= item.offset else f"offsets {item.offset:,} to {last:,}"
    return Row(
        partition=item.partition,
        offset=item.offset,
        time=time_text(item.timestamp_ms),
        timestamp_ms=item.timestamp_ms,
        problem=f"{which} cannot be shown: {item.why}",
    )


def with_outcomes(rows: list[Row], items: Iterable[RawRecord]) -> list[Row]:
    """Say of records of transactions how these ended, where the marker is among the items as well."""
    ends: dict[tuple[int, int], list[RawRecord]] = defaultdict(list)
    records = {(each.partition, each.offset): each for each in items}
    for each in sorted(records.values(), key=lambda each: each.offset):
        if each.marker in ("commit", "abort"):
            ends[each.partition, each.producer_id].append(each)
    found = []
    for row in rows:
        record = records.get((row.partition, row.offset))
        outcome = ""
        if record is not None and "transaction" in row.tags:
            markers = ends[record.partition, record.producer_id]
            after = next((each.marker for each in markers if each.offset > row.offset), "")
            outcome = {"commit": "committed", "abort": "aborted"}.get(after, "")
        found.append(replace(row, tags=[*row.tags, outcome]) if outcome else row)
    return found
