"""Connections and tasks that a consumer opens at first use, on the event loop that uses it."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from kraft.client.aio.fetcher import CommittedLookup, Fetcher
from kraft.client.bulk.range_reader import DirectLeader
from kraft.client.cluster.connections import Connections
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.kafka_addresses import KafkaAddresses
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.network import Network
from kraft.client.cluster.offset_lookup import OffsetLookup
from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import OffsetAndMetadata
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.client.sans_io.read_epochs import ReadEpochs
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import Unreachable

StartOffsets: TypeAlias = Callable[
    ["Engine", list[TopicPartition], int], Awaitable[dict[TopicPartition, OffsetAndMetadata]]
]
"""A `CommittedLookup` by the coordinators of an engine."""


class Engine:
    """Fetches into a consumer's buffer, and serves the calls of the consumer that need the network."""

    def __init__(
        self, buffer: FetchBuffer, settings: ConsumerSettings, network: Network, start_offsets: StartOffsets | None
    ) -> None:
        self._settings = settings
        self._network = network
        self._connections: Connections = network.connect(settings)
        self.metadata = MetadataCache(self._connections, settings, network.clock, network.chance)
        self.metadata.on_refresh = self._metadata_refreshed
        backoff = Backoff(
            first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=network.chance
        )
        self.lookup = OffsetLookup(
            self._connections, self.metadata, backoff, network.clock, reads_committed=settings.reads_committed
        )
        self.coordinators = Coordinators(self._connections, self.metadata.any_broker, backoff, network.clock)
        self._kafka_addresses = KafkaAddresses(self._connections, network.clock, settings.security.protocol)
        self.when_dropped: weakref.finalize[..., Any] | None = None
        """Closes this when the consumer is dropped; set by it."""
        self._fetchers: list[Fetcher] = []
        committed = None if start_offsets is None else partial(start_offsets, self)
        self.fetcher = self._new_fetcher(buffer, settings, committed)

    async def close(self) -> None:
        if self.when_dropped is not None:
            self.when_dropped.detach()
        for fetcher in self._fetchers:
            await fetcher.close()
        await self.metadata.close()
        await self._connections.close()

    def _new_fetcher(
        self, buffer: FetchBuffer, settings: ConsumerSettings, committed: CommittedLookup | None = None
    ) -> Fetcher:
        fetcher = Fetcher(
            buffer, settings, self._connections, self.metadata, self.lookup, self._network.clock, committed
        )
        self._fetchers = [each for each in self._fetchers if not each.is_closed] + [fetcher]
        return fetcher

    def _metadata_refreshed(self) -> None:
        for fetcher in self._fetchers:
            fetcher.metadata_refreshed()

    # --- ranges -----------------------------------------------------------------------------------------------

    async def direct_leader(self, partition: TopicPartition, timeout_ms: int) -> DirectLeader | None:
        """Return the leader with the address of its listener of Kafka's protocol; None if either is not known.

        Raises a Refusal that names a missing topic.
        """
        try:
            await self.metadata.topic(partition.topic, timeout_ms)
        except Unreachable:
            return None
        leader = self.metadata.leader(partition)
        address = None if leader is None else await self._kafka_addresses.find(leader.address)
        return None if leader is None or address is None else DirectLeader(address, leader.epoch)

    async def read_chunks(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int, epochs: ReadEpochs | None = None
    ) -> AsyncGenerator[FetchedChunk, None]:
        """Yield the responses that hold a range, apart from the consumer's buffer.

        With the leader epochs of what was read before `start`, the leader is asked first whether it has that.
        """
        # A range has no other place to begin than its start, so there is no reset.
        settings = dataclasses.replace(self._settings, auto_offset_reset="none", group_id=None)
        buffer = FetchBuffer(settings, self._network.chance)
        buffer.assign([partition])
        buffer.seek(partition, start, stop_at=end)
        if epochs is not None:
            buffer.state(partition).epochs = epochs.up_to(start)
        fetcher = self._new_fetcher(buffer, settings)
        try:
            position = start
            while position < end:
                chunk = await self._next_chunk(buffer, partition, fetcher, position, timeout_ms)
                position = buffer.state(partition).position = chunk.next_offset
                fetcher.wake_up()
                yield chunk
        finally:
            await fetcher.close()

    async def _next_chunk(
        self, buffer: FetchBuffer, partition: TopicPartition, fetcher: Fetcher, position: int, timeout_ms: int
    ) -> FetchedChunk:
        clock = self._network.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while True:
            # Looked up each time, because a truncation replaces the state.
            state = buffer.state(partition)
            chunk = buffer.take_chunk(state)
            if chunk is not None:
                return chunk
            if state.error is not None:
                raise state.error
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                raise Refusal(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{partition}: received nothing from offset {position} on for {timeout_ms} ms; "
                    f"its {'last stable offset' if self._settings.reads_committed else 'high watermark'} was "
                    f"{state.end_offset}",
                )
            await fetcher.wait_for_news(left_ms)
