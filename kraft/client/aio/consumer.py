"""Asyncio consumer: the public calls. `FetchBuffer` keeps positions and records, `Fetcher` fetches ahead."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from kraft.client.aio.fetcher import Fetcher
from kraft.client.aio.offset_lookup import OffsetLookup
from kraft.client.batches import decode_columns, records_of, split_batches
from kraft.client.errors import ClientClosed, NotSupportedYet
from kraft.client.metadata_cache import MetadataCache
from kraft.client.network import Network
from kraft.client.ports import Connections
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.fetch_buffer import Chunk, FetchBuffer, Track
from kraft.client.settings import DEFAULT_BOOTSTRAP_SERVERS, ConsumerSettings, settings_of
from kraft.client.values import ConsumerRecord, OffsetAndTimestamp, PartitionColumns
from kraft.log.format.record_codec import RecordColumns
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from kraft.model.metadata import MetadataRequest

GROUPS_NOT_SUPPORTED = "consumer groups are not supported yet; use assign and seek"


class Consumer:
    """Asyncio consumer. Reads its assigned partitions in offset order and fetches ahead of the polls.

    Waits for a new leader when one moves or fails. An error that retries do not end (a missing topic, an offset out
    of range or a truncated log with auto.offset.reset=none, corrupt bytes) is raised by the next poll. If a topic or a
    position is not found within default.api.timeout.ms, poll raises the reason once, and the look-up begins again.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        network: Network | None = None,
        **settings: Any,
    ) -> None:
        """Create a consumer; `settings` are the fields of ConsumerSettings. Connects at first use.

        Raises InvalidSetting.
        """
        self._settings = settings_of(ConsumerSettings, bootstrap_servers, settings)
        self._network = network or Network()
        self._clock = self._network.clock
        self._buffer = FetchBuffer(self._settings, self._network.chance)
        self._turns: deque[TopicPartition] = deque()
        self._engine: _Engine | None = None
        self._is_closed = False

    @property
    def settings(self) -> ConsumerSettings:
        """The settings in use, defaults included."""
        return self._settings

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching and close the connections. May be called more than once."""
        self._is_closed = True
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.close()

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(self, *_: object, **__: object) -> None:
        """Raise NotSupportedYet: consumer groups are not supported yet."""
        raise NotSupportedYet(f"subscribe: {GROUPS_NOT_SUPPORTED}")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their position."""
        chosen = list(dict.fromkeys(partitions))
        self._buffer.assign(chosen)
        self._turns = deque(chosen)
        self._wake_up()

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return [track.partition for track in self._buffer.tracks]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset that the next poll reads from. Raises ValueError for a partition that is not assigned."""
        self._buffer.seek(partition, offset)
        self._wake_up()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset, looked up at the next poll; all assigned partitions if none is given."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the high watermark, looked up at the next poll; all assigned partitions if none is given."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching these partitions until `resume`. Polls still return what was fetched before."""
        for partition in partitions:
            self._buffer.track(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch these partitions again."""
        for partition in partitions:
            self._buffer.track(partition).is_paused = False
        self._wake_up()

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that poll returns. Raises the error that prevents reading."""
        deadline_ms = self._clock.monotonic_ms() + self._timeout(timeout_ms)
        while True:
            track = self._buffer.track(partition)
            if track.position is not None and not track.needs_position:
                return track.position
            if (error := self._buffer.take_error(track)) is not None:
                self._wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                waited_ms = self._timeout(timeout_ms)
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: position not found within {waited_ms} ms")
            await self._started().fetcher.wait_for_news(left_ms)

    def _seek_to(self, timestamp_ms: int, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions or self.assignment():
            self._buffer.seek_to_timestamp(partition, timestamp_ms)
        self._wake_up()

    # --- reading ----------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are any: at most `max_records` (default max.poll.records), [] on timeout."""
        wanted = self._settings.max_poll_records if max_records is None else max_records
        parts = await self.poll_batches(timeout_ms, wanted)
        return [record for part in parts for record in records_of(part)]

    async def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """Return records as columns, many times faster than `poll`; no limit without `max_records`."""
        engine = self._started()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            # Each error is raised once before the records of other partitions, and again when there are none.
            if (error := self._buffer.next_error(raised_before=False)) is not None:
                engine.fetcher.wake_up()
                raise error
            taken = list(self._take(max_records))
            if taken:
                engine.fetcher.wake_up()
            if parts := [part for part in taken if part.columns.offsets]:
                return parts
            if (error := self._buffer.next_error(raised_before=True)) is not None:
                engine.fetcher.wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return []
            await engine.fetcher.wait_for_news(left_ms)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records without end."""
        while True:
            for record in await self.poll():
                yield record

    def _take(self, max_records: int | None) -> Iterator[PartitionColumns]:
        """Yield parts of at most `max_records` together, partition by partition, and advance the positions.

        A part may be empty: of a batch that has no records for a reader, or none left after a compaction.
        """
        left = max_records
        for _ in range(len(self._turns)):
            partition = self._turns[0]
            while left is None or left > 0:
                part = self._next_part(self._buffer.track(partition), left)
                if part is None:
                    break
                yield part
                left = None if left is None else left - len(part.columns.offsets)
            if left == 0:
                # The next poll begins with the next partition, so that a busy one does not starve the others.
                self._turns.rotate(-1)
                return
            self._turns.rotate(-1)

    def _next_part(self, track: Track, records_max: int | None) -> PartitionColumns | None:
        ready = track.ready
        while not ready:
            chunk = self._buffer.take_chunk(track)
            if chunk is None or track.position is None:
                return None
            self._decode(track, chunk, track.position)
        part = ready.popleft()
        if records_max is not None and len(part.columns.offsets) > records_max:
            part, rest = _cut(part, records_max)
            ready.appendleft(rest)
        track.position = part.next_offset
        return part

    def _decode(self, track: Track, chunk: Chunk, start: int) -> None:
        """Decode a chunk into `ready`. Records before corrupt bytes are kept; after them, poll raises."""
        parts = decode_columns(track.partition, chunk.records, start, check_crcs=self._settings.check_crcs)
        try:
            track.ready.extend(parts)
        except InvalidBatch as error:
            self._buffer.fail(track.partition, error)

    # --- ranges -----------------------------------------------------------------------------------------------

    async def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> AsyncGenerator[PartitionColumns, None]:
        """Yield everything from offset `start` up to `end`, excluded, batch by batch; independent of the assignment.

        Raises OFFSET_OUT_OF_RANGE if `start` was deleted, and REQUEST_TIMED_OUT if nothing arrives for `timeout_ms`
        (default.api.timeout.ms), for example because the partition has not reached `end`.
        """
        async with aclosing(self.read_chunks(partition, start, end, timeout_ms)) as chunks:
            async for chunk in chunks:
                for part in decode_columns(partition, chunk, start, end, check_crcs=self._settings.check_crcs):
                    yield part

    async def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the same range as record batches in their stored form; the first and the last may exceed it."""
        async with aclosing(self.read_chunks(partition, start, end, timeout_ms)) as chunks:
            async for chunk in chunks:
                for _, batch in split_batches(chunk, start, end):
                    yield bytes(batch)

    async def read_chunks(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the same range as responses of the leader: each is one or more record batches, back to back."""
        if start >= end:
            return
        engine = self._started()
        # A range has no other place to begin than its start, so there is no reset.
        settings = dataclasses.replace(self._settings, auto_offset_reset="none")
        buffer = FetchBuffer(settings, self._network.chance)
        buffer.assign([partition])
        buffer.seek(partition, start, stop_at=end)
        fetcher = engine.new_fetcher(buffer, settings)
        try:
            position = start
            while position < end:
                chunk = await self._next_chunk(buffer, partition, fetcher, position, timeout_ms)
                position = buffer.track(partition).position = chunk.next_offset
                fetcher.wake_up()
                yield chunk.records
        finally:
            await fetcher.close()

    async def _next_chunk(
        self,
        buffer: FetchBuffer,
        partition: TopicPartition,
        fetcher: Fetcher,
        position: int,
        timeout_ms: int | None,
    ) -> Chunk:
        deadline_ms = self._clock.monotonic_ms() + self._timeout(timeout_ms)
        while True:
            # Looked up each time, because a truncation replaces the track.
            track = buffer.track(partition)
            chunk = buffer.take_chunk(track)
            if chunk is not None:
                return chunk
            if track.error is not None:
                raise track.error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise Refusal(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{partition}: received nothing from offset {position} on for {self._timeout(timeout_ms)} ms; "
                    f"its high watermark was {track.high_watermark}",
                )
            await fetcher.wait_for_news(left_ms)

    # --- about partitions -------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partitions of the topic: cached ones, refreshed every metadata.max.age.ms.

        A topic that was deleted after it was cached is still returned. Raises a Refusal that names a topic that is
        neither cached nor exists, or Unreachable.
        """
        metadata = await self._started().metadata.topic(topic, self._timeout(timeout_ms))
        return sorted(each.partition for each in metadata.partitions)

    async def topics(self, timeout_ms: int | None = None) -> list[str]:
        """Return the names of all topics, sorted."""
        request = MetadataRequest(topics=[], all_topics=True)
        response = await self._started().metadata.fetch(request, self._timeout(timeout_ms))
        return sorted(topic.topic for topic in response.topics if topic.error_code is ErrorCode.NONE)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        return await self._offsets_at(EARLIEST_TIMESTAMP, partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition: the offset after its last readable record."""
        return await self._offsets_at(LATEST_TIMESTAMP, partitions, timeout_ms)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp; None if all records are older."""
        for partition, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < MAX_TIMESTAMP:
                raise ValueError(f"{partition}: {timestamp_ms} is not a timestamp")
        found = await self._started().lookup.find(timestamps_ms, self._timeout(timeout_ms))
        return {
            partition: OffsetAndTimestamp(result.offset, result.timestamp_ms) if result.offset >= 0 else None
            for partition, result in found.items()
        }

    async def _offsets_at(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, timestamp_ms)
        found = await self._started().lookup.find(asked, self._timeout(timeout_ms)) if asked else {}
        return {partition: result.offset for partition, result in found.items()}

    # --- inside -----------------------------------------------------------------------------------------------

    def _timeout(self, timeout_ms: int | None) -> int:
        return self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _started(self) -> _Engine:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._engine is None:
            self._engine = _Engine(self._buffer, self._settings, self._network)
        return self._engine

    def _wake_up(self) -> None:
        if self._engine is not None:
            self._engine.fetcher.wake_up()


class _Engine:
    """Connections and tasks that a consumer opens at first use, on the event loop that uses it."""

    def __init__(self, buffer: FetchBuffer, settings: ConsumerSettings, network: Network) -> None:
        self._network = network
        self._connections: Connections = network.connect()
        self.metadata = MetadataCache(self._connections, settings, network.clock, network.chance)
        self.metadata.on_refresh = self._wake_all
        backoff = Backoff(
            first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=network.chance
        )
        self.lookup = OffsetLookup(self._connections, self.metadata, backoff, network.clock)
        self._fetchers: list[Fetcher] = []
        self.fetcher = self.new_fetcher(buffer, settings)

    def new_fetcher(self, buffer: FetchBuffer, settings: ConsumerSettings) -> Fetcher:
        fetcher = Fetcher(buffer, settings, self._connections, self.metadata, self.lookup, self._network.clock)
        self._fetchers = [each for each in self._fetchers if not each.is_closed] + [fetcher]
        return fetcher

    async def close(self) -> None:
        for fetcher in self._fetchers:
            await fetcher.close()
        await self.metadata.close()
        await self._connections.close()

    def _wake_all(self) -> None:
        for fetcher in self._fetchers:
            fetcher.wake_up()


def _cut(part: PartitionColumns, records: int) -> tuple[PartitionColumns, PartitionColumns]:
    """Split a part into its first `records` and the rest."""
    columns = part.columns
    head = RecordColumns(
        columns.offsets[:records],
        columns.timestamps_ms[:records],
        columns.keys[:records],
        columns.values[:records],
        columns.headers[:records],
    )
    tail = RecordColumns(
        columns.offsets[records:],
        columns.timestamps_ms[records:],
        columns.keys[records:],
        columns.values[records:],
        columns.headers[records:],
    )
    return replace(part, columns=head, next_offset=head.offsets[-1] + 1), replace(part, columns=tail)
