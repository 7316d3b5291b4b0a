"""One replica's log of one partition: segments of record batches, and what is known about them.

All methods belong to one thread, the loop's, except `SyncTicket.run`. Offsets are handed out here, and nothing here
knows of other replicas: which records count as committed is for the caller to say, by the `upper` it reads to.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn

from crc32c import crc32c

from kraft.log.admission import admit
from kraft.log.cleaned_segments import CleanedGroup, CleaningResult, close_cleaned, discard
from kraft.log.disk import Disk, File
from kraft.log.group_commit import SyncTicket
from kraft.log.leader_epochs import CHECKPOINT_NAME
from kraft.log.log_checkpoint import LogCheckpoint, write_checkpoint
from kraft.log.log_config import LogConfig
from kraft.log.producer_state import Duplicate, ProducerState, ProducerStates
from kraft.log.record_batch import BatchHeader, Buffer, TimestampType, check_crc, placed, split
from kraft.log.recovery import RecoveredLog, RecoveryReport, rebuild_producers, recover
from kraft.log.retention import segments_to_drop
from kraft.log.segment import RELATIVE_OFFSET_MAX, Segment
from kraft.log.segment_facts import SegmentFacts
from kraft.log.segment_swap import swap_in
from kraft.log.timestamp_lookup import offset_for_timestamp, offset_of_max_timestamp
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition

CHECKPOINT_INTERVAL_BYTES: Final = 256 << 20
"""After a crash no more than about so much is read of what a sync had made durable.

Less would make recovery quicker and appends slower: a checkpoint takes milliseconds, on a busy disk tens of them.
"""


class AppendResult(NamedTuple):
    """Where the records are. A `duplicate` was in the log already, at these offsets, and nothing was written.

    `log_append_time_ms` is -1 when the timestamps are the producer's. A tuple, because one is made for every append.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    duplicate: bool
    batches: int


