"""One replica's log of one partition: segments of record batches, and what is known about them.

All methods belong to one thread, the loop's, except `SyncTicket.run`. Offsets are handed out here, and nothing here
knows of other replicas: which records count as committed is for the caller to say, by the `upper` it reads to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kraft.log.admission import admit
from kraft.log.disk import Disk
from kraft.log.group_commit import SyncTicket
from kraft.log.leader_epochs import CHECKPOINT_NAME, LeaderEpochCache
from kraft.log.log_config import LogConfig
from kraft.log.producer_state import Duplicate, ProducerStates
from kraft.log.record_batch import BatchHeader, Buffer, TimestampType, check_crc, decode_batch, placed, split
from kraft.log.recovery import RecoveredLog, RecoveryReport, recover
from kraft.log.segment import RELATIVE_OFFSET_MAX, Segment
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """Where the records are. A `duplicate` was in the log already, at these offsets, and nothing was written.

    `log_append_time_ms` is -1 when the timestamps are the producer's.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    duplicate: bool
    batches: int


class PartitionLog:
    """Made by `open`.

    Invariants: log_start_offset <= synced_end_offset <= log_end_offset; the segments' offsets are contiguous; only the
    last segment is written to, and all before it are durable.
    """

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, topic_partition: TopicPartition, recovered: RecoveredLog
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.recovery_report: RecoveryReport = recovered.report
        self.epoch_cache = recovered.epochs
        self._disk = disk
        self._config = config
        self._producers: ProducerStates = recovered.producers
        self._segments: list[Segment] = recovered.segments
        self._ticket: SyncTicket | None = None
        self._failure: str | None = None
        self._is_closed = False
        if not self._segments:
            self._begin_segment(Offset(0))
        self._log_end = self._active.next_offset
        # What an earlier process wrote may be in the page cache only; from here on it has to be durable to count.
        self._active.file.sync()
        self._synced_end = self._log_end

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        topic_partition: TopicPartition,
        clean_shutdown: bool = False,
    ) -> PartitionLog:
        """Opens the log, or begins an empty one at offset 0; `recovery_report` says what was found.

        Raises Corruption for rot, and OSError from the disk.
        """
        if not disk.exists(directory):
            disk.make_dir(directory)
            disk.sync_dir(_parent(directory))
        recovered = recover(disk, directory, config.index_interval_bytes, clean_shutdown)
        return cls(disk, directory, config, topic_partition, recovered)

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> Offset:
        return self._segments[0].base_offset

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self._log_end

    @property
    def synced_end_offset(self) -> Offset:
        """Everything below is durable."""
        return self._synced_end

    @property
    def dirty(self) -> bool:
        """True when there is something that a sync would make durable."""
        return self._synced_end < self._log_end

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.epoch_cache.latest_epoch

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def failure(self) -> str | None:
        """Why the log takes no more appends; None while all is well."""
        return self._failure

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The answer to OffsetsForLeaderEpoch; see `LeaderEpochCache.end_offset_for`."""
        return self.epoch_cache.end_offset_for(epoch, self._log_end)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """In which the record at `offset` was written; -1 when that is not known."""
        return self.epoch_cache.epoch_at(offset)

    def reconfigure(self, config: LogConfig) -> None:
        """Appends from now on follow `config`."""
        self._config = config

    # --- appending -------------------------------------------------------------------------------------------

    def append_as_leader(self, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int) -> AppendResult:
        """Checks what a producer sent, gives it offsets and writes it; all or, on a Refusal, nothing."""
        self._check_writable()
        if leader_epoch < self.latest_epoch:
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} is over, the log is at {self.latest_epoch}"
            )
        batches = admit(records, self._config, self.topic_partition)
        verdict = self._producers.check(batches[0][0])
        if isinstance(verdict, Duplicate):
            return AppendResult(
                base_offset=verdict.base_offset,
                last_offset=verdict.last_offset,
                log_append_time_ms=-1,
                duplicate=True,
                batches=0,
            )
        is_append_time = self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        append_time_ms = now_ms if is_append_time else None
        base_offset = next_offset = self._log_end
        pieces: list[Buffer] = []
        headers: list[BatchHeader] = []
        for header, batch in batches:
            pieces += placed(batch, next_offset, leader_epoch, append_time_ms)
            headers.append(
                header._replace(
                    base_offset=next_offset,
                    leader_epoch=leader_epoch,
                    max_timestamp_ms=now_ms if is_append_time else header.max_timestamp_ms,
                )
            )
            next_offset = headers[-1].next_offset
        self._write(pieces, headers)
        return AppendResult(
            base_offset=base_offset,
            last_offset=headers[-1].last_offset,
            log_append_time_ms=now_ms if is_append_time else -1,
            duplicate=False,
            batches=len(headers),
        )

    def append_as_follower(self, records: Buffer) -> Offset:
        """Copies batches from the leader as they are, and returns the last offset.

        Raises InvalidBatch, and writes nothing, unless they are whole and continue the log in offset and epoch.
        """
        self._check_writable()
        batches = split(records)
        next_offset, epoch = self._log_end, int(self.latest_epoch)
        for header, batch in batches:
            check_crc(header, batch)
            if header.base_offset != next_offset:
                raise InvalidBatch(f"{self.topic_partition}: offset {header.base_offset} came, expected {next_offset}")
            if header.leader_epoch < epoch:
                raise InvalidBatch(f"{self.topic_partition}: leader epoch {header.leader_epoch} came after {epoch}")
            next_offset, epoch = header.next_offset, header.leader_epoch
        for run in self._runs_that_fit(batches):
            self._write([batch for _, batch in run], [header for header, _ in run])
        return Offset(next_offset - 1)

    def _runs_that_fit(
        self, batches: Sequence[tuple[BatchHeader, memoryview]]
    ) -> list[list[tuple[BatchHeader, memoryview]]]:
        """What a leader wrote over several segments is not written into one."""
        runs: list[list[tuple[BatchHeader, memoryview]]] = []
        size = self._active.size_bytes
        for header, batch in batches:
            if not runs or size + header.size_bytes > self._config.segment_bytes:
                runs.append([])
                size = 0 if len(runs) > 1 else size
            runs[-1].append((header, batch))
            size += header.size_bytes
        return runs

    def _write(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Offsets, epochs and sequences were checked; from here on only the disk can fail."""
        size = sum(header.size_bytes for header in headers)
        active = self._active
        is_full = active.size_bytes and active.size_bytes + size > self._config.segment_bytes
        if is_full or headers[-1].last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
            self.roll()
        self._guarded(lambda: self._active.append(pieces, headers))
        for header in headers:
            if header.leader_epoch != self.epoch_cache.latest_epoch:
                self.epoch_cache.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            self._producers.update(header)
        self._log_end = headers[-1].next_offset

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Whole batches from the one that holds `start`, none that ends above `upper`, of one segment.

        At least one batch, even above `bytes_max`, when there is one to give. Raises Refusal with OFFSET_OUT_OF_RANGE
        outside [log_start_offset, log_end_offset], Corruption for rot that the headers show. Source: KIP-74.
        """
        if not self.log_start_offset <= start <= self._log_end:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start} of {self.topic_partition} is outside [{self.log_start_offset}, {self._log_end}]",
            )
        if start >= min(upper, self._log_end):
            return b""
        try:
            return self._segment_of(start).read(start, bytes_max, upper)
        except OSError as error:
            self._fail(error)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Offset and timestamp of the first record at or after that time."""
        for segment in self._segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for position, header in segment.scan():
                if header.max_timestamp_ms >= timestamp_ms:
                    found = _first_record_since(segment, position, header, timestamp_ms)
                    if found is not None:
                        return found
        return None

    def offset_of_max_timestamp(self) -> tuple[Offset, int] | None:
        """Offset and timestamp of the first record that has the largest timestamp; None for an empty log."""
        segments = [segment for segment in self._segments if segment.size_bytes]
        if not segments:
            return None
        segment = max(segments, key=lambda candidate: candidate.max_timestamp_ms)
        position, header = segment.batch_with_max_timestamp()
        found = _first_record_since(segment, position, header, header.max_timestamp_ms)
        # A producer may claim a largest timestamp that none of its records has.
        return found or (header.last_offset, header.max_timestamp_ms)

    # --- durability ------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket:
        """A ticket for all that was appended so far: run it in any thread, then hand it to `complete_sync`.

        One at a time; `dirty` says whether it is worth while.
        """
        self._check_writable()
        assert self._ticket is None, "the sync before has to be completed first"
        self._ticket = SyncTicket(self._active.file, self._log_end)
        return self._ticket

    def complete_sync(self, ticket: SyncTicket) -> None:
        """Moves `synced_end_offset`. Raises Refusal with KAFKA_STORAGE_ERROR, for good, when the sync had failed."""
        assert ticket is self._ticket, "this is not the ticket that was prepared last"
        assert ticket.is_run, "the ticket has to be run first"
        self._ticket = None
        if ticket.closes_file:
            ticket.file.close()
        if ticket.error is not None:
            self._fail(ticket.error)
        self._check_writable()
        self._synced_end = max(self._synced_end, ticket.end_offset)

    def _durable_up_to(self, end: Offset) -> None:
        """The loop itself has synced all up to `end`, where the log ends."""
        if self._ticket is None:
            self._synced_end = end
            return
        # An error of the disk may have been told to the ticket's sync instead of ours: both have to succeed.
        self._synced_end = min(self._synced_end, end)
        self._ticket.end_offset = end

    def roll(self) -> None:
        """Closes the active segment to appends and begins a new one; an empty one is left as it is."""
        self._check_writable()
        if self._active.size_bytes:
            self._guarded(self._roll)

    def _roll(self) -> None:
        # The order matters: recovery takes it for granted that all segments but the last are durable.
        old = self._active
        old.file.sync()
        old.write_index()
        self._write_checkpoint()
        self._begin_segment(self._log_end)
        self._durable_up_to(self._log_end)
        old.release_index()

    def _begin_segment(self, base_offset: Offset) -> None:
        interval_bytes = self._config.index_interval_bytes
        self._segments.append(Segment(self._disk, self.directory, base_offset, interval_bytes, create=True))
        self._disk.sync_dir(self.directory)

    # --- truncation ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Offset:
        """Drops every batch that reaches `offset`, durably, and returns the new end of the log.

        That is below `offset` when it lies inside a batch.
        """
        self._check_writable()
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
        elif offset < self._log_end:
            self._guarded(lambda: self._truncate_to(offset))
        return self._log_end

    def _truncate_to(self, offset: Offset) -> None:
        # The latest segment goes first, so that a crash in between leaves a log without a hole.
        while len(self._segments) > 1 and self._active.base_offset >= offset:
            self._remove_active_segment()
        self._active.truncate_to(offset)
        self._log_end = self._active.next_offset
        self._durable_up_to(self._log_end)
        self.epoch_cache.truncate_from(self._log_end)
        self._write_checkpoint()
        self._forget_producers_from(self._log_end)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drops everything: the log is empty, and its next record is `offset`."""
        self._check_writable()
        self._guarded(lambda: self._start_at(offset))

    def _start_at(self, offset: Offset) -> None:
        while self._segments:
            self._remove_active_segment()
        self._begin_segment(offset)
        self._log_end = self._synced_end = offset
        if self._ticket is not None:
            # Its file is gone with all it held; what it says of the disk still counts.
            self._ticket.end_offset = offset
        self.epoch_cache = LeaderEpochCache()
        self._write_checkpoint()
        self._producers.clear()

    def _remove_active_segment(self) -> None:
        segment = self._segments.pop()
        self._close_file(segment)
        segment.remove_files()
        self._disk.sync_dir(self.directory)

    def _forget_producers_from(self, end: Offset) -> None:
        if not self._producers.reaches(end):
            return
        # Which older batches a producer's last five were is known to the log alone.
        self._producers.clear()
        for segment in self._segments:
            for _, header in segment.scan():
                self._producers.update(header)

    # --- end of life -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Makes everything durable and closes the files. Does not raise for a log that had failed before."""
        try:
            if self._failure is None:
                self._guarded(self._settle)
        finally:
            self._close_files()

    def _settle(self) -> None:
        self._active.file.sync()
        self._active.write_index()
        self._write_checkpoint()
        self._durable_up_to(self._log_end)

    def release(self) -> None:
        """Closes the files as they are; for a log that is to be deleted."""
        self._close_files()

    def delete(self) -> None:
        """Removes the directory with all in it. Of a log that was released, any thread may do that."""
        self._close_files()
        self._guarded(self._remove_directory)

    def _remove_directory(self) -> None:
        self._disk.remove_tree(self.directory)
        self._disk.sync_dir(_parent(self.directory))

    def _close_files(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for segment in self._segments:
            self._close_file(segment)
        self._failure = self._failure or "the log is closed"

    def _close_file(self, segment: Segment) -> None:
        if self._ticket is not None and self._ticket.file is segment.file:
            self._ticket.closes_file = True
        else:
            segment.file.close()

    # --- inside ----------------------------------------------------------------------------------------------

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _segment_of(self, offset: Offset) -> Segment:
        found = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return self._segments[found - 1]

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self._failure}")

    def _guarded(self, operation: Callable[[], object]) -> None:
        try:
            operation()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        """What the disk did with the bytes is not known any more, so nothing is tried again on it."""
        self._failure = self._failure or f"{self.directory}: {error}"
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} goes offline: {error}") from error

    def _write_checkpoint(self) -> None:
        self._disk.write_atomically(f"{self.directory}/{CHECKPOINT_NAME}", self.epoch_cache.encode())


def _parent(path: str) -> str:
    head, separator, _ = path.rpartition("/")
    return head or separator or "."


def _first_record_since(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int
) -> tuple[Offset, int] | None:
    batch = segment.read_batch(position, header)
    try:
        records = decode_batch(batch)
    except InvalidBatch:
        # The checksum fits, so this is what a producer sent: the header is the best answer that can be given.
        return Offset(header.base_offset), header.max_timestamp_ms
    for record in records:
        if record.timestamp_ms >= timestamp_ms:
            return Offset(record.offset), record.timestamp_ms
    return None
