"""Synchronous consumer: runs `kraft.client.aio.consumer.Consumer` on the event loop thread of the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from kraft.client.aio.commits import Done
from kraft.client.aio.consumer import CLOSE_TIMEOUT_MS
from kraft.client.aio.consumer import Consumer as AsyncConsumer
from kraft.client.aio.range_reads import decoded, read_chunks
from kraft.client.bulk.arrow_chunks import ArrowChunk, arrow_chunks
from kraft.client.bulk.range_reader import RangeReader
from kraft.client.bulk.sockets import FetchSockets
from kraft.client.cluster.network import Network
from kraft.client.model.settings import LOCAL_BROKER
from kraft.client.model.subscription import listed_topics
from kraft.client.model.values import ConsumerRecord, OffsetAndMetadata, PartitionColumns
from kraft.client.sans_io.batches import split_batches
from kraft.client.threads.client import ThreadClient, on_loop, waiting
from kraft.client.threads.loop_thread import CallingThread
from kraft.client.threads.ordinary_path import OrdinaryPath
from kraft.log.format.arrow_columns import WantedColumns
from kraft.model.callbacks import AsyncCall
from kraft.model.ids import TopicPartition

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

SyncCallback: TypeAlias = Callable[[list[TopicPartition]], object]


def _reading(
    poll: Callable[Concatenate[AsyncConsumer, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Consumer, Parameters], Result]:
    """Return the blocking form of a poll, whose records the next one returns if its caller is interrupted."""

    @wraps(poll)
    def read(consumer: Consumer, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return consumer._read(lambda: poll(consumer._client, *args, **kwargs))

    return read


class Consumer(ThreadClient[AsyncConsumer]):
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
        super().__init__(AsyncConsumer(bootstrap_servers, network=network, **settings))
        used = self._client.settings
        self._sockets = FetchSockets(used.client_id, network.clock, used.security)
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
            self._caller.run(partial(self._client.close, timeout_ms, only_processed=only_processed))

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
            lambda: self._client.subscribe(
                chosen, pattern=pattern, on_assigned=assigned, on_revoked=revoked, on_lost=lost
            )
        )

    subscription = on_loop(AsyncConsumer.subscription)

    def unsubscribe(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if enable.auto.commit, leave the group within `timeout_ms`, and read nothing."""
        self._caller.run(partial(self._client.unsubscribe, timeout_ms))

    assign = on_loop(AsyncConsumer.assign)
    assignment = on_loop(AsyncConsumer.assignment)
    seek = on_loop(AsyncConsumer.seek)
    seek_to_beginning = on_loop(AsyncConsumer.seek_to_beginning)
    seek_to_end = on_loop(AsyncConsumer.seek_to_end)
    seek_to_timestamp = on_loop(AsyncConsumer.seek_to_timestamp)
    pause = on_loop(AsyncConsumer.pause)
    resume = on_loop(AsyncConsumer.resume)
    paused = on_loop(AsyncConsumer.paused)
    position = waiting(AsyncConsumer.position)
    lag = on_loop(AsyncConsumer.lag)

    # --- reading ----------------------------------------------------------------------------------------------

    poll = _reading(AsyncConsumer.poll)
    poll_batches = _reading(AsyncConsumer.poll_batches)
    poll_stored = waiting(AsyncConsumer.poll_stored)

    def __iter__(self) -> Consumer:
        """Iterate over records, without end unless consumer.timeout.ms is set."""
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            for record in self._client.iterated:
                return record
            if not self._read(self._client.poll_for_iteration):
                raise StopIteration

    def _read(self, poll: AsyncCall[Result]) -> Result:
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
                self._client.take_back()

        try:
            return self._caller.run(take)
        except BaseException:
            is_interrupted = True
            if self._thread.is_of_this_process():
                # The loop does this after the poll or its cancellation, even if the caller is interrupted again.
                self._thread.call_soon(take_back_unless_got)
                self._on_loop(lambda: None)
            raise

    # --- commits ----------------------------------------------------------------------------------------------

    commit = waiting(AsyncConsumer.commit)
    committed = waiting(AsyncConsumer.committed)
    group_metadata = on_loop(AsyncConsumer.group_metadata)
    consumed = on_loop(AsyncConsumer.consumed)

    def commit_async(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None, on_done: Done | None = None
    ) -> None:
        """Commit in the background, after earlier commits.

        `on_done` gets the offsets, and an error or None. It runs in the thread of the clients' event loop, so that it
        must neither take long nor use this consumer.
        """
        self._on_loop(lambda: self._client.commit_async(offsets, on_done))

    # --- ranges -----------------------------------------------------------------------------------------------

    def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[PartitionColumns]:
        """Yield everything from offset `start` up to `end`, excluded, batch by batch; independent of the assignment.

        Batches are decoded in the calling thread while the next ones are fetched. Raises OFFSET_OUT_OF_RANGE if `start`
        was deleted, and REQUEST_TIMED_OUT if nothing arrives for `timeout_ms`.
        """
        for chunk in self._thread.iterate(read_chunks(self._client, partition, start, end, timeout_ms)):
            yield from decoded(self._client, partition, chunk, start, end)

    def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[bytes]:
        """Yield the same range as record batches in their stored form; the first and the last may exceed it.

        With isolation.level=read_committed, batches of aborted transactions are left out.
        """
        for chunk in self._thread.iterate(read_chunks(self._client, partition, start, end, timeout_ms)):
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
        settings = self._client.settings
        reader = RangeReader(
            OrdinaryPath(self._thread, self._client, timeout_ms),
            self._sockets,
            partition,
            max_wait_ms=settings.fetch_max_wait_ms,
            reads_committed=settings.reads_committed,
            bytes_max=settings.fetch_max_bytes,
        )
        fetched = reader.read(start, end)
        return arrow_chunks(partition, fetched, start, end, wanted or WantedColumns(), check_crcs=settings.check_crcs)

    # --- about partitions -------------------------------------------------------------------------------------

    partitions_for = waiting(AsyncConsumer.partitions_for)
    topics = waiting(AsyncConsumer.topics)
    beginning_offsets = waiting(AsyncConsumer.beginning_offsets)
    end_offsets = waiting(AsyncConsumer.end_offsets)
    offsets_for_times = waiting(AsyncConsumer.offsets_for_times)
