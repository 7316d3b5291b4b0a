"""Chooses the partitions of records that are sent as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from kraft.client.arguments import checked_number
from kraft.client.sans_io.partitioner import partition_for_key
from kraft.client.values import ColumnsToSend
from kraft.model.errors import ErrorCode, Refusal

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
            _checked(topic, partition_count, place)
    for place, rows in rows_of.items():
        yield None if place == _ANY else place, rows


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
            # Less than -1, so that it is told from none.
            yield partition if partition >= 0 else partition - 1
        else:
            yield _ANY if key is None else partition_for_key(key, partition_count)


def _checked(topic: str, partition_count: int, partition: int) -> int:
    if not 0 <= checked_number("partition", partition) < partition_count:
        named = partition + 1 if partition < _ANY else partition
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {partition_count - 1}, not {named}",
        )
    return partition
