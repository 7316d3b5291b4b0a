"""Reads of a range of a partition, independent of what a consumer is assigned."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from kraft.client.aio.consumer_calls import ConsumerClient
from kraft.client.model.values import PartitionColumns
from kraft.client.sans_io.batches import decode_columns, split_batches
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.model.ids import TopicPartition


async def read_columns(
    consumer: ConsumerClient, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
) -> AsyncGenerator[PartitionColumns, None]:
    """Yield everything from offset `start` up to `end`, excluded, batch by batch; independent of the assignment.

    Raises OFFSET_OUT_OF_RANGE if `start` was deleted, and REQUEST_TIMED_OUT if nothing arrives for `timeout_ms`
    (default.api.timeout.ms), for example because the partition has not reached `end`.
    """
    async with aclosing(read_chunks(consumer, partition, start, end, timeout_ms)) as chunks:
        async for chunk in chunks:
            for part in decoded(consumer, partition, chunk, start, end):
                yield part


async def read_batches(
    consumer: ConsumerClient, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the same range as record batches in their stored form; the first and the last may exceed it.

    With isolation.level=read_committed, batches of aborted transactions are left out.
    """
    async with aclosing(read_chunks(consumer, partition, start, end, timeout_ms)) as chunks:
        async for chunk in chunks:
            for _, batch, is_aborted in split_batches(chunk.records, start, end, chunk.aborted):
                if not is_aborted:
                    yield bytes(batch)


async def read_chunks(
    consumer: ConsumerClient, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
) -> AsyncGenerator[FetchedChunk, None]:
    """Yield the same range as responses of the leader."""
    if start >= end:
        return
    async with aclosing(
        consumer.calls.engine().read_chunks(partition, start, end, consumer.calls.timeout(timeout_ms))
    ) as found:
        async for chunk in found:
            yield chunk


def decoded(
    consumer: ConsumerClient, partition: TopicPartition, chunk: FetchedChunk, start: int, end: int
) -> Iterator[PartitionColumns]:
    """Yield the columns of a response to `read_chunks`, in any thread. Raises InvalidBatch."""
    check_crcs = consumer.calls.settings.check_crcs
    return decode_columns(partition, chunk.records, start, end, check_crcs=check_crcs, aborted=chunk.aborted)
