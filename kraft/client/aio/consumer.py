"""Asyncio consumer: the public calls. `FetchBuffer` keeps positions and records, `Fetcher` fetches ahead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any

from kraft.client.aio.dropped import close_when_dropped
from kraft.client.aio.engine import Engine
from kraft.client.aio.group import Group, close_dropped, needs_group
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import checked_mapping, checked_number, checked_partitions
from kraft.client.model.errors import ClientClosed, SubscriptionConflict
from kraft.client.model.group_offsets import checked_offsets
from kraft.client.model.settings import LOCAL_BROKER, ConsumerSettings, settings_of
from kraft.client.model.subscription import Callback, Subscription, subscription_to
from kraft.client.model.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionColumns,
)
from kraft.client.sans_io.batches import decode_columns, records_of, split_batches
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.client.sans_io.progress import Progress
from kraft.client.sans_io.record_output import RecordOutput
from kraft.client.sans_io.track import Chunk
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from kraft.model.metadata import MetadataRequest

CLOSE_TIMEOUT_MS = 30_000


class Consumer:
    """Asyncio consumer. Reads its partitions in offset order and fetches ahead of the polls.

    It reads the partitions of `assign`, or those that its group gives to it after `subscribe`. With group.id, reading
    starts at the group's committed offsets, and where there is none as auto.offset.reset says.

    Waits for a new leader when one moves or fails. An error that retries do not end (a missing topic of `assign`, an
    offset out of range or a truncated log with auto.offset.reset=none, corrupt bytes) is raised by the next poll. If a
    position is not found within default.api.timeout.ms, poll raises the reason once, and the look-up begins again. A
    missing topic of `subscribe` is logged once, and read when it is created.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create a consumer, which connects at first use. Raises InvalidSetting.

        `settings` are the fields of `kraft.client.model.settings.ConsumerSettings`.
        """
        self._settings = settings_of(ConsumerSettings, bootstrap_servers, settings)
        self._network = network or Network()
        self._clock = self._network.clock
        self._buffer = FetchBuffer(self._settings, self._network.chance)
        self._output = RecordOutput(self._buffer, self._settings)
        self._progress = Progress()
        self._group: Group | None = None
        if (group_id := self._settings.group_id) is not None:
            self._group = Group(group_id, self._settings, self._network, self._output, self._progress)
        self._subscription: Subscription | None = None
        """Its callbacks, which the group does not keep."""
        self.iterated: Iterator[ConsumerRecord] = iter(())
        """What an iteration has fetched; `poll_for_iteration` fetches more."""
        self._engine: Engine | None = None
        self._is_closing = False
        self._is_closed = False
        """Callbacks may still use a consumer that is closing."""

    @property
    def settings(self) -> ConsumerSettings:
        """The settings in use, defaults included."""
        return self._settings

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(only_processed=error is not None)

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, only_processed: bool = False) -> None:
        """Commit if enable.auto.commit, leave the group, and close the connections, all within `timeout_ms`.

        `only_processed`: commit nothing of what the last poll returned, or the iteration yielded last, as after an
        error. A callback for revoked partitions is called before the consumer leaves. May be called more than once.
        """
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._group is not None and self._engine is not None:
                deadline_ms = self._clock.monotonic_ms() + timeout_ms
                await self._group.unsubscribe(self._engine, deadline_ms, only_processed=only_processed)
        finally:
            self._is_closed = True
            engine, self._engine = self._engine, None
            if engine is not None:
                await engine.close()

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Read the partitions of these topics that the group gives to this consumer; replaces what was subscribed to.

        The consumer joins its group with the next poll. `pattern` subscribes to all topics, present and future, whose
        whole name matches; with group.protocol=consumer the coordinator matches it. Callbacks get the partitions and
        run inside polls: after partitions were assigned, before they are revoked, or after they were lost without
        warning (default: `on_revoked`). Offsets may be committed in `on_revoked`, not in `on_lost`.

        Raises SubscriptionConflict without group.id or after `assign`, ValueError for nothing to subscribe to,
        and INVALID_TOPIC_EXCEPTION for a name that no topic can have.
        """
        subscription = subscription_to(topics, pattern, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        if self._group is None:
            raise needs_group("subscribe")
        if self._group.subscription is None and self._output.assigned:
            raise SubscriptionConflict("subscribe: the consumer was assigned partitions; call unsubscribe before")
        self._group.subscribe(subscription)
        self._subscription = subscription

    def subscription(self) -> list[str]:
        """Return the topics that the consumer subscribes to by name, sorted."""
        subscription = None if self._group is None else self._group.subscription
        return [] if subscription is None else sorted(subscription.topics)

    async def unsubscribe(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if enable.auto.commit, leave the group within `timeout_ms`, and read nothing."""
        if self._group is not None and self._engine is not None:
            await self._group.unsubscribe(self._engine, self._clock.monotonic_ms() + timeout_ms)
        elif self._group is not None:
            self._group.subscription = None
        self._assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their position.

        Raises SubscriptionConflict after `subscribe`.
        """
        if self._group is not None and self._group.subscription is not None:
            raise SubscriptionConflict("assign: the consumer is subscribed to topics; call unsubscribe before")
        self._assign(checked_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._output.assigned

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset that the next poll reads from. Raises ValueError for a partition that is not assigned."""
        self._buffer.seek(partition, offset)
        self._moved([partition])

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset, looked up at the next poll; all assigned partitions if none is given."""
        self.seek_to_timestamp(EARLIEST_TIMESTAMP, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end (see `end_offsets`), looked up at the next poll; all assigned partitions if none is given."""
        self.seek_to_timestamp(LATEST_TIMESTAMP, *partitions)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Move to the first record at or after the timestamp, or to the end if all are older.

        Looked up at the next poll; all assigned partitions if none is given.
        """
        moved = partitions or self._output.assigned
        for partition in moved:
            self._buffer.seek_to_timestamp(partition, timestamp_ms)
        self._moved(moved)

    def pause(self, *partitions: TopicPartition) -> None:
        """Neither fetch nor return records of these partitions until `resume`."""
        for partition in partitions:
            self._buffer.track(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch and return records of these partitions again."""
        for partition in partitions:
            self._buffer.track(partition).is_paused = False
        self._wake_up()

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [track.partition for track in self._output.tracks if track.is_paused]

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned. Raises the error that prevents reading."""
        deadline_ms = self._deadline(timeout_ms)
        while True:
            track = self._buffer.track(partition)
            if track.position is not None and not track.needs_position:
                return self._progress.read(partition, track.position)
            if (error := self._buffer.take_error(track)) is not None:
                self._wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                waited_ms = self._timeout(timeout_ms)
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: position not found within {waited_ms} ms")
            await self.engine().fetcher.wait_for_news(left_ms)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the offsets between the position and the end that was fetched last; None before a fetch.

        The end is the high watermark, or the last stable offset with isolation.level=read_committed.
        """
        track = self._buffer.track(partition)
        if track.position is None or track.end_offset < 0:
            return None
        return max(0, track.end_offset - self._progress.read(partition, track.position))

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        before = set(self._output.assigned)
        self._output.assign(partitions)
        for partition in before - set(self._output.assigned):
            self._progress.forget(partition)
        self._wake_up()

    def _moved(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._progress.forget(partition)
        self._wake_up()

    # --- reading ----------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are any: at most `max_records` (default max.poll.records), [] on timeout.

        Joins the group of a subscribed consumer, and calls its callbacks. Raises SubscriptionConflict if nothing is
        assigned or subscribed to.
        """
        wanted = self._settings.max_poll_records if max_records is None else max_records
        parts = await self.poll_batches(timeout_ms, wanted)
        return [record for part in parts for record in records_of(part)]

    async def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """Return records as columns, many times faster than `poll`; no limit without `max_records`."""
        engine, group = self.engine(), self._group
        if self._is_closing:
            raise ClientClosed("the consumer is closing")
        if group is not None and group.is_in_callback:
            raise SubscriptionConflict("poll: a callback of this consumer has not returned")
        if not self._output.assigned and (group is None or group.subscription is None):
            raise SubscriptionConflict("poll: nothing is assigned or subscribed to; call subscribe or assign before")
        deadline_ms = self._deadline(timeout_ms)
        self._return_unread()
        if group is None:
            return await self._next_parts(engine, deadline_ms, max_records)
        group.poll_began(engine)
        try:
            return await self._next_parts(engine, deadline_ms, max_records)
        finally:
            group.poll_ended()

    async def _next_parts(self, engine: Engine, deadline_ms: int, max_records: int | None) -> list[PartitionColumns]:
        while True:
            held = frozenset() if self._group is None else await self._group.reconcile(engine)
            # Each error is raised once before the records of other partitions, and again when there are none.
            if (error := self._buffer.next_error(raised_before=False)) is not None:
                engine.fetcher.wake_up()
                raise error
            taken = list(self._output.take(max_records, held))
            if taken:
                engine.fetcher.wake_up()
            if parts := [part for part in taken if part.columns.offsets]:
                for part in parts:
                    self._progress.returned(part.partition, part.columns.offsets[0])
                return parts
            if (error := self._buffer.next_error(raised_before=True)) is not None:
                engine.fetcher.wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return []
            await engine.fetcher.wait_for_news(left_ms)

    def take_back(self) -> None:
        """Return the records of the last poll again with the next one: its caller was interrupted, and has none."""
        self._rewind(self._progress.taken_back())

    def _return_unread(self) -> None:
        """Go back to the first record that an iteration has not yielded."""
        self._rewind(self._progress.poll_began())

    def _rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.iterated = iter(())
        for partition, offset in offsets.items():
            self._buffer.rewind(partition, offset)
        if offsets:
            self._wake_up()

    def __aiter__(self) -> Consumer:
        """Iterate over records, without end unless consumer.timeout.ms is set."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        while True:
            for record in self.iterated:
                return record
            if not await self.poll_for_iteration():
                raise StopAsyncIteration

    async def poll_for_iteration(self) -> bool:
        """Fetch records for an iteration, after those that it has; False if none come within consumer.timeout.ms."""
        timeout_ms = self._settings.consumer_timeout_ms
        deadline_ms = None if timeout_ms < 0 else self._clock.monotonic_ms() + timeout_ms
        while True:
            left_ms = 1_000 if deadline_ms is None else min(1_000, deadline_ms - self._clock.monotonic_ms())
            if records := await self.poll(max(0, left_ms)):
                self.iterated = self._progress.each(records)
                return True
            if deadline_ms is not None and self._clock.monotonic_ms() >= deadline_ms:
                return False

    # --- commits ----------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, each the next one to read; without any, those after the records returned so far.

        Waits for earlier commits. Raises CommitFailed if a partition may belong to another member of the group by now,
        SubscriptionConflict without group.id, ValueError for a number that is not an offset, and the reason if the
        commit does not succeed within the timeout.
        """
        group = self._with_group("commit")
        await group.commit(self.engine(), self._to_commit(offsets), self._deadline(timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_done: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object] | None = None,
    ) -> asyncio.Task[None]:
        """Commit in the background, after earlier commits. `on_done` gets the offsets, and an error or None."""
        group = self._with_group("commit_async")
        return group.commit_later(self.engine(), self._to_commit(offsets), on_done)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offset that the group has committed last for each partition; None without one."""
        group = self._with_group("committed")
        asked = checked_partitions(partitions)
        found = await group.committed(self.engine(), asked, self._deadline(timeout_ms))
        return {partition: found.get(partition) for partition in asked}

    def group_metadata(self) -> GroupMetadata:
        """Return the membership, for `send_offsets_to_transaction`. Raises CommitFailed if subscribed and no member."""
        return self._with_group("group_metadata").metadata()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit` commits by default: for each partition, the offset after the records returned so far."""
        return self._with_group("consumed").consumed()

    def _to_commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._with_group("commit").consumed() if offsets is None else checked_offsets(offsets)

    def _with_group(self, call: str) -> Group:
        if self._group is None:
            raise needs_group(call)
        if self._is_closed:
            raise ClientClosed(f"{call}: the consumer is closed")
        return self._group

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
                for part in self.decoded(partition, chunk, start, end):
                    yield part

    async def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the same range as record batches in their stored form; the first and the last may exceed it.

        With isolation.level=read_committed, batches of aborted transactions are left out.
        """
        async with aclosing(self.read_chunks(partition, start, end, timeout_ms)) as chunks:
            async for chunk in chunks:
                for _, batch, is_aborted in split_batches(chunk.records, start, end, chunk.aborted):
                    if not is_aborted:
                        yield bytes(batch)

    async def read_chunks(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the same range as responses of the leader."""
        if start >= end:
            return
        async with aclosing(self.engine().read_chunks(partition, start, end, self._timeout(timeout_ms))) as found:
            async for chunk in found:
                yield chunk

    def decoded(self, partition: TopicPartition, chunk: Chunk, start: int, end: int) -> Iterator[PartitionColumns]:
        """Yield the columns of a response to `read_chunks`, in any thread. Raises InvalidBatch."""
        check_crcs = self._settings.check_crcs
        return decode_columns(partition, chunk.records, start, end, check_crcs=check_crcs, aborted=chunk.aborted)

    # --- about partitions -------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partitions of the topic: cached ones, refreshed every metadata.max.age.ms.

        A topic that was deleted after it was cached is still returned. Raises a Refusal that names a topic that is
        neither cached nor exists, or Unreachable.
        """
        metadata = await self.engine().metadata.topic(topic, self._timeout(timeout_ms))
        return sorted(each.partition for each in metadata.partitions)

    async def topics(self, timeout_ms: int | None = None) -> list[str]:
        """Return the names of all topics, sorted."""
        request = MetadataRequest(topics=[], all_topics=True)
        response = await self.engine().metadata.fetch(request, self._timeout(timeout_ms))
        return sorted(topic.topic for topic in response.topics if topic.error_code is ErrorCode.NONE)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        return await self._offsets_at(EARLIEST_TIMESTAMP, partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each partition.

        It is the high watermark, or the last stable offset with isolation.level=read_committed.
        """
        return await self._offsets_at(LATEST_TIMESTAMP, partitions, timeout_ms)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp; None if all records are older."""
        for partition, timestamp_ms in checked_mapping(timestamps_ms, "timestamp").items():
            if timestamp_ms < MAX_TIMESTAMP:
                raise ValueError(f"{partition}: {timestamp_ms} is not a timestamp")
        found = await self.engine().lookup.find(timestamps_ms, self._timeout(timeout_ms))
        return {
            partition: OffsetAndTimestamp(result.offset, result.timestamp_ms) if result.offset >= 0 else None
            for partition, result in found.items()
        }

    async def _offsets_at(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(checked_partitions(partitions), timestamp_ms)
        found = await self.engine().lookup.find(asked, self._timeout(timeout_ms)) if asked else {}
        return {partition: result.offset for partition, result in found.items()}

    # --- inside -----------------------------------------------------------------------------------------------

    def _timeout(self, timeout_ms: int | None) -> int:
        return self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _deadline(self, timeout_ms: int | None) -> int:
        return self._clock.monotonic_ms() + checked_number("timeout_ms", self._timeout(timeout_ms))

    def engine(self) -> Engine:
        """Return the connections and tasks, opened at first use. Raises ClientClosed."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._engine is None:
            start_offsets = None if self._group is None else self._group.start_offsets
            self._engine = engine = Engine(self._buffer, self._settings, self._network, start_offsets)
            engine.when_dropped = close_when_dropped(self, partial(close_dropped, engine, self._group, self._clock))
        return self._engine

    def _wake_up(self) -> None:
        if self._engine is not None:
            self._engine.fetcher.wake_up()
