"""Reads a range with `kraft.client`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.client import (
    ArrowChunk,
    Consumer,
    TopicPartition,
    WantedColumns,
)
from spark_connector.client_errors import read_errors

STALL_MS: Final = 2_000
"""Time without records after which a reader is told, to look whether the log has an end before its range has."""

_SAMPLE_RECORDS: Final = 1_000


def read(
    consumer: Consumer, partition: TopicPartition, start: int, end: int, wanted: WantedColumns
) -> Iterator[ArrowChunk]:
    """Yield the wanted columns of the records. Raises as `Cluster.read` does."""
    with read_errors():
        yield from consumer.read_arrow(partition, start, end, wanted, timeout_ms=STALL_MS)


def record_bytes(consumer: Consumer, partition: TopicPartition, offset: int, end: int) -> float | None:
    """Return the mean size of key and value in the first batch of the range; None if there is none."""
    sample_end = min(end, offset + _SAMPLE_RECORDS)
    with read_errors():
        for part in consumer.read_columns(partition, offset, sample_end, timeout_ms=STALL_MS):
            columns = part.columns
            if columns.offsets:
                size = sum(map(len, filter(None, columns.values))) + sum(map(len, filter(None, columns.keys)))
                return size / len(columns.offsets)
    return None
