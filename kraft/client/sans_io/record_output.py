"""Takes fetched records out of a consumer's states, in turns, and advances the positions."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator

from msgspec.structs import replace

from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import PartitionColumns
from kraft.client.sans_io.batches import StoredBatch, decode_columns, stored_batches
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.client.sans_io.partition_state import FetchedChunk, PartitionState
from kraft.log.format.record_codec import RecordColumns
from kraft.model.errors import InvalidBatch
from kraft.model.ids import TopicPartition


class RecordOutput:
    """The records of the assigned partitions, for polls."""

    def __init__(self, buffer: FetchBuffer, settings: ConsumerSettings) -> None:
        self._buffer = buffer
        self._settings = settings
        self._turns: deque[TopicPartition] = deque()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment of the buffer, and the order of turns."""
        chosen = list(dict.fromkeys(partitions))
        self._buffer.assign(chosen)
        self._turns = deque(chosen)

    @property
    def assigned(self) -> list[TopicPartition]:
        return [state.partition for state in self._buffer.states]

    @property
    def states(self) -> list[PartitionState]:
        return self._buffer.states

    def take(self, max_records: int | None, held: Container[TopicPartition] = ()) -> Iterator[PartitionColumns]:
        """Yield parts of at most `max_records` together, partition by partition, and advance the positions.

        Held partitions are left out, as paused ones are.
        A part may be empty: of a batch that has no records for a reader, or none left after a compaction.
        """
        left = max_records
        for _ in range(len(self._turns)):
            state = self._buffer.state(self._turns[0])
            is_left_out = state.is_paused or state.partition in held
            while not is_left_out and (left is None or left > 0):
                part = self._next_part(state, left)
                if part is None:
                    break
                yield part
                left = None if left is None else left - len(part.columns.offsets)
            if left == 0:
                # The next poll begins with the next partition, so that a busy one does not starve the others.
                self._turns.rotate(-1)
                return
            self._turns.rotate(-1)

    def take_stored(self) -> Iterator[StoredBatch]:
        """Yield whole batches instead, as the leaders store them, of all that was fetched; advance the positions."""
        for partition in self._turns:
            state = self._buffer.state(partition)
            while not state.is_paused and state.position is not None:
                chunk = self._buffer.take_chunk(state)
                if chunk is None:
                    break
                start, state.position = state.position, chunk.next_offset
                yield from stored_batches(partition, chunk, start)

    def _next_part(self, state: PartitionState, records_max: int | None) -> PartitionColumns | None:
        ready = state.ready
        while not ready:
            chunk = self._buffer.take_chunk(state)
            if chunk is None or state.position is None:
                return None
            self._decode(state, chunk, state.position)
        part = ready.popleft()
        if records_max is not None and len(part.columns.offsets) > records_max:
            part, rest = _cut(part, records_max)
            ready.appendleft(rest)
        state.position = part.next_offset
        return part

    def _decode(self, state: PartitionState, chunk: FetchedChunk, start: int) -> None:
        """Decode a chunk into `ready`. Records before corrupt bytes are kept; after them, poll raises."""
        check_crcs = self._settings.check_crcs
        parts = decode_columns(state.partition, chunk.records, start, check_crcs=check_crcs, aborted=chunk.aborted)
        try:
            state.ready.extend(parts)
        except InvalidBatch as error:
            self._buffer.fail(state.partition, error)


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
