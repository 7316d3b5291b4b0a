"""Takes fetched records out of a consumer's tracks, in turns, and advances the positions."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator

from msgspec.structs import replace

from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import PartitionColumns
from kraft.client.sans_io.batches import decode_columns
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.client.sans_io.track import Chunk, Track
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
        return [track.partition for track in self._buffer.tracks]

    @property
    def tracks(self) -> list[Track]:
        return self._buffer.tracks

    def take(self, max_records: int | None, held: Container[TopicPartition] = ()) -> Iterator[PartitionColumns]:
        """Yield parts of at most `max_records` together, partition by partition, and advance the positions.

        Held partitions are left out, as paused ones are.
        A part may be empty: of a batch that has no records for a reader, or none left after a compaction.
        """
        left = max_records
        for _ in range(len(self._turns)):
            track = self._buffer.track(self._turns[0])
            is_left_out = track.is_paused or track.partition in held
            while not is_left_out and (left is None or left > 0):
                part = self._next_part(track, left)
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
        check_crcs = self._settings.check_crcs
        parts = decode_columns(track.partition, chunk.records, start, check_crcs=check_crcs, aborted=chunk.aborted)
        try:
            track.ready.extend(parts)
        except InvalidBatch as error:
            self._buffer.fail(track.partition, error)


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
