"""Synchronous consumer: runs `kraft.client.aio.consumer.Consumer` on the event loop thread of the process."""

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
    """Synchronous consumer; see `kraft.client.aio.Consumer` for what it does and raises.

    May be used from any thread, one call at a time, but not in a forked process that did not create it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        network: Network | None = None,
        **settings: Any,
    ) -> None:
        """Create a consumer; `settings` are the fields of ConsumerSettings. Raises InvalidSetting."""
        self._consumer = AsyncConsumer(bootstrap_servers, network=network, **settings)
        self._thread: LoopThread = shared_loop()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop fetching and close the connections. May be called more than once."""
        if self._thread.is_of_this_process():
            self._thread.run(self._consumer.close())

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(self, *arguments: object, **named: object) -> None:
        """Raise NotSupportedYet: consumer groups are not supported yet."""
        self._consumer.subscribe(*arguments, **named)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their position."""
        chosen = list(partitions)
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
        """Move to the high watermark, looked up at the next poll; all assigned partitions if none is given."""
        self._on_loop(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching these partitions until `resume`. Polls still return what was fetched before."""
        self._on_loop(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch these partitions again."""
        self._on_loop(lambda: self._consumer.resume(*partitions))

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that poll returns. Raises the error that prevents reading."""
        return self._thread.run(self._consumer.position(partition, timeout_ms))

    # --- reading ----------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are any: at most `max_records` (default max.poll.records), [] on timeout."""
        return self._thread.run(self._consumer.poll(timeout_ms, max_records))

    def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """Return records as columns, many times faster than `poll`; no limit without `max_records`."""
        return self._thread.run(self._consumer.poll_batches(timeout_ms, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records without end."""
        while True:
            yield from self.poll()

    # --- ranges -----------------------------------------------------------------------------------------------

    def read_columns(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[PartitionColumns]:
        """Yield everything from offset `start` up to `end`, excluded, batch by batch; independent of the assignment.

        Batches are decoded in the calling thread while the next ones are fetched. Raises OFFSET_OUT_OF_RANGE if `start`
        was deleted, and REQUEST_TIMED_OUT if nothing arrives for `timeout_ms`.
        """
        check_crcs = self._consumer.settings.check_crcs
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            yield from decode_columns(partition, chunk, start, end, check_crcs=check_crcs)

    def read_batches(
        self, partition: TopicPartition, start: int, end: int, timeout_ms: int | None = None
    ) -> Iterator[bytes]:
        """Yield the same range as record batches in their stored form; the first and the last may exceed it."""
        for chunk in self._thread.iterate(self._consumer.read_chunks(partition, start, end, timeout_ms)):
            for _, batch in split_batches(chunk, start, end):
                yield bytes(batch)

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
        return self._thread.run(self._consumer.beginning_offsets(list(partitions), timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition: the offset after its last readable record."""
        return self._thread.run(self._consumer.end_offsets(list(partitions), timeout_ms))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp; None if all records are older."""
        return self._thread.run(self._consumer.offsets_for_times(dict(timestamps_ms), timeout_ms))

    def _on_loop(self, call: Callable[[], Result]) -> Result:
        async def run() -> Result:
            return call()

        return self._thread.run(run())
