"""Synchronous consumer: runs `kraft.client.aio.consumer.Consumer` on the event loop thread of the process."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from kraft.client.aio.consumer import CLOSE_TIMEOUT_MS
from kraft.client.aio.consumer import Consumer as AsyncConsumer
from kraft.client.bulk.arrow_chunks import ArrowChunk, arrow_chunks
from kraft.client.bulk.range_reader import RangeReader
from kraft.client.bulk.sockets import FetchSockets
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import checked_partitions
from kraft.client.model.settings import LOCAL_BROKER
from kraft.client.model.subscription import listed_topics
from kraft.client.model.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionColumns,
)
from kraft.client.sans_io.batches import split_batches
from kraft.client.threads.loop_thread import CallingThread, LoopThread, shared_loop
from kraft.client.threads.ordinary_path import OrdinaryPath
from kraft.log.format.arrow_columns import WantedColumns
from kraft.model.ids import TopicPartition

Result = TypeVar("Result")

SyncCallback: TypeAlias = Callable[[list[TopicPartition]], object]


class Consumer:
    """Synchronous consumer; see `kraft.client.aio.Consumer` for what it does and raises.

    May be used from any thread, one call at a time, but not in a forked process that did not create it.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create a consumer; `settings` are the fields of `kraft.client.model.settings.ConsumerSettings`.

        Raises InvalidSetting.
        """
        network = network or Network()
        self._consumer = AsyncConsumer(bootstrap_servers, network=network, **settings)
        self._sockets = FetchSockets(self._consumer.settings.client_id, network.clock)
        self._thread: LoopThread = shared_loop()
        self._caller = CallingThread(self._thread)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(only_processed=error is not None)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, only_processed: bool = False) -> None:
        """Commit if enable.auto.commit, leave the group, and close the connections, all within `timeout_ms`.

        `only_processed`: commit nothing of what the last poll returned, or the iteration yielded last, as after an
        error. A callback for revoked partitions is called before the consumer leaves. May be called more than once.
        """
        self._sockets.close()
        if self._thread.is_of_this_process():
            self._caller.run(self._consumer.close(timeout_ms, only_processed=only_processed))

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: SyncCallback | None = None,
        on_revoked: SyncCallback | None = None,
        on_lost: SyncCallback | None = None,
    ) -> None:
        """Read the partitions of these topics that the group gives to this consumer; replaces what was subscribed to.

        See `kraft.client.aio.Consumer.subscribe`. Callbacks run in the thread that polls, and may use this consumer.
        """
        chosen = listed_topics(topics)
        assigned, revoked, lost = (
            None if each is None else self._caller.callback(each) for each in (on_assigned, on_revoked, on_lost)
        )
        self._on_loop(
            lambda: self._consumer.subscribe(
                chosen, pattern=pattern, on_assigned=assigned, on_revoked=revoked, on_lost=lost
            )
        )

    def subscription(self) -> list[str]:
        """Return the topics that the consumer subscribes to by name, sorted."""
        return self._on_loop(self._consumer.subscription)

    def unsubscribe(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if enable.auto.commit, leave the group within `timeout_ms`, and read nothing."""
        self._caller.run(self._consumer.unsubscribe(timeout_ms))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their position.

        Raises SubscriptionConflict after `subscribe`.
        """
        chosen = checked_partitions(partitions)
        self._on_loop(lambda: self._consumer.assign(chosen))

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._on_loop(self._consumer.assignment)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset that the next poll reads from. Raises ValueError for a partition that is not assigned."""
        self._on_loop(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset, looked up at the next poll; all assigned partitions if none is given."""
        self._on_loop(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end (see `end_offsets`), looked up at the next poll; all assigned partitions if none is given."""
        self._on_loop(lambda: self._consumer.seek_to_end(*partitions))

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Move to the first record at or after the timestamp, or to the end if all are older.

        Looked up at the next poll; all assigned partitions if none is given.
        """
        self._on_loop(lambda: self._consumer.seek_to_timestamp(timestamp_ms, *partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Neither fetch nor return records of these partitions until `resume`."""
        self._on_loop(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch and return records of these partitions again."""
        self._on_loop(lambda: self._consumer.resume(*partitions))

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return self._on_loop(self._consumer.paused)

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned. Raises the error that prevents reading."""
        return self._thread.run(self._consumer.position(partition, timeout_ms))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the offsets between the position and the end that was fetched last; None before a fetch."""
        return self._on_loop(lambda: self._consumer.lag(partition))

    # --- reading ----------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are any: at most `max_records` (default max.poll.records), [] on timeout."""
        return self._read(lambda: self._consumer.poll(timeout_ms, max_records))

    def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """Return records as columns, many times faster than `poll`; no limit without `max_records`."""
        return self._read(lambda: self._consumer.poll_batches(timeout_ms, max_records))

    def __iter__(self) -> Consumer:
        """Iterate over records, without end unless consumer.timeout.ms is set."""
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            for record in self._consumer.iterated:
                return record
            if not self._read(self._consumer.poll_for_iteration):
                raise StopIteration

    def _read(self, poll: Callable[[], Awaitable[Result]]) -> Result:
        """Run a poll. If the caller is interrupted, as by Ctrl-C, the next poll returns its records."""
        has_taken = is_interrupted = False

        async def take() -> Result:
            nonlocal has_taken
            found = await poll()
            has_taken = True
            take_back_unless_got()
            return found

        def take_back_unless_got() -> None:
            if has_taken and is_interrupted:
                self._consumer.take_back()

        try:
            return self._caller.run(take())
        except BaseException:
            is_interrupted = True
            if self._thread.is_of_this_process():
                # The loop does this after the poll or its cancellation, even if the caller is interrupted again.
                self._thread.call_soon(take_back_unless_got)
                self._on_loop(lambda: None)
            raise

    # --- commits ----------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, each the next one to read; without any, those after the records returned so far.

        Waits for earlier commits. Raises CommitFailed if a partition may belong to another member of the group by now,
        SubscriptionConflict without group.id, and the reason if the commit does not succeed within the timeout.
        """
        self._thread.run(self._consumer.commit(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_done: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object] | None = None,
    ) -> None:
        """Commit in the background, after earlier commits.

        `on_done` gets the offsets, and an error or None. It runs in the thread of the clients' event loop, so that it
        must neither take long nor use this consumer.
        """
        self._on_loop(lambda: self._consumer.commit_async(offsets, on_done))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offset that the group has committed last for each partition; None without one."""
        return self._thread.run(self._consumer.committed(checked_partitions(partitions), timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """Return the membership, for `send_offsets_to_transaction`. Raises CommitFailed if subscribed and no member."""
        return self._on_loop(self._consumer.group_metadata)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit` commits by default: for each partition, the offset after the records returned so far."""
        return self._on_loop(self._consumer.consumed)

    # --- ranges -----------------------------------------------------------------------------------------------

    def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[PartitionColumns]:
        """Yield everything from offset `start` up to `end`, excluded, batch by batch; independent of the assignment.

        Batches are decoded in the calling thread while the next ones are fetched. Raises OFFSET_OUT_OF_RANGE if `start`
        was deleted, and REQUEST_TIMED_OUT if nothing arrives for `timeout_ms`.
        """
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            yield from self._consumer.decoded(partition, chunk, start, end)

    def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[bytes]:
        """Yield the same range as record batches in their stored form; the first and the last may exceed it.

        With isolation.level=read_committed, batches of aborted transactions are left out.
        """
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            for _, batch, is_aborted in split_batches(chunk.records, start, end, chunk.aborted):
                if not is_aborted:
                    yield bytes(batch)

    def read_arrow(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        wanted: WantedColumns | None = None,
        timeout_ms: int | None = None,
    ) -> Iterator[ArrowChunk]:
        """Yield the same range as Arrow's buffers of the wanted columns, many times faster than `read_columns`.

        Record batches come straight from the listener of Kafka's protocol of the partition's leader, and over gRPC
        where that is not possible. Raises as `read_columns`.
        """
        settings = self._consumer.settings
        reader = RangeReader(
            OrdinaryPath(self._thread, self._consumer, timeout_ms),
            self._sockets,
            partition,
            max_wait_ms=settings.fetch_max_wait_ms,
            reads_committed=settings.reads_committed,
            bytes_max=settings.fetch_max_bytes,
        )
        fetched = reader.read(start, end)
        return arrow_chunks(partition, fetched, start, end, wanted or WantedColumns(), check_crcs=settings.check_crcs)

    # --- about partitions -------------------------------------------------------------------------------------

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partitions of the topic: cached ones, refreshed every metadata.max.age.ms.

        A topic that was deleted after it was cached is still returned. Raises a Refusal that names a topic that is
        neither cached nor exists, or Unreachable.
        """
        return self._thread.run(self._consumer.partitions_for(topic, timeout_ms))

    def topics(self, timeout_ms: int | None = None) -> list[str]:
        """Return the names of all topics, sorted."""
        return self._thread.run(self._consumer.topics(timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        return self._thread.run(self._consumer.beginning_offsets(checked_partitions(partitions), timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each partition.

        It is the high watermark, or the last stable offset with isolation.level=read_committed.
        """
        return self._thread.run(self._consumer.end_offsets(checked_partitions(partitions), timeout_ms))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp; None if all records are older."""
        return self._thread.run(self._consumer.offsets_for_times(timestamps_ms, timeout_ms))

    def _on_loop(self, call: Callable[[], Result]) -> Result:
        async def run() -> Result:
            return call()

        return self._thread.run(run())
