"""What somebody wants to read of a topic: the address of a page, checked. Everything in it is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kraft.console.forms import Form, WrongInput
from kraft.console.records.filter_syntax import LENGTH_MAX
from kraft.console.records.filters import Filter, parse
from kraft.model.moments import parse_datetime

ROWS_MAX: Final = 200
ROWS: Final = 50
PARTITIONS_MAX: Final = 50
"""Partitions that are read together."""

OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
TIME_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""

TEXT_MAX: Final = 500

BEGINS: Final = ("newest", "beginning", "offset", "time")


class Wanted(Struct, frozen=True, kw_only=True):
    partitions: tuple[int, int] | None = None
    """The first and the last; None: all."""

    begin: str = "newest"
    offset: int = 0
    time_ms: int = 0
    key: str = ""
    """Exactly this key, as it is shown; empty: any."""

    text: str = ""
    """Somewhere in key, value or headers, as they are shown, whatever the case; empty: anything."""

    filter: str = ""
    rows: int = ROWS
    committed: bool = True
    """Whether records of open and aborted transactions, and markers, are left out."""

    key_format: str = ""
    value_format: str = ""
    at: Mapping[int, int] | None = None
    """Where an earlier page ended, by partition."""

    @property
    def newest_first(self) -> bool:
        return self.begin == "newest"

    @property
    def is_filtered(self) -> bool:
        return bool(self.key or self.text or self.filter)

    def condition(self) -> Filter | None:
        """Return what the filter says. Raises WrongInput."""
        return parse(self.filter) if self.filter else None

    def query(self, at: Mapping[int, int] | None = None) -> dict[str, str]:
        """Return the fields of the address that asks for the same, from other places on."""
        places = self.at if at is None else at
        fields = {
            "partition": partitions_text(self.partitions),
            "from": "" if self.begin == "newest" else self.begin,
            "offset": str(self.offset) if self.begin == "offset" else "",
            "time": time_text(self.time_ms) if self.begin == "time" else "",
            "key": self.key,
            "text": self.text,
            "filter": self.filter,
            "rows": "" if self.rows == ROWS else str(self.rows),
            "isolation": "" if self.committed else "all",
            "key_format": self.key_format,
            "value_format": self.value_format,
            "at": "" if places is None else ",".join(f"{number}:{offset}" for number, offset in places.items()),
        }
        return {name: text for name, text in fields.items() if text}


def wanted_of(form: Form) -> Wanted:
    """Return what the fields say. Raises WrongInput."""
    begin = form.text("from", "newest") or "newest"
    if begin not in BEGINS:
        raise WrongInput(f"from={begin[:40]!r}: give one of {', '.join(BEGINS)}")
    isolation = form.text("isolation", "committed") or "committed"
    if isolation not in ("committed", "all"):
        raise WrongInput(f"isolation={isolation[:40]!r}: give committed or all")
    for name, longest in (("key", TEXT_MAX), ("text", TEXT_MAX), ("filter", LENGTH_MAX)):
        if len(form.text(name)) > longest:
            raise WrongInput(f"{name} has {len(form.text(name)):,} characters, and may have {longest:,}")
    wanted = Wanted(
        partitions=partitions_of(form.text("partition")),
        begin=begin,
        offset=form.number("offset", 0, OFFSET_MAX, 0) if begin == "offset" else 0,
        time_ms=time_of(form.text("time")) if begin == "time" else 0,
        key=form.text("key"),
        text=form.text("text"),
        filter=form.text("filter"),
        rows=form.number("rows", 1, ROWS_MAX, ROWS),
        committed=isolation == "committed",
        key_format=form.text("key_format")[:40],
        value_format=form.text("value_format")[:40],
        at=places_of(form.text("at")),
    )
    wanted.condition()
    return wanted


def partitions_of(text: str) -> tuple[int, int] | None:
    """Return the first and the last partition of "", "7" or "0-49". Raises WrongInput."""
    if not text or text == "all":
        return None
    first, dash, last = text.partition("-")
    low = _number(first.strip(), PARTITION_MAX)
    high = _number(last.strip(), PARTITION_MAX) if dash else low
    if low is None or high is None or high < low:
        raise WrongInput(f"partition={text[:40]!r}: give a number, a range such as 0-49, or nothing for all")
    return low, high


def partitions_text(partitions: tuple[int, int] | None) -> str:
    if partitions is None:
        return ""
    first, last = partitions
    return str(first) if first == last else f"{first}-{last}"


def places_of(text: str) -> dict[int, int] | None:
    """Return the offsets of "0:17,1:20". Raises WrongInput."""
    if not text:
        return None
    found: dict[int, int] = {}
    for each in text.split(",", PARTITIONS_MAX):
        left, _, right = each.partition(":")
        number, offset = _number(left, PARTITION_MAX), _number(right, OFFSET_MAX)
        if number is None or offset is None or len(found) == PARTITIONS_MAX:
            raise WrongInput("at says where an earlier page ended, such as 0:17,1:20: begin anew without it")
        found[number] = offset
    return found


def time_of(text: str) -> int:
    """Return the milliseconds since 1970 of "2026-01-31T23:59", in UTC unless it says otherwise, or of a number."""
    if (number := _number(text, TIME_MAX_MS)) is not None:
        return number
    try:
        time_ms = parse_datetime(text)
    except ValueError:
        time_ms = -1
    if not 0 <= time_ms <= TIME_MAX_MS:
        raise WrongInput(f"time={text[:40]!r}: give a time in UTC such as 2026-01-31T23:59, or milliseconds since 1970")
    return time_ms


def time_text(time_ms: int) -> str:
    """Return a time as people read it, in UTC, to the millisecond; the number, where there is no such time."""
    if not 0 <= time_ms <= TIME_MAX_MS:
        return str(time_ms)
    return datetime.fromtimestamp(time_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1_000:03}Z"


def _number(text: str, highest: int) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    return int(text) if int(text) <= highest else None
