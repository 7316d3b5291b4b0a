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


class OffsetsBeforeReset(Struct, frozen=True, kw_only=True):
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


def plan(target: Target, partitions: Iterable[OffsetsBeforeReset]) -> list[NewOffset]:
    """Return the new offset of each partition, sorted. Raises ResetFailed, which names the partition."""
    return [_planned(target, before) for before in sorted(partitions, key=lambda each: each.partition)]


def _planned(target: Target, before: OffsetsBeforeReset) -> NewOffset:
    match target:
        case ToEarliest():
            return _new(before, before.log_start)
        case ToLatest():
            return _new(before, before.log_end)
        case ToCurrent() if before.committed is None:
            return _new(before, before.log_end, "no offset is committed; using the log end offset")
        case ToCurrent():
            assert before.committed is not None, "the case before"
            return _new(before, before.committed)
        case ToTime() if before.at_time is None:
            return _new(before, before.log_end, "no record at or after that time; using the log end offset")
        case ToTime():
            assert before.at_time is not None, "the case before"
            return _new(before, before.at_time)
        case ToOffset():
            return _within_log(before, target.offset)
        case ShiftBy():
            if before.committed is None:
                raise ResetFailed(
                    f"{before.partition}: no offset is committed that could be shifted; name other partitions with "
                    "--topic, or choose another target"
                )
            return _within_log(before, before.committed + target.count)
        case ToListed():
            return _within_log(before, target.offsets[before.partition])
        case _:
            assert_never(target)


def _within_log(before: OffsetsBeforeReset, wanted: int) -> NewOffset:
    if wanted > before.log_end:
        return _new(before, before.log_end, f"{wanted} is above the log; using the log end offset")
    if wanted < before.log_start:
        return _new(before, before.log_start, f"{wanted} is below the log; using the log start offset")
    return _new(before, wanted)


def _new(before: OffsetsBeforeReset, offset: int, note: str = "") -> NewOffset:
    return NewOffset(partition=before.partition, committed=before.committed, offset=offset, note=note)
