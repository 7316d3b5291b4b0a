"""Reads a range with `kraft.client`, and tells the connector's errors from the client's."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.client import ArrowChunk, Consumer, ErrorCode, LogTruncated, Refusal, TopicPartition, WantedColumns
from spark_connector.cluster import OffsetOutOfRange, TruncatedWhileRead


def read(
    consumer: Consumer, partition: TopicPartition, start: int, end: int, wanted: WantedColumns
) -> Iterator[ArrowChunk]:
    """Yield the wanted columns of the records. Raises as `Cluster.read` does."""
    try:
        yield from consumer.read_arrow(partition, start, end, wanted)
    except LogTruncated as truncated:
        raise TruncatedWhileRead(truncated.what) from None
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(refusal.message) from None
        raise
