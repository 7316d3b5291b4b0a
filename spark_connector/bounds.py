"""Bounds of a read: `earliest`, `latest`, explicit offsets and timestamps become one offset per partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster
from spark_connector.given import EARLIEST_OFFSET, LATEST_OFFSET, OptionError
from spark_connector.offsets import Offsets


class Edge(Enum):
    """First or last offset of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitOffsets:
    """An offset for every partition; it may be LATEST_OFFSET or EARLIEST_OFFSET. `option` is what the user set."""

    option: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAt:
    """The first record at or after a time: one time for all partitions, or one for each."""

    option: str
    timestamps_ms: int | Mapping[TopicPartition, int]
    else_latest: bool
    """If all records of a partition are older, its end. Otherwise that is an error."""


Bound: TypeAlias = Edge | ExplicitOffsets | FirstAt
"""Start or end of a read."""


def resolve(cluster: Cluster, bound: Bound, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset in each of `partitions`. Raises OptionError."""
    match bound:
        case Edge.EARLIEST:
            return cluster.earliest_offsets(partitions)
        case Edge.LATEST:
            return cluster.latest_offsets(partitions)
        case ExplicitOffsets():
            _refuse_other_partitions(bound.option, bound.offsets, partitions)
            return _explicit(cluster, bound.offsets)
        case FirstAt():
            return _first_at(cluster, bound, partitions)
        case _:
            assert_never(bound)


def refuse_end_before_start(start: Bound, end: Bound) -> None:
    """Raise OptionError if both are offsets, or both times, and a partition would end before it begins."""
    match start, end:
        case ExplicitOffsets(), ExplicitOffsets():
            starts, ends = start.offsets, end.offsets
        case FirstAt(timestamps_ms=int(first)), FirstAt(timestamps_ms=int(last)):
            if first > last:
                raise OptionError(f"option {end.option}: {last} is before {first}, the time of {start.option}")
            return
        case FirstAt(timestamps_ms=Mapping() as starts), FirstAt(timestamps_ms=Mapping() as ends):
            pass
        case _:
            return
    for partition in sorted(set(starts) & set(ends)):
        if starts[partition] > ends[partition] >= 0:
            raise OptionError(
                f"option {end.option}: {partition} ends at {ends[partition]}, before its start at {starts[partition]}"
            )


def _explicit(cluster: Cluster, offsets: Offsets) -> dict[TopicPartition, int]:
    explicit = dict(offsets)
    earliest = [partition for partition, offset in explicit.items() if offset == EARLIEST_OFFSET]
    latest = [partition for partition, offset in explicit.items() if offset == LATEST_OFFSET]
    if earliest:
        explicit.update(cluster.earliest_offsets(earliest))
    if latest:
        explicit.update(cluster.latest_offsets(latest))
    return explicit


def _first_at(cluster: Cluster, bound: FirstAt, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    if isinstance(bound.timestamps_ms, int):
        timestamps_ms: Mapping[TopicPartition, int] = dict.fromkeys(partitions, bound.timestamps_ms)
    else:
        timestamps_ms = bound.timestamps_ms
        _refuse_other_partitions(bound.option, timestamps_ms, partitions)
    found = cluster.offsets_at(timestamps_ms) if timestamps_ms else {}
    unmatched = sorted(partition for partition, offset in found.items() if offset is None)
    if unmatched and not bound.else_latest:
        raise OptionError(
            f"option {bound.option}: {_names(unmatched)} has no record at or after {timestamps_ms[unmatched[0]]}; "
            "startingOffsetsByTimestampStrategy=latest starts at its end"
        )
    ends = cluster.latest_offsets(unmatched) if unmatched else {}
    return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}


def _refuse_other_partitions(
    option: str, given: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> None:
    absent = sorted(set(partitions) - set(given))
    if absent:
        remedy = "give one for every partition" + ("" if "Timestamp" in option else ", -2 earliest, -1 latest")
        raise OptionError(f"option {option} has nothing for {_names(absent)}: {remedy}")
    surplus = sorted(set(given) - set(partitions))
    if surplus:
        raise OptionError(
            f"option {option} names {_names(surplus)}: the query does not read that, or it does not exist"
        )


def _names(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
