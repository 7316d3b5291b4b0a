"""One replica's log of one partition: segments of record batches, and what is known about them.

All methods belong to one thread, the loop's, except `SyncTicket.run` and the steps of changes (see change.py). What
takes the disk's time is there as a change, and as a method that makes it and blocks. Offsets are handed out here, and
nothing here knows of other replicas: which records count as committed is for the caller to say, by the `upper` it
reads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.log.admission import admit
from kraft.log.append_work import AppendResult, MakeReady, ProducedRecords
from kraft.log.change import Change, run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult, close_cleaned, discard
from kraft.log.cleaning.retention import segments_to_drop
from kraft.log.continuation import check_continuation, runs_that_fit
from kraft.log.disk import Disk
from kraft.log.format.record_batch import BatchHeader, Buffer, TimestampType, placed, split
from kraft.log.group_commit import SyncTicket
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.log_config import LogConfig
from kraft.log.log_files import LogFiles, parent_of
from kraft.log.log_health import LogHealth
from kraft.log.recovery.producer_state import Duplicate, ProducerState, ProducerStates
from kraft.log.recovery.recovery import RecoveredLog, RecoveryReport, recover
from kraft.log.segment import lookup, timestamp_lookup
from kraft.log.segment.facts import SegmentFacts
from kraft.log.segment.rolling import is_old, must_roll_before
from kraft.log.segment.segment import Segment
from kraft.log.segment.timestamp_lookup import TimestampLookup
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition


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
        self._disk = disk
        self._config = config
        self._health = LogHealth(directory, topic_partition)
        self._files = LogFiles(disk, directory, recovered, config, self._health)
        self._producers: ProducerStates = recovered.producers
        start = recovered.checkpoint.log_start_offset
        if self.log_end_offset < start:
            # With the page cache as durability the end of the log may be lost, though its start was moved beyond it.
            run_now(self._start_at(start))

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
            disk.sync_dir(parent_of(directory))
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
        return self._files.log_start

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self._files.log_end

    @property
    def synced_end_offset(self) -> Offset:
        """Everything below is durable."""
        return self._files.sync.synced_end

    @property
    def dirty(self) -> bool:
        """True when there is something that a sync would make durable."""
        return self._files.sync.synced_end < self._files.log_end

    @property
    def unsynced_records(self) -> int:
        """How many were appended since the last sync was prepared."""
        return self._files.sync.unsynced_records

    @property
    def unsynced_bytes(self) -> int:
        return self._files.sync.unsynced_bytes

    @property
    def cleaned_end_offset(self) -> Offset:
        """Compaction has been through everything below."""
        return self._files.checkpoint.cleaned_end_offset

    @property
    def is_sparse(self) -> bool:
        """Compaction has left offsets out, or may have."""
        return self._files.checkpoint.is_sparse

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """What is remembered of each idempotent producer, by its id."""
        return self._producers.states

    def segments(self) -> tuple[SegmentFacts, ...]:
        """In order; the last one is the one that grows."""
        return lookup.facts(self._files.segments, self._files.log_end)

    @property
    def epoch_cache(self) -> LeaderEpochCache:
        """The leader epochs that the log knows of."""
        return self._files.epochs

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.epoch_cache.latest_epoch

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._files.segments)

    @property
    def failure(self) -> str | None:
        """Why the log takes no more appends; None while all is well."""
        return self._health.failure

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The answer to OffsetsForLeaderEpoch; see `LeaderEpochCache.end_offset_for`."""
        return self.epoch_cache.end_offset_for(epoch, self._files.log_end)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """In which the record at `offset` was written; -1 when that is not known."""
        return self.epoch_cache.epoch_at(offset)

    def reconfigure(self, config: LogConfig) -> None:
        """Appends from now on follow `config`."""
        self._config = config

    # --- appending -------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: ProducedRecords, leader_epoch: LeaderEpoch, now_ms: int, make_ready: MakeReady = run_now
    ) -> AppendResult:
        """Checks what a producer sent, gives it offsets and writes it; all or, on a Refusal, nothing.

        Raises AppendMustWait, and changes nothing, when something has to be done first that takes long. `make_ready`
        is given the change that the log needs before it takes these records, if it needs one: it makes it, or raises,
        and then nothing was appended.
        On a full disk that is KAFKA_STORAGE_ERROR with `failure` None: the log is well, and goes on when there is room.
        """
        self._health.check_writable()
        latest_epoch = self._files.epochs.latest_epoch
        if leader_epoch < latest_epoch:
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} is over, the log is at {latest_epoch}"
            )
        batches = admit(records, self._config, self.topic_partition, now_ms)
        is_append_time = self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        verdict = self._producers.check(batches[0][0])
        if isinstance(verdict, Duplicate):
            return AppendResult(
                base_offset=verdict.base_offset,
                last_offset=verdict.last_offset,
                log_append_time_ms=verdict.timestamp_ms if is_append_time else -1,
                duplicate=True,
                batches=0,
            )
        append_time_ms = now_ms if is_append_time else None
        base_offset = next_offset = self._files.log_end
        pieces: list[Buffer] = []
        headers: list[BatchHeader] = []
        for header, batch in batches:
            pieces += placed(batch, next_offset, leader_epoch, append_time_ms)
            stored = header.placed(next_offset, leader_epoch, append_time_ms)
            headers.append(stored)
            next_offset = stored.next_offset
        if (change := self._needed_before(headers)) is not None:
            make_ready(change)
        self._write(pieces, headers)
        log_append_time_ms = now_ms if is_append_time else -1
        return AppendResult(base_offset, Offset(next_offset - 1), log_append_time_ms, False, len(headers))

    def append_as_follower(self, records: Buffer) -> Offset:
        """As `appending_as_follower`: blocks."""
        return run_now(self.appending_as_follower(records))

    def appending_as_follower(self, records: Buffer) -> Change[Offset]:
        """Copies batches from the leader as they are, and returns the last offset.

        Raises InvalidBatch, and writes nothing, unless they are whole and continue the log in offset and epoch; a
        leader whose log was compacted may leave offsets out.
        """
        self._health.check_writable()
        batches = split(records)
        if batches and self.log_start_offset == self.log_end_offset:
            yield from self._make_room_for(batches[0][0])
        elif batches and batches[0][0].leader_epoch < self.latest_epoch:
            yield from self._health.guarding(self._files.forget_empty_epochs())
        end = check_continuation(batches, self.log_end_offset, self.latest_epoch, self.topic_partition)
        if end.has_hole:
            yield from self._health.guarding(self._files.remember_holes())
        for run in runs_that_fit(batches, self._files.active.size_bytes, self._config.segment_bytes):
            headers = [header for header, _ in run]
            if (change := self._needed_before(headers)) is not None:
                yield from change
            self._write([batch for _, batch in run], headers)
        return Offset(end.next_offset - 1)

    def _make_room_for(self, first: BatchHeader) -> Change[None]:
        """An empty log has nothing that its leader's batches would have to continue.

        One that begins inside a batch takes all of it, and still begins where it did. One that held later epochs than
        the leader's forgets them: nothing is left of what they wrote.
        """
        start = self.log_start_offset
        is_inside = first.base_offset < self.log_end_offset <= first.last_offset
        if is_inside or first.leader_epoch < self.latest_epoch:
            yield from self.starting_at(Offset(first.base_offset) if is_inside else start)
            yield from self._health.guarding(self._files.remember_start(start))

    def _needed_before(self, headers: Sequence[BatchHeader]) -> Change[None] | None:
        """Change that has to be durable before these batches, which continue the log, are written; None for none."""
        size = sum(header.size_bytes for header in headers)
        rolls = must_roll_before(self._files.active, self._config, size, headers[-1])
        begins_epoch = self._files.begins_epoch(headers)
        return self._make_ready(headers, rolls, begins_epoch) if rolls or begins_epoch else None

    def _make_ready(self, headers: Sequence[BatchHeader], rolls: bool, begins_epoch: bool) -> Change[None]:
        if rolls:
            yield from self.rolling()
        if begins_epoch:
            yield from self._health.guarding(self._files.begin_epochs(headers))

    def _write(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Offsets, epochs and sequences were checked; from here on only the disk can fail."""
        try:
            self._files.append(pieces, headers)
        except OSError as error:
            self._health.refuse(error)
        for header in headers:
            self._producers.update(header)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Whole batches from the one that holds `start`, none that ends above `upper`, of one segment.

        At least one batch, even above `bytes_max`, when there is one to give. Raises Refusal with OFFSET_OUT_OF_RANGE
        outside [log_start_offset, log_end_offset]; Corruption for rot, none of which is given out. Source: KIP-74.
        """
        if not self.log_start_offset <= start <= self.log_end_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start} of {self.topic_partition} is outside [{self.log_start_offset}, {self.log_end_offset}]",
            )
        try:
            return self._files.read(start, bytes_max, upper)
        except OSError as error:
            self._health.fail(error)

    def prepare_lookup(self, timestamp_ms: int) -> TimestampLookup:
        """Look-up of the first record at or after that time. Its outcome counts if the log `has_still` what it read."""
        return timestamp_lookup.prepare(self._disk, self._files.segments, timestamp_ms, self.log_start_offset)

    def prepare_newest_lookup(self) -> TimestampLookup:
        """Look-up of the first record that has the largest timestamp."""
        return timestamp_lookup.prepare_newest(self._disk, self._files.segments, self.log_start_offset)

    def has_still(self, segments: Sequence[Segment]) -> bool:
        """Whether none of these was dropped or cleaned, or is being swapped just now: then what was read of its files
        says nothing, errors included. Truncation is not noticed: a leader does not truncate.
        """
        return self._files.has_still(segments)

    # --- durability ------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket:
        """A ticket for all that was appended so far: run it in any thread, then hand it to `complete_sync`.

        One at a time; `dirty` says whether it is worth while.
        """
        self._health.check_writable()
        return self._files.sync.prepare(self._files.active.file, self._files.log_end)

    def complete_sync(self, ticket: SyncTicket, make_change: MakeReady = run_now) -> None:
        """Moves `synced_end_offset`, and now and then the recovery point: `make_change` is given that change.

        Raises Refusal with KAFKA_STORAGE_ERROR, for good, when the sync had failed."""
        sync = self._files.sync
        failed = sync.take_back(ticket)
        if failed is not None:
            self._health.fail(failed)
        self._health.check_writable()
        if sync.completed(ticket):
            make_change(self._advancing_recovery_point())

    def _advancing_recovery_point(self) -> Change[None]:
        self._health.check_writable()
        try:
            yield from self._files.advance_recovery_point(self._producers)
        except OSError as error:
            # On a full disk recovery will have more to read, and that is all.
            self._health.tolerate_full_disk(error)

    def roll(self) -> None:
        """As `rolling`: blocks."""
        run_now(self.rolling())

    def rolling(self) -> Change[None]:
        """Closes the active segment to appends and begins a new one; an empty one is left as it is."""
        self._health.check_writable()
        if self._files.active.size_bytes:
            yield from self._health.guarding(self._files.roll(self._config, self._producers))

    def rolling_if_due(self, now_ms: int) -> Change[bool]:
        """Begins a new segment when the active one is old by the clock, so that retention and compaction reach it."""
        active = self._files.active
        is_due = bool(active.size_bytes) and is_old(active, self._config, now_ms)
        if is_due:
            yield from self.rolling()
        return is_due

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that wrote nothing for so long, and returns how many. The time is monotonic."""
        return self._producers.expire(now_ms, expiration_ms)

    # --- retention -------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: Offset) -> None:
        """As `advancing_log_start`: blocks."""
        run_now(self.advancing_log_start(offset))

    def advancing_log_start(self, offset: Offset) -> Change[None]:
        """Deletes the records below `offset`, durably; one that is not ahead changes nothing.

        Raises Refusal with OFFSET_OUT_OF_RANGE above the end of the log.
        """
        self._health.check_writable()
        if offset > self.log_end_offset:
            message = f"offset {offset} of {self.topic_partition} is above its end, {self.log_end_offset}"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if offset > self.log_start_offset:
            yield from self._health.guarding(self._files.advance_start(offset))

    def apply_retention(self, now_ms: int, high_watermark: Offset) -> list[str]:
        """As `applying_retention`: blocks."""
        return run_now(self.applying_retention(now_ms, high_watermark))

    def applying_retention(self, now_ms: int, high_watermark: Offset) -> Change[list[str]]:
        """Drops the segments that age, size or the log start have passed; only what is committed goes.

        Returns files that nobody needs any more, for the caller to remove.
        """
        self._health.check_writable()
        dropped = segments_to_drop(self.segments(), self._config, self.log_start_offset, high_watermark, now_ms)
        if dropped == len(self._files.segments):
            yield from self.rolling()
        if dropped == 0:
            return []
        return (yield from self._health.guarding(self._files.drop_first(dropped)))

    # --- compaction ------------------------------------------------------------------------------------------

    def install_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> list[str]:
        """As `installing_cleaned`: blocks."""
        return run_now(self.installing_cleaned(result, segments))

    def installing_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> Change[list[str]]:
        """Puts what a compaction wrote, and `open_cleaned` opened, in the place of the segments that were cleaned.

        Returns files that nobody needs any more, for the caller to remove. A result that does not fit the log any
        more, because it was truncated or dropped records meanwhile, is thrown away.
        """
        self._health.check_writable()
        if not result.fits(self.segments()):
            close_cleaned(segments)
            try:
                yield lambda: discard(self._disk, result)
            except OSError as error:
                self._health.refuse(error)
            return []
        return (yield from self._files.install(result, segments))

    # --- truncation ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Offset:
        """As `truncating_to`: blocks."""
        return run_now(self.truncating_to(offset))

    def truncating_to(self, offset: Offset) -> Change[Offset]:
        """Drops every batch that reaches `offset`, durably, and returns the new end of the log.

        That is below `offset` when it lies inside a batch.
        """
        self._health.check_writable()
        is_below = offset < self.log_start_offset
        if offset < self.log_end_offset and not is_below:
            yield from self._health.guarding(self._truncate_to(offset))
            # The batch that was cut off may have begun below the start, or behind a hole that begins there.
            is_below = self.log_end_offset < self.log_start_offset
        if is_below:
            yield from self.starting_at(min(offset, self.log_start_offset))
        return self.log_end_offset

    def _truncate_to(self, offset: Offset) -> Change[None]:
        yield from self._files.truncate_to(offset)
        if self._producers.reaches(self.log_end_offset):
            # Which older batches a producer's last five were is known to the log alone.
            self._producers = self._files.rebuild_producers()

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """As `starting_at`: blocks."""
        run_now(self.starting_at(offset))

    def starting_at(self, offset: Offset) -> Change[None]:
        """Drops everything: the log is empty, and its next record is `offset`."""
        self._health.check_writable()
        try:
            yield from self._start_at(offset)
        except OSError as error:
            # In between there is no log to go on with, full disk or not.
            self._health.fail(error)

    def _start_at(self, offset: Offset) -> Change[None]:
        yield from self._files.begin_anew(offset, self._config)
        self._producers.clear()

    # --- as a copy of another log ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Makes everything durable, and what stands beside the segments up to date, as `close` does."""
        self._health.check_writable()
        run_now(self._health.guarding(self._files.settle(self._producers)))

    def take_over(self, original: PartitionLog) -> None:
        """Makes a log with the same batches, copied by `append_as_follower`, the equal of `original` in all.

        What batches do not tell is taken from there: the configs, where the log starts, how far it is compacted,
        leader epochs and producers of which no batch is left. All is durable afterwards. Raises Refusal.
        """
        self._health.check_writable()
        assert self.log_end_offset == original.log_end_offset, f"{self.log_end_offset}, not {original.log_end_offset}"
        assert self.log_start_offset <= original.log_start_offset, f"begins at {self.log_start_offset}"
        self._config = original.config
        self._producers = ProducerStates(original.producers)
        run_now(self._health.sync(self._files.active.file))
        self._files.sync.durable_up_to(self.log_end_offset)
        run_now(self._health.guarding(self._files.take_over(original._files, self._producers)))

    def moved_to(self, directory: str) -> None:
        """The directory of the log has this name now."""
        self.directory = directory
        self._files.moved_to(directory)
        self._health.moved_to(directory)

    # --- end of life -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """As `closing`: blocks."""
        run_now(self.closing())

    def closing(self) -> Change[None]:
        """Makes everything durable and closes the files. Does not raise for a log that had failed before."""
        try:
            if self.failure is None:
                yield from self._health.guarding(self._files.settle(self._producers))
        finally:
            self._files.close()

    def release(self) -> None:
        """Closes the files as they are; for a log that is to be deleted."""
        self._files.close()
