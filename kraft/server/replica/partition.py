"""One replica on this broker: its log, and the machine of the role that it has at present.

Connects the pure machines of `kraft.replication` to the log, to those who wait in purgatory, and to the nodes around.
Nothing in here awaits: each event is taken in whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, assert_never

from kraft.log.append_work import CheckedRecords, ProducedRecords
from kraft.log.change import Change, run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.group_commit import SyncTicket
from kraft.log.log_config import LogConfig
from kraft.log.partition_log import AppendResult, PartitionLog
from kraft.log.segment.segment import Segment
from kraft.metadata.configs import TopicConfig
from kraft.metadata.image import PartitionImage
from kraft.model.delete_records import HIGH_WATERMARK
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from kraft.replication.effects import (
    AdvanceLogStart,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderEffect,
    ProposeIsr,
    RestartAt,
    TruncateTo,
)
from kraft.replication.follower import PartitionFollower
from kraft.replication.follower_progress import UNKNOWN_OFFSET
from kraft.replication.leader import PartitionLeader
from kraft.server.loop.purgatory import Notifier, ProducePurgatory
from kraft.server.replica.log_changes import ChangeOutcome, LogChanges, LogIsChanging, StepTicket
from kraft.server.replica.move import ReplicaMove
from kraft.server.replica.waiting_appends import AppendQueue

UNSYNCED_BYTES_MAX: Final = 64 << 20
"""With the page cache as durability so much may wait for a sync before one is asked for that nobody waits for: the next
roll has less to sync, and the next start less to read."""

ProduceOutcome = ErrorCode | asyncio.Future[ErrorCode]
"""How an acks=all produce ended, or will end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSurroundings:
    """What every partition of a broker shares. Times are monotonic milliseconds."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int
    sync_before_ack: bool
    """log.durability=fsync; with page-cache what is written counts as durable."""
    monotonic_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    request_sync: Callable[[Partition], None]
    propose_isr: Callable[[Partition, ProposeIsr], None]
    directory_failed: Callable[[Partition, str], None]
    """A write or a sync failed in the partition's log directory: nothing in there can be relied on any more."""
    replica_is_rotten: Callable[[Partition, str], None]
    """Bytes of this replica that were whole are not any more. It alone can no longer be relied on."""
    is_active: Callable[[BrokerId], bool] = lambda broker_id: True
    """False of a broker that the metadata has for fenced or shutting down."""
    off_loop: bool = False
    """Changes of a log are made step by step by whoever syncs it, not where they are asked for."""
    admit: Callable[[str, int], None] = lambda directory, size_bytes: None
    """Raises Refusal KAFKA_STORAGE_ERROR while the disk of that log directory has no room for so many bytes."""


