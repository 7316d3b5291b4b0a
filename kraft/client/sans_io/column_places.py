"""Chooses the partitions of records that are in columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, repeat
from typing import Final

from msgspec.structs import replace

from kraft.client.model.arguments import checked_number
from kraft.client.model.settings import Partitioner
from kraft.client.model.values import ColumnsToSend
from kraft.client.sans_io.partitioner import partition_for_key
from kraft.model.errors import ErrorCode, KraftError, Refusal

Rows = Sequence[int]

_ANY: Final = -1


def last_partition(columns: ColumnsToSend) -> int | None:
    """Return the highest partition that is named; None without any."""
    partitions = columns.partitions
    if partitions is None or isinstance(partitions, int):
        return partitions
    return max((each for each in partitions if isinstance(each, int)), default=None)


def places_of(topic: str, partition_count: int, columns: ColumnsToSend) -> Iterator[tuple[int | None, Rows | None]]:
    """Yield each partition with the rows that go there, None for all. Without a partition, the rows may go anywhere.

    Raises ValueError for another number of partitions, and a Refusal for one that the topic does not have.
    """
    partitions, keys, record_count = columns.partitions, columns.keys, len(columns.values)
    if isinstance(partitions, int):
        yield _checked(topic, partition_count, partitions), None
        return
    if partitions is not None and len(partitions) != record_count:
        raise ValueError(f"{len(partitions)} partitions for {record_count} values")
    if partitions is None and (keys is None or not any(map(_is_key, keys))):
        yield None, None
        return
    rows_of: defaultdict[int, list[int]] = defaultdict(list)
    for row, place in enumerate(_places(partition_count, keys, record_count, partitions)):
        rows_of[place].append(row)
    for place in rows_of:
        if place != _ANY:
            _checked(topic, partition_count, place + 1 if place < _ANY else place)
    for place, rows in rows_of.items():
        yield None if place == _ANY else place, rows


def places_in_order(
    topic: str, partition_count: int, keys: Sequence[bytes | None], partition: int | None
) -> Iterator[tuple[int | None, Rows | None]]:
    """Yield each partition as `places_of` does, such that records of one partition keep their order.

    A record with a key may go to the very partition to which those without one go, so it waits for those before it.
    """
    if partition is not None:
        yield _checked(topic, partition_count, partition), None
        return
    if not any(map(_is_key, keys)):
        yield None, None
        return
    for has_key, stretch in groupby(range(len(keys)), lambda row: keys[row] is not None):
        if not has_key:
            yield None, list(stretch)
            continue
        rows_of: defaultdict[int, list[int]] = defaultdict(list)
        for row in stretch:
            rows_of[partition_for_key(keys[row] or b"", partition_count)].append(row)
        yield from rows_of.items()


def place_of(topic: str, partition_count: int, key: bytes | None, partition: int | None) -> int | None:
    """Return the partition of one record; None if it may go anywhere. Raises a Refusal as `places_of` does."""
    if partition is not None:
        return _checked(topic, partition_count, partition)
    return None if key is None else partition_for_key(key, partition_count)


def chosen_partition(
    partitioner: Partitioner, topic: str, partition_count: int, key: bytes | None, value: bytes | None
) -> int:
    """Return the partition that a user's function chooses. Raises KraftError if it fails or returns no partition."""
    try:
        chosen: object = partitioner(topic, key, value, partition_count)
    except Exception as error:
        raise KraftError(f"the partitioner failed for a record of {topic}: {error!r}") from error
    if not isinstance(chosen, int) or not 0 <= chosen < partition_count:
        raise KraftError(
            f"the partitioner returned {chosen!r} for a record of {topic}: give a partition, 0 to {partition_count - 1}"
        )
    return chosen


def with_chosen_partitions(
    partitioner: Partitioner | None, topic: str, partition_count: int, columns: ColumnsToSend
) -> ColumnsToSend:
    """Return the columns with a partition for each record that names none. Raises as `chosen_partition` does."""
    named = columns.partitions
    if partitioner is None or isinstance(named, int) or (named is not None and len(named) != len(columns.values)):
        return columns
    keys = columns.keys or repeat(None)
    rows = zip(named or repeat(None), keys, columns.values, strict=False)
    partitions = [
        chosen_partition(partitioner, topic, partition_count, key, value) if partition is None else partition
        for partition, key, value in rows
    ]
    return replace(columns, partitions=partitions)


def _is_key(key: bytes | None) -> bool:
    return key is not None


def _places(
    partition_count: int,
    keys: Sequence[bytes | None] | None,
    record_count: int,
    partitions: Sequence[int | None] | None,
) -> Iterator[int]:
    for row in range(record_count):
        partition = None if partitions is None else partitions[row]
        key = None if keys is None else keys[row]
        if partition is not None:
            # A negative partition is refused later: -1 would let the record go to any.
            yield partition if partition >= 0 else partition - 1
        else:
            yield _ANY if key is None else partition_for_key(key, partition_count)


def _checked(topic: str, partition_count: int, partition: int) -> int:
    if not 0 <= checked_number("partition", partition) < partition_count:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {partition_count - 1}, not {partition}",
        )
    return partition
