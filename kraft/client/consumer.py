"""The consumer for threads: a face of `kraft.client.aio.consumer.Consumer` on the process's event loop thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from kraft.client.aio.consumer import Consumer as AsyncConsumer
from kraft.client.batches import decode_columns, split_batches
from kraft.client.loop_thread import LoopThread, shared_loop
from kraft.client.network import Network
from kraft.client.settings import DEFAULT_BOOTSTRAP_SERVERS
from kraft.client.values import ConsumerRecord, OffsetAndTimestamp, PartitionColumns
from kraft.model.ids import TopicPartition

Result = TypeVar("Result")


class Consumer:
    """As the asynchronous one. May be used from any thread, one call at a time, but not across a fork."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        network: Network | None = None,
        **settings: Any,
    ) -> None:
        self._consumer = AsyncConsumer(bootstrap_servers, network=network, **settings)
        self._thread: LoopThread = shared_loop()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """May be called again."""
        if self._thread.is_of_this_process():
            self._thread.run(self._consumer.close())

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(self, *arguments: object, **named: object) -> None:
        """Raises NotBuiltYet: it needs consumer groups."""
        self._consumer.subscribe(*arguments, **named)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces what was assigned. Partitions that stay keep their position."""
        chosen = list(partitions)
        self._on_loop(lambda: self._consumer.assign(chosen))

    def assignment(self) -> list[TopicPartition]:
        return self._on_loop(self._consumer.assignment)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll begins there. Raises ValueError for a partition that is not assigned."""
        self._on_loop(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """To the first offset there is when it is needed; all assigned partitions when none is named."""
        self._on_loop(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record at the time of the next poll; all assigned partitions when none is named."""
        self._on_loop(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetches no more of these until `resume`; what is at hand is still handed out."""
        self._on_loop(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._on_loop(lambda: self._consumer.resume(*partitions))

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that poll hands out. Raises what kept it from being found."""
        return self._thread.run(self._consumer.position(partition, timeout_ms))

    # --- reading ----------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records as soon as there are any, at most `max_records` (max.poll.records); none when time is up."""
        return self._thread.run(self._consumer.poll(timeout_ms, max_records))

    def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """As `poll`, as columns and whole batches, which is many times quicker; without `max_records`, all at hand."""
        return self._thread.run(self._consumer.poll_batches(timeout_ms, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Every record, for ever."""
        while True:
            yield from self.poll()

    # --- ranges -----------------------------------------------------------------------------------------------

    def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[PartitionColumns]:
        """Everything from offset `start` to before `end`, batch by batch, apart from what is assigned.

        Batches are unpacked in the calling thread while the next ones are fetched. Raises OFFSET_OUT_OF_RANGE when
        `start` is no longer there, and REQUEST_TIMED_OUT when nothing came for `timeout_ms`.
        """
        check_crcs = self._consumer.settings.check_crcs
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            yield from decode_columns(partition, chunk, start, end, check_crcs=check_crcs)

    def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[bytes]:
        """The same as record batches as they lie on disk; the first and last may hold offsets outside the range."""
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            for _, batch in split_batches(chunk, start, end):
                yield bytes(batch)

    # --- about partitions -------------------------------------------------------------------------------------

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Partitions of the topic. Raises a Refusal that names it when it does not exist, or Unreachable."""
        return self._thread.run(self._consumer.partitions_for(topic, timeout_ms))

    def topics(self, timeout_ms: int | None = None) -> list[str]:
        """Names of all topics."""
        return self._thread.run(self._consumer.topics(timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that each still holds."""
        return self._thread.run(self._consumer.beginning_offsets(list(partitions), timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The high watermark of each: the offset behind its last readable record."""
        return self._thread.run(self._consumer.end_offsets(list(partitions), timeout_ms))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each at or after its time; None when there is none that young."""
        return self._thread.run(self._consumer.offsets_for_times(dict(timestamps_ms), timeout_ms))

    def _on_loop(self, call: Callable[[], Result]) -> Result:
        async def run() -> Result:
            return call()

        return self._thread.run(run())
