"""Plans the reset of a group's offsets: from a target and what is known of each partition to its new offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, assert_never

from msgspec import Struct

from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition


class ResetFailed(KraftError):
    """Offsets were not reset; the text says which, and why."""


class ToEarliest(Struct, frozen=True):
    """The first offset that is kept."""


class ToLatest(Struct, frozen=True):
    """The log end offset."""


class ToCurrent(Struct, frozen=True):
    """The committed offset; the log end offset where none is committed."""


class ToOffset(Struct, frozen=True):
    """The same offset in every partition."""

    offset: int


class ToTime(Struct, frozen=True):
    """The first record at or after a time; the log end offset if there is none."""

    timestamp_ms: int


class ShiftBy(Struct, frozen=True):
    """The committed offset, moved forward, or back if negative."""

    count: int


class ToListed(Struct, frozen=True):
    """The offsets of a file."""

    offsets: Mapping[TopicPartition, int]


Target: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToOffset | ToTime | ShiftBy | ToListed


class Place(Struct, frozen=True, kw_only=True):
    """Facts of one partition before the reset."""

    partition: TopicPartition
    committed: int | None
    log_start: int
    log_end: int
    at_time: int | None = None
    """The offset found for ToTime; None if all records are older."""


class NewOffset(Struct, frozen=True, kw_only=True):
    """Planned offset of one partition."""

    partition: TopicPartition
    committed: int | None
    offset: int
    note: str = ""
    """Why the offset is not the one that was asked for, and which one it is; otherwise empty."""


def plan(target: Target, places: Iterable[Place]) -> list[NewOffset]:
    """Return the new offset of each partition, sorted. Raises ResetFailed, which names the partition."""
    return [_planned(target, place) for place in sorted(places, key=lambda each: each.partition)]


def _planned(target: Target, place: Place) -> NewOffset:
    match target:
        case ToEarliest():
            return _new(place, place.log_start)
        case ToLatest():
            return _new(place, place.log_end)
        case ToCurrent() if place.committed is None:
            return _new(place, place.log_end, "no offset is committed; using the log end offset")
        case ToCurrent():
            assert place.committed is not None, "the case before"
            return _new(place, place.committed)
        case ToTime() if place.at_time is None:
            return _new(place, place.log_end, "no record at or after that time; using the log end offset")
        case ToTime():
            assert place.at_time is not None, "the case before"
            return _new(place, place.at_time)
        case ToOffset():
            return _within_log(place, target.offset)
        case ShiftBy():
            if place.committed is None:
                raise ResetFailed(
                    f"{place.partition}: no offset is committed that could be shifted; name other partitions with "
                    "--topic, or choose another target"
                )
            return _within_log(place, place.committed + target.count)
        case ToListed():
            return _within_log(place, target.offsets[place.partition])
        case _:
            assert_never(target)


def _within_log(place: Place, wanted: int) -> NewOffset:
    if wanted > place.log_end:
        return _new(place, place.log_end, f"{wanted} is above the log; using the log end offset")
    if wanted < place.log_start:
        return _new(place, place.log_start, f"{wanted} is below the log; using the log start offset")
    return _new(place, wanted)


def _new(place: Place, offset: int, note: str = "") -> NewOffset:
    return NewOffset(partition=place.partition, committed=place.committed, offset=offset, note=note)