class PartitionLog:
    """Made by `open`.

    Invariants: log_start_offset <= log_end_offset; synced_end_offset <= log_end_offset; the segments' offsets ascend,
    without holes unless compaction made them; only the last segment is written to, and all before it are durable.
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
        self._checkpoint: LogCheckpoint = recovered.checkpoint
        self._snapshots = recovered.snapshots
        self._producers: ProducerStates = recovered.producers
        self._segments: list[Segment] = recovered.segments
        self._ticket: SyncTicket | None = None
        self._failure: str | None = None
        self._is_closed = False
        if not self._segments:
            self._begin_segment(self._checkpoint.log_start_offset)
        self._log_end = self._active.next_offset
        # What an earlier process wrote may be in the page cache only; from here on it has to be durable to count.
        self._active.file.sync()
        self._synced_end = self._log_end
        self._unsynced_records = self._unsynced_bytes = 0
        self._bytes_since_checkpoint = 0
        if self._log_end < self._checkpoint.log_start_offset:
            # With the page cache as durability the end of the log may be lost, though its start was moved beyond it.
            self._start_at(self._checkpoint.log_start_offset)
        elif recovered.epochs_changed:
            self._write_epochs()

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
        disk.make_dir(directory)
        if not clean_shutdown:
            # What an earlier process did to the directories may not have reached the disk, and is counted on from here.
            disk.sync_dir(_parent(directory))
            disk.sync_dir(directory)
        recovered = recover(disk, directory, config.index_interval_bytes, clean_shutdown)
        return cls(disk, directory, config, topic_partition, recovered)

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self._config

    @property
    def log_start_offset(self) -> Offset:
        """Records below are gone."""
        start = self._checkpoint.log_start_offset
        return max(start, self._segments[0].base_offset) if self._segments else start

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
    def unsynced_records(self) -> int:
        """How many were appended since the last sync was prepared."""
        return self._unsynced_records

    @property
    def unsynced_bytes(self) -> int:
        return self._unsynced_bytes

    @property
    def cleaned_end_offset(self) -> Offset:
        """Compaction has been through everything below."""
        return self._checkpoint.cleaned_end_offset

    @property
    def is_sparse(self) -> bool:
        """Compaction has left offsets out, or may have."""
        return self._checkpoint.is_sparse

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """What is remembered of each idempotent producer, by its id."""
        return self._producers.states

    def segments(self) -> tuple[SegmentFacts, ...]:
        """In order; the last one is the one that grows."""
        ends = [segment.base_offset for segment in self._segments[1:]] + [self._log_end]
        return tuple(segment.facts(end) for segment, end in zip(self._segments, ends, strict=True))

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
        """Checks what a producer sent, gives it offsets and writes it; all or, on a Refusal, nothing.

        On a full disk that is KAFKA_STORAGE_ERROR with `failure` None: the log is well, and goes on when there is room.
        """
        self._check_writable()
        if leader_epoch < self.latest_epoch:
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} is over, the log is at {self.latest_epoch}"
            )
        batches = admit(records, self._config, self.topic_partition, now_ms)
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
            stored = header.placed(next_offset, leader_epoch, append_time_ms)
            headers.append(stored)
            next_offset = stored.next_offset
        self._write(pieces, headers)
        log_append_time_ms = now_ms if is_append_time else -1
        return AppendResult(base_offset, Offset(next_offset - 1), log_append_time_ms, False, len(headers))

    def append_as_follower(self, records: Buffer) -> Offset:
        """Copies batches from the leader as they are, and returns the last offset.

        Raises InvalidBatch, and writes nothing, unless they are whole and continue the log in offset and epoch; a
        leader whose log was compacted may leave offsets out.
        """
        self._check_writable()
        batches = split(records)
        if batches and self.size_bytes == 0 and batches[0][0].base_offset < self._log_end <= batches[0][0].last_offset:
            self._make_room_for(batches[0][0])
        next_offset, epoch = self._log_end, int(self.latest_epoch)
        has_hole = False
        for header, batch in batches:
            check_crc(header, batch)
            if header.base_offset < next_offset:
                raise InvalidBatch(f"{self.topic_partition}: offset {header.base_offset} came, expected {next_offset}")
            if header.leader_epoch < epoch:
                raise InvalidBatch(f"{self.topic_partition}: leader epoch {header.leader_epoch} came after {epoch}")
            has_hole = has_hole or header.base_offset > next_offset
            next_offset, epoch = header.next_offset, header.leader_epoch
        if has_hole and not self._checkpoint.is_sparse:
            # Known before there is one: otherwise it would be taken for rot after a crash.
            self._guarded(lambda: self._remember(replace(self._checkpoint, is_sparse=True)))
        for run in self._runs_that_fit(batches):
            self._write([batch for _, batch in run], [header for header, _ in run])
        return Offset(next_offset - 1)

    def _make_room_for(self, first: BatchHeader) -> None:
        """An empty log that begins inside its leader's batch takes all of it, and still begins where it did."""
        start = self.log_start_offset
        self.truncate_fully_and_start_at(Offset(first.base_offset))
        self._guarded(lambda: self._remember(replace(self._checkpoint, log_start_offset=start)))

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
        size = records = 0
        for header in headers:
            size += header.size_bytes
            records += header.record_count
        if self._must_roll_before(size, headers[-1]):
            self.roll()
        try:
            if headers[-1].leader_epoch != self.epoch_cache.latest_epoch:
                self._begin_epochs(headers)
            self._active.append(pieces, headers)
        except OSError as error:
            self.epoch_cache.truncate_from(self._log_end)
            self._refuse(error)
        for header in headers:
            self._producers.update(header)
        self._unsynced_records += records
        self._unsynced_bytes += size
        self._bytes_since_checkpoint += size
        self._log_end = headers[-1].next_offset

    def _must_roll_before(self, size: int, last: BatchHeader) -> bool:
        active, config = self._active, self._config
        if last.last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
            return True
        return active.size_bytes > 0 and (
            active.size_bytes + size > config.segment_bytes
            or active.index_bytes >= config.segment_index_bytes
            or self._is_old(last.max_timestamp_ms)
        )

    def _begin_epochs(self, headers: Sequence[BatchHeader]) -> None:
        """Durable before the first batch of an epoch: recovery asks the file which epoch a batch is of."""
        for header in headers:
            if header.leader_epoch != self.epoch_cache.latest_epoch:
                self.epoch_cache.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        self._write_epochs()

    def _is_old(self, now_ms: int) -> bool:
        """Whether `segment.ms` have passed since the first record of the active segment; never without timestamps."""
        first_ms, config = self._active.first_timestamp_ms, self._config
        if first_ms < 0:
            return False
        age_ms = now_ms - first_ms
        return age_ms > config.segment_ms or (
            config.segment_jitter_ms > 0 and age_ms > config.segment_ms - self._jitter_ms()
        )

    def _jitter_ms(self) -> int:
        """Differs between partitions and segments, and is the same after a restart."""
        return crc32c(self._active.path.encode()) % (min(self._config.segment_jitter_ms, self._config.segment_ms) + 1)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Whole batches from the one that holds `start`, none that ends above `upper`, of one segment.

        At least one batch, even above `bytes_max`, when there is one to give. Raises Refusal with OFFSET_OUT_OF_RANGE
        outside [log_start_offset, log_end_offset]; Corruption for rot, none of which is given out. Source: KIP-74.
        """
        if not self.log_start_offset <= start <= self._log_end:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start} of {self.topic_partition} is outside [{self.log_start_offset}, {self._log_end}]",
            )
        upper = min(upper, self._log_end)
        try:
            for number in range(self._number_of(start), len(self._segments)):
                if start >= upper:
                    break
                records = self._segments[number].read(
                    start, bytes_max, upper, self.epoch_cache, self._checkpoint.is_sparse
                )
                if records:
                    return records
                # Compaction may have taken the last records of a segment.
                start = max(start, self._end_of(number))
        except OSError as error:
            self._fail(error)
        return b""

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Offset and timestamp of the first record at or after that time."""
        return offset_for_timestamp(self._segments, timestamp_ms, self.log_start_offset)

    def offset_of_max_timestamp(self) -> tuple[Offset, int] | None:
        """Offset and timestamp of the first record that has the largest timestamp; None for an empty log."""
        return offset_of_max_timestamp(self._segments, self.log_start_offset)

    # --- durability ------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket:
        """A ticket for all that was appended so far: run it in any thread, then hand it to `complete_sync`.

        One at a time; `dirty` says whether it is worth while.
        """
        self._check_writable()
        assert self._ticket is None, "the sync before has to be completed first"
        self._ticket = SyncTicket(self._active.file, self._log_end)
        self._unsynced_records = self._unsynced_bytes = 0
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
        if self._bytes_since_checkpoint >= CHECKPOINT_INTERVAL_BYTES:
            self._bytes_since_checkpoint = 0
            try:
                self._advance_recovery_point()
            except OSError as error:
                # On a full disk recovery will have more to read, and that is all.
                if error.errno != errno.ENOSPC:
                    self._fail(error)

    def _advance_recovery_point(self) -> None:
        """After a crash, what is durable now need not be read again."""
        self._active.write_indexes()
        # It may be ahead of what is durable; recovery takes it only if the log then reaches so far.
        self._snapshots.write(self._log_end, self._producers.states)
        self._remember(replace(self._checkpoint, recovery_point=self._synced_end))
        self._drop_stale_snapshots()

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
        self._synced(old.file)
        old.finish()
        self._snapshots.write(self._log_end, self._producers.states)
        self._remember(replace(self._checkpoint, recovery_point=self._log_end))
        self._begin_segment(self._log_end)
        self._durable_up_to(self._log_end)
        self._unsynced_records = self._unsynced_bytes = self._bytes_since_checkpoint = 0
        old.release_indexes()
        self._drop_stale_snapshots()

    def roll_if_due(self, now_ms: int) -> bool:
        """Begins a new segment when the active one is `segment.ms` old, so that retention and compaction reach it."""
        is_due = bool(self._active.size_bytes) and self._is_old(now_ms)
        if is_due:
            self.roll()
        return is_due

    def _begin_segment(self, base_offset: Offset) -> None:
        interval_bytes = self._config.index_interval_bytes
        segment = Segment(self._disk, self.directory, base_offset, interval_bytes, create=True)
        try:
            if self._config.preallocate:
                segment.reserve(self._config.segment_bytes)
            self._disk.sync_dir(self.directory)
        except OSError:
            # The segment before goes on to grow; one that begins in the middle of it must not be found.
            segment.file.close()
            self._disk.remove(segment.path)
            raise
        self._segments.append(segment)

    # --- what is remembered ----------------------------------------------------------------------------------

    def _remember(self, checkpoint: LogCheckpoint) -> None:
        """Durable on return; nothing is written when it is no news."""
        if checkpoint != self._checkpoint:
            write_checkpoint(self._disk, self.directory, checkpoint)
            self._checkpoint = checkpoint

    def _write_epochs(self) -> None:
        self._disk.write_atomically(f"{self.directory}/{CHECKPOINT_NAME}", self.epoch_cache.encode())

    def _drop_stale_snapshots(self) -> None:
        """One for each segment, for truncations, and the latest."""
        bases = [segment.base_offset for segment in self._segments]
        self._snapshots.keep_only([*bases, *self._snapshots.offsets[-1:]])

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that wrote nothing for so long, and returns how many."""
        return self._producers.expire(now_ms, expiration_ms)

    # --- retention -------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: Offset) -> None:
        """Deletes the records below `offset`, durably; one that is not ahead changes nothing.

        Raises Refusal with OFFSET_OUT_OF_RANGE above the end of the log.
        """
        self._check_writable()
        if offset > self._log_end:
            message = f"offset {offset} of {self.topic_partition} is above its end, {self._log_end}"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if offset > self.log_start_offset:
            self._guarded(lambda: self._advance_log_start(offset))

    def _advance_log_start(self, offset: Offset) -> None:
        self._remember(replace(self._checkpoint, log_start_offset=offset))
        self.epoch_cache.truncate_to_start(offset)
        self._write_epochs()

    def apply_retention(self, now_ms: int, high_watermark: Offset) -> list[str]:
        """Drops the segments that age, size or the log start have passed; only what is committed goes.

        Returns files that nobody needs any more, for the caller to remove.
        """
        self._check_writable()
        dropped = segments_to_drop(self.segments(), self._config, self.log_start_offset, high_watermark, now_ms)
        if dropped == len(self._segments):
            self.roll()
        if dropped == 0:
            return []
        files: list[str] = []
        self._guarded(lambda: files.extend(self._drop_first(dropped)))
        return files

    def _drop_first(self, count: int) -> list[str]:
        # The start moves first: a crash in between leaves files below it, which the next retention drops.
        self._advance_log_start(max(self.log_start_offset, self._segments[count].base_offset))
        files: list[str] = []
        for segment in self._segments[:count]:
            self._close_file(segment)
            files += segment.rename_deleted()
        del self._segments[:count]
        self._drop_stale_snapshots()
        return files

    # --- compaction ------------------------------------------------------------------------------------------

    def install_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> list[str]:
        """Puts what a compaction wrote, and `open_cleaned` opened, in the place of the segments that were cleaned.

        Returns files that nobody needs any more, for the caller to remove. A result that does not fit the log any
        more, because it was truncated or dropped records meanwhile, is thrown away.
        """
        self._check_writable()
        if not result.fits(self.segments()):
            close_cleaned(segments)
            self._guarded(lambda: discard(self._disk, result))
            return []
        files: list[str] = []
        if result.groups:
            # Known before there is a hole: otherwise it would be taken for rot after a crash.
            self._guarded(lambda: self._remember(replace(self._checkpoint, is_sparse=True)))
        for group, cleaned in zip(result.groups, segments, strict=True):
            try:
                files += swap_in(self._disk, self.directory, group.base_offset, group.end_offset)
            except OSError as error:
                # Half a swap is finished by recovery; until then nobody knows which files are which.
                self._fail(error)
            self._take_over(group, cleaned)
        self._guarded(lambda: self._remember(replace(self._checkpoint, cleaned_end_offset=result.end_offset)))
        self._drop_stale_snapshots()
        return files

    def _take_over(self, group: CleanedGroup, cleaned: Segment) -> None:
        first = self._number_of(group.base_offset)
        replaced = self._segments[first : first + len(group.replaced)]
        self._segments[first : first + len(replaced)] = [cleaned]
        for segment in replaced:
            self._close_file(segment)
        try:
            cleaned.write_indexes()
            cleaned.release_indexes()
        except OSError as error:
            # On a full disk they stay in memory, and recovery makes them anew.
            if error.errno != errno.ENOSPC:
                self._fail(error)

    # --- truncation ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Offset:
        """Drops every batch that reaches `offset`, durably, and returns the new end of the log.

        That is below `offset` when it lies inside a batch.
        """
        self._check_writable()
        is_below = offset < self.log_start_offset
        if offset < self._log_end and not is_below:
            self._guarded(lambda: self._truncate_to(offset))
            # The batch that was cut off may have begun below the start, or behind a hole that begins there.
            is_below = self._log_end < self.log_start_offset
        if is_below:
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset))
        return self._log_end

    def _truncate_to(self, offset: Offset) -> None:
        self._forget_from(offset, self._segments[self._number_of(Offset(offset - 1))].base_offset)
        # The latest segment goes first, so that a crash in between leaves a log without a hole.
        while len(self._segments) > 1 and self._active.base_offset >= offset:
            self._remove_active_segment()
        self._active.truncate_to(offset)
        self._log_end = self._active.next_offset
        self._durable_up_to(self._log_end)
        self.epoch_cache.truncate_from(self._log_end)
        if self._producers.reaches(self._log_end):
            # Which older batches a producer's last five were is known to the log alone.
            self._producers = rebuild_producers(self._snapshots, self._segments, self._log_end)
        self._write_epochs()

    def _forget_from(self, offset: Offset, growing: Offset) -> None:
        """Nothing on the disk may claim to know more than a log that ends at `offset`, before it does.

        `growing` is where its last segment will begin.
        """
        before = self._checkpoint
        self._snapshots.remove_above(offset)
        self._disk.sync_dir(self.directory)
        self._remember(
            replace(
                before,
                recovery_point=min(before.recovery_point, growing),
                cleaned_end_offset=min(before.cleaned_end_offset, offset),
            )
        )

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drops everything: the log is empty, and its next record is `offset`."""
        self._check_writable()
        try:
            self._start_at(offset)
        except OSError as error:
            # In between there is no log to go on with, full disk or not.
            self._fail(error)

    def _start_at(self, offset: Offset) -> None:
        self._forget_from(Offset(0), Offset(0))
        while self._segments:
            self._remove_active_segment()
        self._remember(replace(self._checkpoint, log_start_offset=offset, is_sparse=False))
        self._begin_segment(offset)
        self._log_end = self._synced_end = offset
        if self._ticket is not None:
            # Its file is gone with all it held; what it says of the disk still counts.
            self._ticket.end_offset = offset
        self.epoch_cache.truncate_from(Offset(0))
        self._write_epochs()
        self._producers.clear()

    def _remove_active_segment(self) -> None:
        segment = self._segments.pop()
        self._close_file(segment)
        for path in segment.rename_deleted():
            self._disk.remove(path)
        self._disk.sync_dir(self.directory)

    # --- end of life -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Makes everything durable and closes the files. Does not raise for a log that had failed before."""
        try:
            if self._failure is None:
                self._guarded(self._settle)
        finally:
            self._close_files()

    def _settle(self) -> None:
        self._synced(self._active.file)
        self._active.write_indexes()
        self._snapshots.write(self._log_end, self._producers.states)
        self._remember(replace(self._checkpoint, recovery_point=self._log_end))
        self._durable_up_to(self._log_end)
        self._drop_stale_snapshots()

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

    def _number_of(self, offset: Offset) -> int:
        """Of the segment that holds `offset`."""
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def _end_of(self, number: int) -> Offset:
        is_last = number + 1 == len(self._segments)
        return self._log_end if is_last else self._segments[number + 1].base_offset

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline: {self._failure}")

    def _guarded(self, operation: Callable[[], object]) -> None:
        try:
            operation()
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> NoReturn:
        """A full disk changed nothing that cannot be done again when there is room; any other error is the end."""
        if error.errno == errno.ENOSPC:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: the disk is full") from error
        self._fail(error)

    def _synced(self, file: File) -> None:
        """A sync that fails has lost data whatever the reason, a full disk included."""
        try:
            file.sync()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        """What the disk did with the bytes is not known any more, so nothing is tried again on it."""
        self._failure = self._failure or f"{self.directory}: {error}"
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} goes offline: {error}") from error


def _parent(path: str) -> str:
    head, separator, _ = path.rpartition("/")
    return head or separator or "."
