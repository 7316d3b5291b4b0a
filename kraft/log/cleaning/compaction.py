"""Compaction: the newest record of each key is kept.

A cleaning reads the dirty part to find the newest offset of each key, then rewrites both parts without the records that
have a newer one. Offsets never change, so gaps remain.

A tombstone, a record without a value, deletes its key. Consumers have to see it before it is removed itself: the first
cleaning that reads it writes a delete horizon, `delete.retention.ms` later, into its batch, and the first cleaning
after that time drops it (KIP-534).

The records of aborted transactions are dropped and replace nothing; the marker of a transaction goes, after a delete
horizon, once nothing of the transaction is left.

The rules are those of Kafka's Cleaner.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import compress
from operator import eq
from typing import Final

from kraft.log.cleaning.cleaned_segments import CleanedGroup, CleaningResult
from kraft.log.cleaning.cleaned_transactions import CleanedTransactions
from kraft.log.cleaning.cleaning_plan import CleaningPlan
from kraft.log.cleaning.offset_map import OffsetMap
from kraft.log.cleaning.segment_swap import cleaned_path
from kraft.log.disk import Disk, File
from kraft.log.format.control_record import marker_in
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    check_crc,
    decode_batch_columns,
    read_header,
    rebuild_batch,
)
from kraft.log.format.record_codec import RecordColumns
from kraft.log.segment.aborted_index import AbortedEntries
from kraft.log.segment.segment import RELATIVE_OFFSET_MAX
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.segment.time_index import TimeIndex
from kraft.log.topic_config import NEVER, SEGMENT_BYTES_MAX, TopicConfig
from kraft.model.callbacks import CountBytes
from kraft.model.errors import Corruption, InvalidBatch, KraftError
from kraft.model.ids import Offset

_BUFFER_BYTES: Final = 256 << 10
"""Bytes read or written at a time, so that progress is reported often enough to throttle by."""


NO_RECORDS: Final = RecordColumns(offsets=[], timestamps_ms=[], keys=[], values=[], headers=[])


class CleaningAborted(KraftError):
    """The caller stopped the cleaning, or the log changed meanwhile. The cleaning has changed nothing."""


class OffsetMapTooSmall(KraftError):
    """The keys of a single batch do not fit, so this log cannot be cleaned with this little memory."""


def clean(
    disk: Disk,
    directory: str,
    plan: CleaningPlan,
    config: TopicConfig,
    now_ms: int,
    map_bytes_max: int,
    active_producers: Mapping[int, int],
    on_progress: CountBytes,
    aborted: Sequence[AbortedEntries],
) -> CleaningResult:
    """Write the cleaned groups of the plan beside the log. Only reads the log, so it may run in any thread.

    Memory is bounded by `map_bytes_max`, two buffers, the largest batch, and the aborted transactions of a segment.
    `active_producers` maps each producer id in the log's producer state to the last offset of its last batch, or of its
    marker if there is no batch: that batch is kept, even without records, because it holds the producer's sequence and
    epoch. `aborted` has the aborted transactions of the plan's segments and of all later ones. `on_progress` is called
    with the number of bytes read or written, a few hundred thousand at a time; it may wait, to throttle, and may raise
    CleaningAborted.

    Raises Corruption, OffsetMapTooSmall, OSError, and CleaningAborted also if a segment is gone. No file is left behind
    after an exception.
    """
    cleaning = _Cleaning(
        disk, directory, plan, config, now_ms, OffsetMap(map_bytes_max), active_producers, on_progress, aborted
    )
    try:
        return cleaning.run()
    except BaseException as failure:
        cleaning.remove_files(failure)
        raise


class _Cleaning:
    """One cleaning of one log."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        plan: CleaningPlan,
        config: TopicConfig,
        now_ms: int,
        offset_map: OffsetMap,
        active_producers: Mapping[int, int],
        on_progress: CountBytes,
        aborted: Sequence[AbortedEntries],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._aborted = aborted
        self._transactions = CleanedTransactions(aborted)
        self._plan = plan
        self._config = config
        self._now_ms = now_ms
        self._map = offset_map
        self._active_producers = active_producers
        self._on_progress = on_progress
        self._paths: list[str] = []
        self._end_offset = plan.dirty_offset
        self._growth_left = 0
        self._records_read = self._records_kept = self._batches_unreadable = self._bytes_kept = 0

    def run(self) -> CleaningResult:
        self._end_offset = self._fill_map()
        if self._end_offset == self._plan.dirty_offset:
            raise OffsetMapTooSmall(
                f"the keys of the batch at offset {self._end_offset} in {self._directory} do not fit into the "
                "offset map: raise log.cleaner.dedupe.buffer.size and restart the node"
            )
        segments = [segment for segment in self._plan.segments if segment.base_offset < self._end_offset]
        groups = [self._clean_group(group) for group in group_segments(segments, self._config)]
        return CleaningResult(
            groups=tuple(group for group in groups if group is not None),
            end_offset=self._end_offset,
            records_read=self._records_read,
            records_kept=self._records_kept,
            batches_unreadable=self._batches_unreadable,
            bytes_read=sum(segment.size_bytes for segment in segments),
            bytes_kept=self._bytes_kept,
            map_keys=len(self._map),
            map_bytes=self._map.size_bytes,
        )

    def remove_files(self, failure: BaseException) -> None:
        for path in self._paths:
            try:
                self._disk.remove(path)
            except OSError as error:
                failure.add_note(f"{path} could not be removed: {error}")

    # --- first pass: newest offset of each key ---------------------------------------------------------------

    def _fill_map(self) -> Offset:
        """Read the dirty part, or as much as fits into the map, and return where that ends: between two batches."""
        end_offset = self._plan.dirty_offset
        transactions = CleanedTransactions(self._aborted)
        for segment in self._plan.segments:
            if segment.end_offset <= end_offset:
                continue
            with closing(self._batches(segment, transactions)) as batches:
                for header, batch in batches:
                    if header.last_offset < end_offset:
                        continue
                    if header.is_control:
                        transactions.needs_marker(header, marker_in(header, batch))
                    elif not transactions.is_aborted(header) and not self._put(batch):
                        return end_offset
                    end_offset = header.next_offset
            end_offset = segment.end_offset
        return end_offset

    def _put(self, batch: memoryview) -> bool:
        columns = _decoded(batch)
        return columns is None or self._map.put_all(columns.keys, columns.offsets)

    # --- second pass: records to keep ------------------------------------------------------------------------

    def _clean_group(self, segments: Sequence[SegmentFacts]) -> CleanedGroup | None:
        """Write the group's cleaned file. Returns None for a single segment that lost nothing."""
        path = cleaned_path(self._directory, segments[0].base_offset)
        self._growth_left = SEGMENT_BYTES_MAX - sum(segment.size_bytes for segment in segments)
        is_changed = len(segments) > 1
        with _Output(self._disk, path, self._on_progress, self._paths) as output:
            for segment in segments:
                with closing(self._batches(segment, self._transactions)) as batches:
                    for header, batch in batches:
                        kept = self._kept(header, batch)
                        is_changed = is_changed or kept is not batch
                        if kept is not None:
                            output.add(kept)
            output.finish()
        self._bytes_kept += output.size
        aborted = self._transactions.take_kept()
        if is_changed:
            return CleanedGroup(replaced=tuple(segments), path=path, size_bytes=output.size, aborted=aborted)
        self._disk.remove(path)
        self._paths.remove(path)
        return None

    def _kept(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return what is kept of a batch: the same object if it does not change, a rebuilt batch, or None."""
        if header.is_control:
            return self._kept_marker(header, batch)
        is_aborted = self._transactions.is_aborted(header)
        if header.base_offset >= self._end_offset:
            return batch
        if is_aborted:
            self._records_read += header.record_count
            return self._emptied(header, batch)
        columns = _decoded(batch)
        if columns is None:
            self._batches_unreadable += 1
            return batch
        kept, delete_horizon_ms = self._kept_records(header, columns)
        self._records_read += len(columns.offsets)
        self._records_kept += len(kept.offsets)
        if not kept.offsets and not self._is_kept_empty(header):
            return None
        is_whole = len(kept.offsets) == len(columns.offsets)
        if is_whole and delete_horizon_ms == header.delete_horizon_ms:
            return batch
        rebuilt = rebuild_batch(header, kept, delete_horizon_ms)
        if len(rebuilt) - len(batch) > self._growth_left:
            # Positions in a segment have 31 bits. A later cleaning may find room for the delete horizon.
            rebuilt = bytes(batch) if is_whole else rebuild_batch(header, kept, header.delete_horizon_ms)
        self._growth_left -= len(rebuilt) - len(batch)
        return rebuilt

    def _kept_marker(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return the marker as it is while it is needed, then with a delete horizon, and None after that time."""
        is_needed = self._transactions.needs_marker(header, marker_in(header, batch))
        if is_needed or header.base_offset >= self._end_offset:
            return batch
        horizon_ms = header.delete_horizon_ms
        if header.record_count and horizon_ms is None:
            columns = decode_batch_columns(batch)
            horizon_ms = self._new_delete_horizon_ms(columns)
            rebuilt = rebuild_batch(header, columns, horizon_ms)
            growth = len(rebuilt) - len(batch)
            if horizon_ms is None or growth > self._growth_left:
                return batch
            self._growth_left -= growth
            return rebuilt
        is_gone = not header.record_count or (horizon_ms is not None and horizon_ms <= self._now_ms)
        return self._emptied(header, batch) if is_gone else batch

    def _emptied(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return the batch without records if it is kept for its header, otherwise None."""
        if not self._is_kept_empty(header):
            return None
        return rebuild_batch(header, NO_RECORDS) if header.record_count else batch

    def _kept_records(self, header: BatchHeader, columns: RecordColumns) -> tuple[RecordColumns, int | None]:
        """Return the records to keep, and the delete horizon of their tombstones; None without tombstones."""
        delete_horizon_ms = header.delete_horizon_ms
        newest = self._map.newest_of(columns.keys, columns.offsets)
        if newest != columns.offsets:
            columns = _selected(columns, map(eq, newest, columns.offsets))
        # An empty value is no tombstone, but both are rare: `all` looks for either at the speed of C.
        if not all(columns.values) and None in columns.values:
            if delete_horizon_ms is None:
                return columns, self._new_delete_horizon_ms(columns)
            if delete_horizon_ms <= self._now_ms:
                columns = _selected(columns, (value is not None for value in columns.values))
        return columns, delete_horizon_ms

    def _new_delete_horizon_ms(self, columns: RecordColumns) -> int | None:
        horizon_ms = min(self._now_ms + self._config.delete_retention_ms, NEVER)
        # Timestamps are written relative to it, in 64 bits. Tombstones of an absurd age are never dropped.
        return horizon_ms if min(columns.timestamps_ms) - horizon_ms >= -NEVER - 1 else None

    def _is_kept_empty(self, header: BatchHeader) -> bool:
        """Return whether the batch is kept without records, for its header alone."""
        # Followers learn from the last batch where the log ends, even if nothing follows it.
        return header.next_offset == self._plan.end_offset or (
            header.has_producer and self._active_producers.get(header.producer_id) == header.last_offset
        )

    # --- reading ---------------------------------------------------------------------------------------------

    def _batches(
        self, segment: SegmentFacts, transactions: CleanedTransactions
    ) -> Generator[tuple[BatchHeader, memoryview], None, None]:
        """Yield all batches, checked. The bytes are valid until the next batch is requested. Raises Corruption."""
        try:
            transactions.begin_segment(segment)
            file = self._disk.open(segment.path, create=False)
        except FileNotFoundError:
            raise CleaningAborted(f"{segment.path}, or an index of aborted transactions, no longer exists") from None
        except ValueError as damaged:
            raise Corruption(segment.path, 0, f"an index of aborted transactions is damaged: {damaged}") from None
        try:
            if file.size < segment.size_bytes:
                raise Corruption(segment.path, file.size, f"{segment.size_bytes - file.size} bytes are missing")
            yield from _read_batches(file, segment, self._on_progress)
        finally:
            file.close()


def _read_batches(
    file: File, segment: SegmentFacts, on_progress: CountBytes
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches, read buffer by buffer; a buffer grows for a larger batch."""
    position = 0
    wanted = _BUFFER_BYTES
    least_offset: int = segment.base_offset
    while (left := segment.size_bytes - position) > 0:
        window = memoryview(file.read_at(position, min(wanted, left)))
        if len(window) < min(wanted, left):
            raise Corruption(segment.path, position, f"{min(wanted, left) - len(window)} bytes are missing")
        on_progress(len(window))
        wanted = _BUFFER_BYTES
        start = 0
        while start < len(window):
            try:
                end = start + _size_of_batch(window, start, left - start)
                if end > len(window):
                    wanted = max(_BUFFER_BYTES, end - start)
                    break
                header, batch = read_header(window, start), window[start:end]
                check_crc(header, batch)
                _check_offsets(header, least_offset, segment.end_offset)
            except InvalidBatch as error:
                raise Corruption(segment.path, position + start, error.message) from None
            yield header, batch
            least_offset = header.next_offset
            start = end
        position += start


def _size_of_batch(window: memoryview, start: int, left: int) -> int:
    """Return the size of the batch at `start`; HEADER_BYTES if its header reaches beyond the window, not the file."""
    if len(window) - start < min(HEADER_BYTES, left):
        return HEADER_BYTES
    size = read_header(window, start).size_bytes
    if size > left:
        raise InvalidBatch(f"a batch of {size} bytes reaches beyond the end of the file")
    return size


def _check_offsets(header: BatchHeader, least: int, end: int) -> None:
    # The checksum does not cover offsets.
    if header.base_offset < least or header.next_offset > end:
        raise InvalidBatch(
            f"a batch has offsets {header.base_offset} to {header.last_offset}, expected within {least} to {end - 1}"
        )


class _Output:
    """The cleaned file of one group: written through a buffer, durable after `finish`."""

    def __init__(self, disk: Disk, path: str, on_progress: CountBytes, paths: list[str]) -> None:
        self._file = disk.open(path, create=True)
        paths.append(path)
        self._path = path
        self._on_progress = on_progress
        self._buffer = bytearray()
        self.size = 0

    def __enter__(self) -> _Output:
        # A cleaning that a kill interrupted may have left a file of that name.
        self._file.truncate(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, batch: Buffer) -> None:
        # Copied, because a small batch must not keep its whole read buffer in memory.
        self._buffer += batch
        self.size += len(batch)
        if self.size > SEGMENT_BYTES_MAX:
            raise CleaningAborted(f"{self._path} would grow above {SEGMENT_BYTES_MAX} bytes")
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._file.sync()

    def _flush(self) -> None:
        if self._buffer:
            self._file.append([self._buffer])
            written, self._buffer = len(self._buffer), bytearray()
            self._on_progress(written)


def group_segments(segments: Sequence[SegmentFacts], config: TopicConfig) -> list[list[SegmentFacts]]:
    """Return groups of neighbours that fit into one segment: in log bytes, index bytes and relative offsets.

    How much of them will be kept is not known yet, so they are counted in full.
    """
    groups: list[list[SegmentFacts]] = []
    size_bytes = index_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        index_bytes += _index_bytes_max(segment, config)
        if (
            groups
            and size_bytes <= config.segment_bytes
            and index_bytes <= config.segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes, index_bytes = segment.size_bytes, _index_bytes_max(segment, config)
    return groups


def _index_bytes_max(segment: SegmentFacts, config: TopicConfig) -> int:
    """Return the most bytes of the larger index. It gets an entry after more than `index.interval.bytes` of batches."""
    entry_bytes: int = TimeIndex.ENTRY_BYTES
    return entry_bytes * (segment.size_bytes // max(config.index_interval_bytes, HEADER_BYTES) + 1)


def _decoded(batch: memoryview) -> RecordColumns | None:
    """Return the records; None if they cannot be decoded although the checksum is right: a producer sent them so."""
    try:
        return decode_batch_columns(batch)
    except InvalidBatch:
        return None


def _selected(columns: RecordColumns, is_kept: Iterator[bool]) -> RecordColumns:
    chosen = list(is_kept)
    return RecordColumns(
        offsets=list(compress(columns.offsets, chosen)),
        timestamps_ms=list(compress(columns.timestamps_ms, chosen)),
        keys=list(compress(columns.keys, chosen)),
        values=list(compress(columns.values, chosen)),
        headers=list(compress(columns.headers, chosen)),
    )
