"""A consumer's path over gRPC, as bulk reads use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial

from kraft.client.aio.consumer import Consumer
from kraft.client.bulk.range_reader import DirectLeader
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.client.sans_io.read_epochs import ReadEpochs
from kraft.client.threads.loop_thread import LoopThread
from kraft.model.ids import TopicPartition


class OrdinaryPath:
    def __init__(self, thread: LoopThread, consumer: Consumer, timeout_ms: int | None) -> None:
        self._thread = thread
        self._consumer = consumer
        self._timeout_ms = consumer.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def direct_leader(self, partition: TopicPartition) -> DirectLeader | None:
        """Return the leader; None if it is not known, or has no listener that this client can use."""
        return self._thread.run(partial(self._find_leader, partition))

    def read_chunks(
        self, partition: TopicPartition, start: int, end: int, epochs: ReadEpochs
    ) -> Iterator[FetchedChunk]:
        """Yield the range over gRPC; what was read before it has those leader epochs."""
        return self._thread.iterate(self._read_chunks(partition, start, end, epochs))

    async def _find_leader(self, partition: TopicPartition) -> DirectLeader | None:
        return await self._consumer.calls.engine().direct_leader(partition, self._timeout_ms)

    async def _read_chunks(
        self, partition: TopicPartition, start: int, end: int, epochs: ReadEpochs
    ) -> AsyncGenerator[FetchedChunk, None]:
        found = self._consumer.calls.engine().read_chunks(partition, start, end, self._timeout_ms, epochs)
        async with aclosing(found) as chunks:
            async for chunk in chunks:
                yield chunk