class Partition:
    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: PartitionLog,
        high_watermark: Offset,
        config: TopicConfig,
        surroundings: PartitionSurroundings,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_LEADER_EPOCH
        self.waiting_appends = AppendQueue()
        """Produced records that are appended in their turn, by `WaitingAppends`."""
        self.appended = Notifier()
        """Moves on with every append as the leader, and as a follower when the log may be fetched on from its end."""
        self.committed = Notifier()
        """Moves on with the high watermark, and when this broker's role changes."""
        self.low_watermark_moved = Notifier()
        """Moves on when the low watermark of a leader may have, and when this broker's role changes."""
        self.files_in_use = Lock()
        """Held by a thread that makes files in the log's directory; it lets go soon after the partition is closed."""
        self.move: ReplicaMove | None = None
        """While the log is copied, to go on in another log directory. Nothing is compacted then."""
        self._syncing: dict[SyncTicket, PartitionLog] = {}
        """The log of each sync that is under way: another one may take its place meanwhile."""
        self._known_high_watermark = high_watermark
        self._config = config
        self._surroundings = surroundings
        self._produces = ProducePurgatory()
        self._unsynced_since_ms: int | None = None
        self._closed = False
        self._follower_is_at_work = False
        """It has asked for records to be appended or cut off, and waits for the end of that."""
        self._awaited_role: tuple[BrokerId, Callable[[], None]] | None = None
        """Leader to follow (-1: none), and the callback that takes the role once the log's change is over."""
        self._changes = LogChanges(
            off_loop=surroundings.off_loop,
            watching_storage=self._watching_storage,
            request_step=lambda: self._surroundings.request_sync(self),
            went_idle=self._take_awaited_role,
        )
        self.directory_in_use = _BothLocks(self.files_in_use, self._changes.files_in_use)
        """To be held by a thread that takes the replica's directory away."""

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> Offset:
        machine = self.leader or self.follower
        return self._known_high_watermark if machine is None else machine.high_watermark

    @property
    def durable_end(self) -> Offset:
        """Everything below counts as being on this broker's disk."""
        return self.log.synced_end_offset if self._surroundings.sync_before_ack else self.log.log_end_offset

    def as_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> PartitionLeader:
        """The leader's machine. Raises Refusal when this broker does not lead, or not in the epoch that was asked.

        The epoch comes first, as in Kafka: it tells a client whether it or this broker is the one that is behind.
        """
        if current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch):
            stale = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
            message = f"{self.topic_partition} is in leader epoch {self.leader_epoch}, not {current_leader_epoch}"
            raise Refusal(code, message)
        if self.leader is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
        return self.leader

    def read(self, start: Offset, bytes_max: int, upper: Offset, at_least_one: bool) -> bytes:
        """Whole batches from `start`, none that ends above `upper`; of the first even more than `bytes_max` if asked.

        Raises Refusal OFFSET_OUT_OF_RANGE, and KAFKA_STORAGE_ERROR for bytes that rotted.
        """
        with self._watching_storage():
            records = self.log.read(start, bytes_max, upper)
        return records if at_least_one or len(records) <= bytes_max else b""

    # --- roles -----------------------------------------------------------------------------------------------

    def lead(self, state: PartitionImage, broker_epoch: BrokerEpoch) -> None:
        """Leads from here on, or goes on leading with a changed ISR or replicas."""
        if self.leader is not None and self.leader_epoch == state.leader_epoch:
            self._run(self.leader.partition_changed(state.isr, state.partition_epoch, state.replicas, state.elr))
            return
        self._leave_role(state)
        self._take_role(NO_BROKER, lambda: self._lead(state, broker_epoch))

    def _lead(self, state: PartitionImage, broker_epoch: BrokerEpoch) -> None:
        self.leader = PartitionLeader(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            broker_id=self._surroundings.broker_id,
            broker_epoch=broker_epoch,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            log_start=self.log.log_start_offset,
            log_end=self.log.log_end_offset,
            durable_end=self.durable_end,
            high_watermark=self._known_high_watermark,
            min_insync_replicas=self._config.min_insync_replicas,
            replica_lag_time_max_ms=self._surroundings.replica_lag_time_max_ms,
            now_ms=self._surroundings.monotonic_ms(),
            elr=state.elr,
            is_active=self._surroundings.is_active,
        )
        self._run(self.leader.start())
        self._sync_if_needed()

    def follow(self, state: PartitionImage) -> None:
        """Follows the partition's leader from here on; when there is none, waits for the metadata to name one."""
        self._leave_role(state)
        if state.has_leader:
            self._take_role(state.leader, lambda: self._follow(state))

    def _follow(self, state: PartitionImage) -> None:
        self.follower = PartitionFollower(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            log=self.log,
            durable_end=self.durable_end,
            high_watermark=self._known_high_watermark,
        )
        self._sync_if_needed()

    @property
    def followed(self) -> BrokerId:
        """The leader that this replica follows, or is about to follow; -1 for none."""
        if self.follower is not None:
            return self.follower.leader_id
        return NO_BROKER if self._awaited_role is None else self._awaited_role[0]

    def _take_role(self, followed: BrokerId, take: Callable[[], None]) -> None:
        """At once, or when the change of the log is over: in the middle of it nobody knows where the log ends."""
        if self._changes.is_changing:
            self._awaited_role = followed, take
        else:
            take()

    def _take_awaited_role(self) -> None:
        awaited, self._awaited_role = self._awaited_role, None
        if awaited is not None and self.is_open:
            awaited[1]()
        self.appended.notify()

    def close(self) -> None:
        """As `closing`: blocks."""
        run_now(self.closing())

    def closing(self) -> Change[None]:
        """Serves no more; everything is durable afterwards, or the storage has failed.

        Nobody may sync the log or run a step of its changes any more.
        """
        self._retire()
        yield from self._changes.finish()
        self._closed = True
        with suppress(Refusal), self._watching_storage():
            yield from self.log.closing()

    def retire(self) -> None:
        """Serves no more, because it is to be deleted or has failed. Begins to write nothing more."""
        self._retire()
        self._closed = True
        if self._changes.give_up():
            self.log.release()

    def _retire(self) -> None:
        self._awaited_role = None
        self._known_high_watermark = self.high_watermark
        self.leader = self.follower = None
        self._produces.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.waiting_appends.abandon(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self.topic_partition} was given up by this broker before the records were appended",
        )
        self.appended.notify()
        self.committed.notify()
        self.low_watermark_moved.notify()

    def reconfigure(self, config: TopicConfig, log_config: LogConfig) -> None:
        """The topic's configs were altered: what is appended from now on follows them."""
        self._config = config
        self.log.reconfigure(log_config)
        if self.leader is not None:
            self._run(self.leader.min_insync_changed(config.min_insync_replicas))

    def _leave_role(self, state: PartitionImage) -> None:
        self._retire()
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch

    # --- events as a leader ----------------------------------------------------------------------------------

    def append(self, records: ProducedRecords, acks: int) -> AppendResult:
        """Appends a producer's batches. Raises Refusal and AppendMustWait, and then nothing was appended."""
        leader = self.as_leader()
        leader.check_produce(acks)
        self._admit(records.size_bytes if isinstance(records, CheckedRecords) else len(records))
        if (change := self._changes.under_way) is not None:
            raise LogIsChanging(change, is_own=False)
        epoch, now_ms = LeaderEpoch(self.leader_epoch), self._surroundings.wall_ms()
        with self._watching_storage():
            result = self.log.append_as_leader(records, epoch, now_ms, self._make_ready)
        self._run(leader.appended(self.log.log_end_offset))
        self._sync_if_needed()
        self.appended.notify()
        return result

    def _make_ready(self, change: Change[None]) -> None:
        outcome = self._changes.make(lambda: change)
        if not outcome.is_done:
            raise LogIsChanging(outcome, is_own=True)

    def park_produce(self, required_offset: Offset) -> ProduceOutcome:
        """The outcome, or what it will be, of an acks=all produce whose records end at `required_offset`."""
        assert self.leader is not None, "parked by the one who just appended"
        outcome = self.leader.acks_result(required_offset)
        return outcome if outcome is not None else self._produces.park(required_offset)

    def follower_fetched(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, fetch_offset: Offset, log_start: Offset = UNKNOWN_OFFSET
    ) -> None:
        leader, now_ms = self.as_leader(), self._surroundings.monotonic_ms()
        self._run(leader.follower_fetched(broker_id, broker_epoch, fetch_offset, now_ms, log_start))
        self.low_watermark_moved.notify()

    def delete_records(self, before_offset: int) -> tuple[Offset, ChangeOutcome[None]]:
        """Lets the log begin at `before_offset`, HIGH_WATERMARK for all that is committed; returns that offset.

        Raises Refusal: POLICY_VIOLATION for a log that is compacted only, OFFSET_OUT_OF_RANGE outside what is
        committed. Below the log start there is nothing to do, and nothing wrong.
        """
        leader, config = self.as_leader(), self.log.config
        if config.compacts and not config.deletes:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic_partition} has cleanup.policy=compact: records are deleted only where it names delete",
            )
        wanted = Offset(leader.high_watermark if before_offset == HIGH_WATERMARK else before_offset)
        if not 0 <= wanted <= leader.high_watermark:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {wanted} of {self.topic_partition} is not within what is committed, "
                f"which ends at {leader.high_watermark}",
            )
        return wanted, self.advance_log_start(wanted)

    def alter_partition_answered(
        self,
        proposal: ProposeIsr,
        error_code: ErrorCode,
        isr: Sequence[int],
        leader_epoch: int,
        partition_epoch: int,
        elr: Sequence[int] = (),
    ) -> None:
        if self.leader is None or self.leader_epoch != proposal.leader_epoch:
            return
        self._run(
            self.leader.alter_partition_answered(
                attempt=proposal.attempt,
                error_code=error_code,
                isr=[BrokerId(broker_id) for broker_id in isr],
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                elr=[BrokerId(broker_id) for broker_id in elr],
            )
        )

    def tick(self) -> None:
        if self.leader is not None:
            self._run(self.leader.tick(self._surroundings.monotonic_ms()))

    # --- as a follower -----------------------------------------------------------------------------------------

    def append_as_follower(self, records: bytes) -> ChangeOutcome[Offset]:
        """Appends what the leader sent.

        Ends, or raises, with InvalidBatch when it does not continue the log, Refusal KAFKA_STORAGE_ERROR when there is
        no room.
        """
        self._admit(len(records))

        def settle() -> None:
            self._follower_is_at_work = False
            # What goes into several segments is there in part when the later ones found no room.
            self._sync_what_is_left()

        self._follower_is_at_work = True
        return self._changes.make(
            lambda: self.log.appending_as_follower(records), settle=settle, is_wanted=self._while_role_lasts()
        )

    def _sync_what_is_left(self) -> None:
        if self.is_open:
            self._sync_if_needed()

    def cut_back(self, effect: TruncateTo | RestartAt) -> ChangeOutcome[object]:
        """Drops what the leader does not have. Ends, or raises, with Refusal KAFKA_STORAGE_ERROR, also when there is no
        room.
        """
        follower = self.follower
        assert follower is not None, "only a follower's log is cut back"

        def cut() -> Change[object]:
            if self.move is not None:
                # Even if it fails here: what the copy drops for nothing is copied again.
                self.move.cut_back_to(effect.offset if isinstance(effect, TruncateTo) else Offset(0))
            match effect:
                case TruncateTo():
                    return self.log.truncating_to(effect.offset)
                case RestartAt():
                    return self.log.starting_at(effect.offset)

        def settle() -> None:
            self._follower_is_at_work = False
            if not self.is_open:
                return
            if self.follower is follower:
                follower.truncated(self.log.log_end_offset, self.durable_end)
            self._sync_if_needed()

        self._follower_is_at_work = True
        return self._changes.make(cut, settle=settle, is_wanted=self._while_role_lasts())

    def _while_role_lasts(self) -> Callable[[], bool]:
        role = self.leader or self.follower
        return lambda: (self.leader or self.follower) is role

    # --- upkeep of the log, in either role -------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True while the log is served and may be changed."""
        return not self._closed and self.log.failure is None

    @property
    def log_directory(self) -> str:
        """The directory that holds the partition's."""
        return self.log.directory.rpartition("/")[0]

    def apply_retention(self) -> ChangeOutcome[list[str]]:
        """Rolls the active segment when retention or compaction waits for it, and drops what retention lets go.

        Its result are the files of what was dropped, for `disk.remove` after file.delete.delay.ms. Ends, or raises,
        with Refusal KAFKA_STORAGE_ERROR.
        """
        log_start, synced_end = self.log.log_start_offset, self.log.synced_end_offset

        def settle() -> None:
            if not self.is_open:
                return
            if self.log.synced_end_offset != synced_end:
                # To roll is to sync, and whoever waits for that sync has no other to wait for.
                self.log_became_durable()
            if self.log.log_start_offset > log_start:
                self._log_start_moved()

        return self._changes.make(self._applying_retention, settle=settle)

    def _applying_retention(self) -> Change[list[str]]:
        now_ms = self._surroundings.wall_ms()
        yield from self.log.rolling_if_due(now_ms)
        return (yield from self.log.applying_retention(now_ms, self.high_watermark))

    def advance_log_start(self, offset: Offset) -> ChangeOutcome[None]:
        """Records below `offset` are gone from here on, also after a crash; one that is passed already stays so.

        Ends, or raises, with Refusal KAFKA_STORAGE_ERROR.
        """
        before = self.log.log_start_offset

        def settle() -> None:
            if self.is_open and self.log.log_start_offset > before:
                self._log_start_moved()

        return self._changes.make(
            lambda: self.log.advancing_log_start(offset), settle=settle, is_wanted=self._while_role_lasts()
        )

    def _log_start_moved(self) -> None:
        if self.leader is not None:
            self.leader.log_start_advanced(self.log.log_start_offset)
        self.low_watermark_moved.notify()
        # The followers' fetches wait for news, and this is some.
        self.appended.notify()

    def install_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> ChangeOutcome[list[str]]:
        """Puts a compaction's outcome in; its result are files to be removed later. Ends, or raises, with Refusal
        KAFKA_STORAGE_ERROR.
        """
        held = self.log
        return self._changes.make(lambda: held.installing_cleaned(result, segments), is_wanted=lambda: self.log is held)

    @property
    def is_changing(self) -> bool:
        """The log is in the middle of a change: it may be read as the leader's, and is not to be copied or replaced.

        Its files may be ahead of what it knows of them: what is read of them by name is no proof of rot.
        """
        return self._changes.is_changing

    @property
    def current_change(self) -> ChangeOutcome[Any] | None:
        """How the change ends that the log is in the middle of; None for none."""
        return self._changes.current

    def log_moved(self, log: PartitionLog) -> None:
        """An equal log in another log directory, all of it durable, takes the place of the one so far.

        Whoever waits for a sync is told by `log_became_durable`.
        """
        self.log, before = log, self.log
        before.release()
        self.move = None
        self._unsynced_since_ms = None
        if self.follower is not None:
            self.follower.log_moved(log)

    def expire_producers(self, expiration_ms: int) -> None:
        """Forgets the sequences of producers that were silent for so long."""
        self.log.expire_producers(self._surroundings.monotonic_ms(), expiration_ms)

    def flush_if_due(self) -> None:
        """With the page cache as durability: asks for a sync when a record has waited `flush.ms` for one."""
        since_ms = self._unsynced_since_ms
        if since_ms is not None and self._surroundings.monotonic_ms() - since_ms >= self.log.config.flush_ms:
            self._surroundings.request_sync(self)

    def _admit(self, size_bytes: int) -> None:
        # Apart from the watch on the storage: a disk that is full is not broken.
        self._surroundings.admit(self.log_directory, size_bytes)

    # --- events of the log -----------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket | StepTicket | None:
        """A step of the change that is under way, or else a sync."""
        if not self.is_open:
            return None
        if self._changes.is_changing:
            return self._changes.prepare_step()
        if not self.log.dirty:
            # A roll has synced it since this sync was asked for, and there will be no other one to tell by.
            with suppress(Refusal):
                self.log_became_durable()
            return None
        self._unsynced_since_ms = None
        ticket = self.log.prepare_sync()
        self._syncing[ticket] = self.log
        return ticket

    def complete_sync(self, ticket: SyncTicket | StepTicket) -> None:
        if isinstance(ticket, StepTicket):
            self._changes.complete_step(ticket)
            if self._closed:
                self.log.release()
            elif not self._changes.is_changing:
                self._sync_what_is_left()
            return
        log = self._syncing.pop(ticket)
        if self._closed or log is not self.log:
            # The log only gives up its files now; that it takes no appends any more is no failure.
            with suppress(Refusal):
                log.complete_sync(ticket)
            return
        with suppress(Refusal), self._watching_storage():
            self.log.complete_sync(ticket, self._advance_recovery_point)
            self.log_became_durable()

    def _advance_recovery_point(self, change: Change[None]) -> None:
        self._changes.make(lambda: change)

    def log_became_durable(self) -> None:
        """Tells the machine of the present role how far the log is on disk."""
        if self.leader is not None:
            self._run(self.leader.synced(self.durable_end))
        elif self.follower is not None and not self._follower_is_at_work:
            for effect in self.follower.appended(self.log.log_end_offset, self.durable_end):
                # A new high watermark is read from the machine wherever it is needed.
                if isinstance(effect, AdvanceLogStart):
                    self.advance_log_start(effect.offset)
            self.appended.notify()

    def _sync_if_needed(self) -> None:
        if self._surroundings.sync_before_ack and self.log.dirty:
            self._surroundings.request_sync(self)
        else:
            self.log_became_durable()
            self._note_unsynced()

    def _note_unsynced(self) -> None:
        if not self.log.dirty:
            return
        if self._unsynced_since_ms is None:
            self._unsynced_since_ms = self._surroundings.monotonic_ms()
        is_much = self.log.unsynced_bytes >= UNSYNCED_BYTES_MAX
        if is_much or self.log.unsynced_records >= self.log.config.flush_messages:
            self._surroundings.request_sync(self)

    def storage_failed(self, reason: str) -> None:
        """Whoever read or wrote beside the log found that its disk does not: the directory is out of use."""
        if not self._closed:
            self._surroundings.directory_failed(self, reason)

    def found_rotten(self, corruption: Corruption) -> None:
        """Whoever read the log found that it is damaged: it is served no more. Once told is enough."""
        if not self._closed:
            self._surroundings.replica_is_rotten(self, str(corruption))

    @contextmanager
    def _watching_storage(self) -> Iterator[None]:
        try:
            yield
        except Refusal as refusal:
            # A log that refused an append because the disk is full is as whole as before, and has not failed.
            if refusal.error_code is ErrorCode.KAFKA_STORAGE_ERROR and self.log.failure is not None:
                self._surroundings.directory_failed(self, refusal.message)
            raise
        except Corruption as corruption:
            self.found_rotten(corruption)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(corruption)) from corruption

    # --- effects ---------------------------------------------------------------------------------------------

    def _run(self, effects: Sequence[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case ProposeIsr():
                    self._surroundings.propose_isr(self, effect)
                case HighWatermarkAdvanced():
                    self._produces.complete_below(effect.high_watermark)
                    self.committed.notify()
                case IsrChanged():
                    if self.leader is not None:
                        self._produces.complete(self.leader.acks_result)
                    self.low_watermark_moved.notify()
                case _:
                    assert_never(effect)


class _BothLocks:
    """A context in which both are held. May be entered again and again."""

    def __init__(self, *locks: Lock) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        for lock in self._locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self._locks):
            lock.release()
