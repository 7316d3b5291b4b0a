"""The log of one partition on one broker: segments of record batches, and the facts about them.

All methods run on the event loop, except `SyncTicket.run` and the steps of changes (see change.py). An operation that
waits for the disk is a change, which its caller runs. The copy of a log that is moved is changed in a thread, and has
methods that block. Offsets are assigned here. The log does not know other replicas: the caller says which records are
committed, by the `upper` that it passes to reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.log.admission import admit
from kraft.log.append_work import CLIENT, AppendOrigin, AppendResult, ProducedRecords, RunChange
from kraft.log.change import Change, run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult, close_cleaned, discard
from kraft.log.cleaning.retention import segments_to_drop
from kraft.log.continuation import check_continuation, split_by_segment
from kraft.log.disk import Disk
from kraft.log.format.control_record import NO_MARKERS, Markers, marker_in, markers_in
from kraft.log.format.record_batch import CONTROL_BIT, BatchHeader, Buffer, split
from kraft.log.group_commit import SyncTicket
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.log_files import LogFiles, parent_of
from kraft.log.log_health import LogHealth
from kraft.log.log_transactions import LogTransactions
from kraft.log.offset_assignment import assign_offsets
from kraft.log.recovery.producer_state import Duplicate, ProducerState, ProducerStates
from kraft.log.recovery.recovery import RecoveredLog, RecoveryReport, recover
from kraft.log.segment import lookup, timestamp_lookup
from kraft.log.segment.rolling import is_old, must_roll_before
from kraft.log.segment.segment import Segment
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.segment.timestamp_lookup import TimestampLookup
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition


class PartitionLog:
    """The log of one partition; create it with `open`.

    Invariants: log_start_offset <= log_end_offset; synced_end_offset <= log_end_offset; the segments' offsets ascend,
    without holes unless compaction made them; only the last segment is written to, and all before it are durable.
    """

    def __init__(
        self, disk: Disk, directory: str, config: TopicConfig, topic_partition: TopicPartition, recovered: RecoveredLog
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.parent = parent_of(directory)
        """The log directory that has it."""
        self.recovery_report: RecoveryReport = recovered.report
        self._disk = disk
        self._config = config
        self._health = LogHealth(directory, topic_partition)
        self._files = LogFiles(disk, directory, recovered, config, self._health)
        self._producers: ProducerStates = recovered.producers
        self.transactions = LogTransactions(self._files, self._producers, self._health)
        start = recovered.checkpoint.log_start_offset
        if self.log_end_offset < start:
            # Records that were in the page cache only may be lost, even if the log start had already passed them.
            run_now(self._start_at(start))

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        topic_partition: TopicPartition,
        clean_shutdown: bool = False,
    ) -> PartitionLog:
        """Open the log, or create an empty one at offset 0. `recovery_report` says what recovery did.

        Raises Corruption, and OSError from the disk.
        """
        disk.make_dir(directory)
        if not clean_shutdown:
            # An earlier process may not have synced its changes of the directories; from here on they must be durable.
            disk.sync_dir(parent_of(directory))
            disk.sync_dir(directory)
        recovered = recover(disk, directory, config.index_interval_bytes, clean_shutdown)
        return cls(disk, directory, config, topic_partition, recovered)

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        return self._config

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that is kept."""
        return self._files.log_start

    @property
    def log_end_offset(self) -> Offset:
        """The next offset to be written."""
        return self._files.log_end

    @property
    def synced_end_offset(self) -> Offset:
        """The offset below which everything is durable."""
        return self._files.sync.synced_end

    @property
    def dirty(self) -> bool:
        """True if there are records that are not durable."""
        return self._files.sync.synced_end < self._files.log_end

    def has_unsynced(self, bytes_min: int) -> bool:
        """Return whether that much, or `flush.messages` records, were appended since the last sync was prepared."""
        sync = self._files.sync
        return sync.unsynced_bytes >= bytes_min or sync.unsynced_records >= self._config.flush_messages

    @property
    def cleaned_end_offset(self) -> Offset:
        """The offset below which the log is compacted."""
        return self._files.checkpoint.cleaned_end_offset

    @property
    def is_sparse(self) -> bool:
        """True if offsets may be missing because of compaction."""
        return self._files.checkpoint.is_sparse

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """State of each idempotent producer, by producer id."""
        return self._producers.states

    def segments(self) -> tuple[SegmentFacts, ...]:
        """Return the facts of the segments in order; the last segment grows."""
        return lookup.facts(self._files.segments, self._files.log_end)

    @property
    def epoch_cache(self) -> LeaderEpochCache:
        """The leader epochs of the log."""
        return self._files.epochs.cache

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.epoch_cache.latest_epoch

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._files.segments)

    @property
    def failure(self) -> str | None:
        """The reason why the log accepts no more appends; None if it is healthy."""
        return self._health.failure

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the response to OffsetsForLeaderEpoch; see `LeaderEpochCache.end_offset_for`."""
        return self.epoch_cache.end_offset_for(epoch, self._files.log_end)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch in which the record at `offset` was written; -1 if unknown."""
        return self.epoch_cache.epoch_at(offset)

    def reconfigure(self, config: TopicConfig) -> None:
        """Use `config` from now on."""
        self._config = config

    # --- appending -------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: ProducedRecords,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        run_change: RunChange,
        origin: AppendOrigin = CLIENT,
    ) -> AppendResult:
        """Check the records of a producer or a coordinator, assign offsets and write them; all or, on a Refusal, none.

        Raises AppendMustWait, and changes nothing, if slow work has to be done first. If the log needs a change before
        it can accept these records, `run_change` is called with it: it runs the change, or raises, and then nothing
        was appended.
        A full disk raises KAFKA_STORAGE_ERROR and leaves `failure` None: the log accepts records once there is room.
        """
        self._health.check_writable()
        files, config = self._files, self._config
        if leader_epoch < (latest_epoch := files.epochs.cache.latest_epoch):
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} has ended, the latest is {latest_epoch}"
            )
        batches = admit(records, config, self.topic_partition, now_ms, origin)
        is_append_time = config.uses_append_time
        marker = marker_in(*batches[0]) if batches[0][0].attributes & CONTROL_BIT else None
        checked = self._producers.check(batches[0][0], marker, origin)
        if isinstance(checked, Duplicate):
            log_append_time_ms = checked.timestamp_ms if is_append_time else -1
            return AppendResult(checked.base_offset, checked.last_offset, log_append_time_ms, duplicate=True, batches=0)
        base_offset = files.log_end
        pieces, headers = assign_offsets(batches, base_offset, leader_epoch, now_ms if is_append_time else None)
        markers: Markers = NO_MARKERS if marker is None else {base_offset: marker}
        if (change := self._change_before(headers, markers)) is not None:
            run_change(change)
        self._write(pieces, headers, markers)
        return AppendResult(base_offset, headers[-1].last_offset, now_ms if is_append_time else -1, False, len(headers))

    def append_as_follower(self, records: Buffer) -> Offset:
        """Run `appending_as_follower` and block."""
        return run_now(self.appending_as_follower(records))

    def appending_as_follower(self, records: Buffer) -> Change[Offset]:
        """Append batches fetched from the leader unchanged, and return the last offset.

        Raises InvalidBatch, and writes nothing, if a batch is corrupt or the batches do not continue the log in offset
        and epoch; if the leader's log is compacted, offsets may be missing.
        """
        self._health.check_writable()
        batches = split(records)
        if batches and self.log_start_offset == self.log_end_offset:
            yield from self._fit_empty_log_to(batches[0][0])
        elif batches and batches[0][0].leader_epoch < self.latest_epoch:
            yield from self._health.guarding(self._files.epochs.drop_empty(self.log_end_offset))
        end = check_continuation(batches, self.log_end_offset, self.latest_epoch, self.topic_partition)
        if end.has_hole:
            yield from self._health.guarding(self._files.mark_sparse())
        for run in split_by_segment(batches, self._files.active.size_bytes, self._config.segment_bytes):
            headers = [header for header, _ in run]
            markers = markers_in(run)
            if (change := self._change_before(headers, markers)) is not None:
                yield from change
            self._write([batch for _, batch in run], headers, markers)
        return Offset(end.next_offset - 1)

    def _fit_empty_log_to(self, first: BatchHeader) -> Change[None]:
        """Prepare an empty log for the leader's first batch, which it need not continue.

        If the log starts inside the batch, it takes all of the batch and keeps its log start offset. Epochs later than
        the batch's are dropped: the log has no records of them.
        """
        start = self.log_start_offset
        is_inside = first.base_offset < self.log_end_offset <= first.last_offset
        if is_inside or first.leader_epoch < self.latest_epoch:
            yield from self.starting_at(Offset(first.base_offset) if is_inside else start)
            yield from self._health.guarding(self._files.set_start(start))

    def _change_before(self, headers: Sequence[BatchHeader], markers: Markers) -> Change[None] | None:
        """Return the change that has to be durable before these batches are appended; None if there is none."""
        files, size = self._files, 0
        for header in headers:
            size += header.size_bytes
        rolls = must_roll_before(files.active, self._config, size, headers[-1])
        must_prepare = files.epochs.begins(headers) or (bool(markers) and files.begins_aborts(markers))
        return self._prepare_append(headers, markers, rolls) if rolls or must_prepare else None

    def _prepare_append(self, headers: Sequence[BatchHeader], markers: Markers, rolls: bool) -> Change[None]:
        if rolls:
            yield from self.rolling()
        yield from self._health.guarding(self._files.prepare(headers, markers))

    def _write(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader], markers: Markers) -> None:
        """Write batches whose offsets, epochs and sequences were checked; from here on only the disk can fail."""
        try:
            self._files.append(pieces, headers)
        except OSError as error:
            self._health.refuse(error)
        update = self._producers.update
        for header in headers:
            if header.producer_id >= 0 and (aborted := update(header, markers.get(header.base_offset))) is not None:
                self._files.note_aborted(aborted)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Return whole batches of one segment, from the one that holds `start`, none that ends above `upper`.

        At least one batch, even above `bytes_max`, if there is one. Raises Refusal with OFFSET_OUT_OF_RANGE outside
        [log_start_offset, log_end_offset], and Corruption; corrupt bytes are never returned. Source: KIP-74.
        """
        if not self.log_start_offset <= start <= self.log_end_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start} of {self.topic_partition} is outside [{self.log_start_offset}, {self.log_end_offset}]",
            )
        try:
            return self._files.read(start, bytes_max, upper)
        except OSError as error:
            self._health.refuse_read(error)

    def prepare_lookup(self, timestamp_ms: int) -> TimestampLookup:
        """Return a look-up of the first record at or after that time. Valid if the log `still_has` its segments."""
        return timestamp_lookup.prepare(self._disk, self._files.segments, timestamp_ms, self.log_start_offset)

    def prepare_newest_lookup(self) -> TimestampLookup:
        """Return a look-up of the first record with the largest timestamp."""
        return timestamp_lookup.prepare_newest(self._disk, self._files.segments, self.log_start_offset)

    def still_has(self, segments: Sequence[Segment]) -> bool:
        """Return whether all these segments are still in the log. If not, ignore what was read of their files.

        Errors included. A segment that is just being swapped counts as gone. Truncation is not noticed: a leader does
        not truncate.
        """
        return self._files.still_has(segments)

    # --- durability ------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket:
        """Return a ticket that syncs everything appended so far: run it in any thread, then call `complete_sync`.

        One ticket at a time; not needed unless `dirty`.
        """
        self._health.check_writable()
        return self._files.sync.prepare(self._files.active.file, self._files.log_end)

    def complete_sync(self, ticket: SyncTicket, run_change: RunChange) -> None:
        """Advance `synced_end_offset`; from time to time also the recovery point, by a change passed to `run_change`.

        Raises Refusal with KAFKA_STORAGE_ERROR if the sync failed; the log has then failed for good."""
        sync = self._files.sync
        failed = sync.finish(ticket)
        if failed is not None:
            self._health.fail(failed)
        self._health.check_writable()
        if sync.mark_synced(ticket):
            run_change(self._advancing_recovery_point())

    def _advancing_recovery_point(self) -> Change[None]:
        self._health.check_writable()
        try:
            yield from self._files.advance_recovery_point(self._producers)
        except OSError as error:
            # On a full disk the only loss is that recovery will have more to read.
            self._health.tolerate_shortage(error)

    def rolling(self) -> Change[None]:
        """Close the active segment to appends and begin a new one; an empty segment stays active."""
        self._health.check_writable()
        if self._files.active.size_bytes:
            yield from self._health.guarding(self._files.roll(self._config, self._producers))

    def rolling_if_due(self, now_ms: int) -> Change[bool]:
        """Roll, and return True, if the active segment is old by the clock: so retention and compaction reach it."""
        active = self._files.active
        is_due = bool(active.size_bytes) and is_old(active, self._config, now_ms)
        if is_due:
            yield from self.rolling()
        return is_due

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Drop the state of producers that wrote nothing for this long; return their number. The time is monotonic."""
        dropped = self._producers.expire(now_ms, expiration_ms)
        if dropped:
            self._files.note_producers_changed()
        return dropped

    # --- retention -------------------------------------------------------------------------------------------

    def advancing_log_start(self, offset: Offset) -> Change[None]:
        """Delete the records below `offset`, durably; no change unless it is above the log start offset.

        Raises Refusal with OFFSET_OUT_OF_RANGE above the log end offset.
        """
        self._health.check_writable()
        if offset > self.log_end_offset:
            message = f"offset {offset} of {self.topic_partition} is above the log end offset {self.log_end_offset}"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        if offset > self.log_start_offset:
            yield from self._health.guarding(self._files.advance_start(offset))

    def applying_retention(self, now_ms: int, high_watermark: Offset) -> Change[list[str]]:
        """Delete segments by age, size and log start offset; only committed records are deleted.

        Returns files for the caller to remove.
        """
        self._health.check_writable()
        dropped = segments_to_drop(self.segments(), self._config, self.log_start_offset, high_watermark, now_ms)
        if dropped == len(self._files.segments):
            yield from self.rolling()
        if dropped == 0:
            return []
        return (yield from self._health.guarding(self._files.drop_first(dropped)))

    # --- compaction ------------------------------------------------------------------------------------------

    def installing_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> Change[list[str]]:
        """Replace segments by the cleaned ones, which a compaction wrote and `open_cleaned` opened.

        Returns files for the caller to remove. A result that no longer fits the log, because the log was truncated or
        deleted records meanwhile, is discarded.
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
        """Run `truncating_to` and block."""
        return run_now(self.truncating_to(offset))

    def truncating_to(self, offset: Offset) -> Change[Offset]:
        """Drop every batch that reaches `offset`, durably, and return the new log end offset.

        The new end is below `offset` if `offset` lies inside a batch.
        """
        self._health.check_writable()
        is_below = offset < self.log_start_offset
        if offset < self.log_end_offset and not is_below:
            yield from self._health.guarding(self._truncate_to(offset))
            # The batch that was cut off may have begun below the log start, or after a hole that begins there.
            is_below = self.log_end_offset < self.log_start_offset
        if is_below:
            yield from self.starting_at(min(offset, self.log_start_offset))
        return self.log_end_offset

    def _truncate_to(self, offset: Offset) -> Change[None]:
        yield from self._files.truncate_to(offset)
        if self._producers.reaches(self.log_end_offset):
            # Only the log knows which older batches are now a producer's last five.
            rebuilt = yield from self._files.rebuilding_producers()
            self._producers.restore(rebuilt.states, self._producers.transactions, self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Run `starting_at` and block."""
        run_now(self.starting_at(offset))

    def starting_at(self, offset: Offset) -> Change[None]:
        """Drop everything: the log is empty and starts and ends at `offset`."""
        self._health.check_writable()
        try:
            yield from self._start_at(offset)
        except OSError as error:
            # Half-way there is no usable log, even if the disk is only full.
            self._health.fail(error)

    def _start_at(self, offset: Offset) -> Change[None]:
        yield from self._files.restart_at(offset, self._config)
        self._producers.clear()

    # --- copy of another log ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Make everything durable and bring the files beside the segments up to date, as `close` does."""
        self._health.check_writable()
        run_now(self._health.guarding(self._files.settle(self._producers)))

    def take_over(self, original: PartitionLog) -> None:
        """Make this log, which has the batches of `original` by `append_as_follower`, its equal in everything else.

        Copies what batches do not hold: the configs, the log start offset, how far the log is compacted, and leader
        epochs and producers of which no batch is left. Everything is durable afterwards. Raises Refusal.
        """
        self._health.check_writable()
        assert self.log_end_offset == original.log_end_offset, f"{self.log_end_offset}, not {original.log_end_offset}"
        assert self.log_start_offset <= original.log_start_offset, f"begins at {self.log_start_offset}"
        self._config = original.config
        self._producers.restore(original.producers, original._producers.transactions, self.log_end_offset)
        run_now(self._health.sync(self._files.active.file))
        self._files.sync.mark_durable_up_to(self.log_end_offset)
        run_now(self._health.guarding(self._files.take_over(original._files, self._producers)))

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed to this."""
        self.directory, self.parent = directory, parent_of(directory)
        self._files.moved_to(directory)
        self._health.moved_to(directory)

    # --- close -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Run `closing` and block."""
        run_now(self.closing())

    def closing(self) -> Change[None]:
        """Make everything durable and close the files. Does not raise for a log that had failed before."""
        try:
            if self.failure is None:
                yield from self._health.guarding(self._files.settle(self._producers))
        finally:
            self._files.close()

    def release(self) -> None:
        """Close the files without syncing; for a log that is about to be deleted."""
        self._files.close()
