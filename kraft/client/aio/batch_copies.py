"""Sends batches that leaders of another cluster stored, without their records being decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from kraft.client.aio.sender import Sender
from kraft.client.sans_io.batches import StoredBatch
from kraft.client.sans_io.copied_batch import CopiedBatch, CopyReceipt, StoredRun
from kraft.log.format.record_batch import check_crc, is_copyable
from kraft.model.errors import InvalidBatch, KraftError
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import Unreachable


class CopyingProducer(Protocol):
    """The part of a producer that the calls below need."""

    def started(self) -> Sender: ...
    def transaction_number(self) -> int: ...
    def record_not_queued(self, error: Exception, transaction: int) -> None: ...
    def new_future(self) -> asyncio.Future[list[StoredRun]]: ...


async def find_topics(producer: CopyingProducer, topics: Iterable[str]) -> None:
    """Look up many topics in one request, before batches for them are sent: each would wait for a request of its own.

    A topic that is missing is waited for shortly, and refused when a batch is sent. Raises Unreachable and Refusal.
    """
    await producer.started().find_topics(topics)


async def send_stored(
    producer: CopyingProducer, partition: TopicPartition, batch: StoredBatch
) -> asyncio.Future[list[StoredRun]]:
    """Queue a batch that `Consumer.poll_stored` returned, for this partition, and return a future of where it goes.

    The records keep timestamps, headers and codec: they are not decompressed. Raises as `send` does, and InvalidBatch
    for a wrong checksum and for what no producer may send: markers, gaps of a compaction, timestamps of the broker.
    """
    if not is_copyable(batch.header):
        raise InvalidBatch(f"{batch.partition}: the batch at offset {batch.base_offset} cannot be sent as it is")
    check_crc(batch.header, batch.data)
    number, sender = producer.transaction_number(), producer.started()
    future = producer.new_future()
    try:
        await sender.partition_count(partition.topic, partition.partition)
        if sender.is_short_of(batch.size_bytes):
            await sender.memory_for(batch.size_bytes)
        receipt = CopyReceipt(future, batch.record_count)
        sender.add_copy(CopiedBatch(partition, sender.now_ms(), batch.header, batch.data, receipt), number)
    except (KraftError, Unreachable) as error:
        producer.record_not_queued(error, number)
        raise
    return future
