"""One replica on this broker: a log with the machine of its current role.

Connects the pure machines of `kraft.replication` to the log, to the requests in purgatory, and to other nodes.
No method awaits: each event is handled in one step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import assert_never

from kraft.log.append_work import CLIENT, AppendOrigin, AppendResult, CheckedRecords, ProducedRecords
from kraft.log.change import Change, run_now
from kraft.log.format.record_batch import Buffer
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.metadata.image import PartitionImage
from kraft.model.alter_partition import AlterPartitionResult
from kraft.model.callbacks import Callback, Condition
from kraft.model.delete_records import HIGH_WATERMARK
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    LogDirectory,
    Offset,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from kraft.replication.effects import (
    AdvanceLogStart,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderEffect,
    ProposeIsr,
    RestartAt,
    SetHighWatermark,
    TruncateTo,
)
from kraft.replication.follower import PartitionFollower
from kraft.replication.leader import LeaderSettings, LogState, PartitionLeader
from kraft.server.loop.purgatory import Notifier, ProducePurgatory
from kraft.server.replica.counts import BrokerCounts, TopicCounts
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.replica_log import ReplicaLog
from kraft.server.replica.waiting_appends import AppendQueue

ProduceOutcome = ErrorCode | asyncio.Future[ErrorCode]
"""Outcome of an acks=all produce, or a future of it."""


def code_by_now(outcome: ProduceOutcome) -> ErrorCode:
    """Return the outcome's code; an unfinished wait has timed out, and its records may still be committed later."""
    if isinstance(outcome, ErrorCode):
        return outcome
    return outcome.result() if outcome.done() and not outcome.cancelled() else ErrorCode.REQUEST_TIMED_OUT


def check_epoch(partition: Partition, asked: int) -> None:
    """Raise Refusal if a leader epoch is asked for that is not the partition's."""
    held = partition.leader_epoch
    if asked not in (NO_LEADER_EPOCH, held):
        code = ErrorCode.FENCED_LEADER_EPOCH if asked < held else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise Refusal(code, f"{partition.topic_partition} has leader epoch {held}, not {asked}")


class Partition:
    """A replica with its role. `replica_log` does for its log what is the same in every role."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: PartitionLog,
        high_watermark: Offset,
        config: TopicConfig,
        services: PartitionServices,
    ) -> None:
        self.replica_log = ReplicaLog(log, services, self)
        self._services = services
        self.topic_partition = topic_partition
        self.id = TopicIdPartition(topic_id, topic_partition.partition)
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_LEADER_EPOCH
        self.waiting_appends = AppendQueue()
        """Produced records that `WaitingAppends` appends in order."""
        self.appended = Notifier()
        """Notifies of every append as the leader, and as a follower when its next fetch may be sent."""
        self.committed = Notifier()
        """Notifies of a higher high watermark, and of a change of this broker's role."""
        self.low_watermark_moved = Notifier()
        """Notifies when the leader's low watermark may have changed, and of a change of this broker's role."""
        self.counts = TopicCounts(BrokerCounts())
        """Those of the topic, once the broker holds the partition."""
        self._isr: tuple[BrokerId, ...] = ()
        """The ISR at its last change."""
        self._known_high_watermark = high_watermark
        self._config = config
        self._produces = ProducePurgatory()
        self._follower_change_pending = False
        """True while an append or a truncation that the follower asked for is not over."""
        self.is_truncating = False
        """True while bytes below the log's end may be changing."""
        self._awaited_role: tuple[BrokerId, Callback] | None = None
        """Leader to follow (-1: none), and the callback that takes the role once the log's change is over."""

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def log(self) -> PartitionLog:
        return self.replica_log.log

    @property
    def log_directory(self) -> LogDirectory:
        """The log directory that has the partition's directory."""
        return self.replica_log.log_directory

    @property
    def is_open(self) -> bool:
        """True while the log is served and may be changed."""
        return self.replica_log.is_open

    @property
    def topic_id(self) -> TopicId:
        return self.id.topic_id

    @property
    def high_watermark(self) -> Offset:
        machine = self.leader or self.follower
        return self._known_high_watermark if machine is None else machine.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Offset below which every transaction is decided and its marker replicated; at most the high watermark."""
        transactions, high_watermark = self.log.transactions, self.high_watermark
        transactions.high_watermark_advanced(high_watermark)
        return transactions.last_stable_offset(high_watermark)

    def as_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> PartitionLeader:
        """Return the leader's machine. Raises Refusal if this broker does not lead, or not in the requested epoch.

        The epoch is checked first, as in Kafka: it shows whether the client or this broker has outdated metadata.
        """
        check_epoch(self, current_leader_epoch)
        if self.leader is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic_partition}")
        return self.leader

    # --- roles -----------------------------------------------------------------------------------------------

    def lead(self, state: PartitionImage, broker_epoch: BrokerEpoch) -> None:
        """Become the leader, or stay it with a changed ISR or changed replicas."""
        if self.leader is not None and self.leader_epoch == state.leader_epoch:
            self._run(self.leader.partition_changed(state))
            return
        self._leave_role(state)
        self._take_role(NO_BROKER, lambda: self._lead(state, broker_epoch))

    def _lead(self, state: PartitionImage, broker_epoch: BrokerEpoch) -> None:
        services = self._services
        self.leader = PartitionLeader(
            state,
            LogState(
                start=self.log.log_start_offset,
                end=self.log.log_end_offset,
                durable_end=self.replica_log.durable_end,
                high_watermark=self._known_high_watermark,
            ),
            LeaderSettings(
                min_insync_replicas=self.log.config.min_insync_replicas,
                replica_lag_time_max_ms=services.replica_lag_time_max_ms,
            ),
            topic_id=self.topic_id,
            broker_id=services.broker_id,
            broker_epoch=broker_epoch,
            now_ms=services.monotonic_ms(),
            is_active=services.is_active,
        )
        self._isr = state.isr
        self._run(self.leader.start())
        self.replica_log.sync_if_needed()
        services.role_changed(self)

    def follow(self, state: PartitionImage) -> None:
        """Follow the partition's leader; without one, wait until the metadata has one."""
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
            durable_end=self.replica_log.durable_end,
            high_watermark=self._known_high_watermark,
        )
        self.replica_log.sync_if_needed()

    @property
    def followed(self) -> BrokerId:
        """The leader that this replica follows, or is about to follow; -1 for none."""
        if self.follower is not None:
            return self.follower.leader_id
        return NO_BROKER if self._awaited_role is None else self._awaited_role[0]

    def _take_role(self, followed: BrokerId, take: Callback) -> None:
        """Take the role at once, or when the log's change is over: until then its end is not known."""
        if self.replica_log.changes.is_changing:
            self._awaited_role = followed, take
        else:
            take()

    def log_change_ended(self) -> None:
        """Take the role that waited for the end of the log's change."""
        awaited, self._awaited_role = self._awaited_role, None
        if awaited is not None and self.is_open:
            awaited[1]()
        self.appended.notify()

    def close(self) -> None:
        """Close the log as `closing` does. Blocks."""
        run_now(self.closing())

    def closing(self) -> Change[None]:
        """Stop serving and close the log; everything is durable afterwards, or the storage has failed.

        No other thread may sync the log or run a step of its changes from now on.
        """
        self._stop_serving()
        yield from self.replica_log.closing()

    def retire(self) -> None:
        """Stop serving, because the replica is deleted or has failed. No further write is begun."""
        self._stop_serving()
        self.replica_log.abandon()

    def _stop_serving(self) -> None:
        self._awaited_role = None
        self._known_high_watermark = self.high_watermark
        was_leading = self.leader is not None
        self.leader = self.follower = None
        self.log.transactions.end_verifications()
        self._produces.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.waiting_appends.abandon(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"this broker stopped leading {self.topic_partition} before the records were appended",
        )
        self.appended.notify()
        self.committed.notify()
        self.low_watermark_moved.notify()
        if was_leading:
            self._services.role_changed(self)

    def reconfigure(self, config: TopicConfig) -> None:
        """Apply changed topic configs to later appends."""
        self.log.reconfigure(config)
        if self.leader is not None:
            self._run(self.leader.min_insync_changed(config.min_insync_replicas))

    def _leave_role(self, state: PartitionImage) -> None:
        self._stop_serving()
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch

    # --- events as a leader ----------------------------------------------------------------------------------

    def append(self, records: ProducedRecords, acks: int, origin: AppendOrigin = CLIENT) -> AppendResult:
        """Append the batches of a producer or a coordinator.

        Raises Refusal or AppendMustWait if nothing was appended.
        """
        leader, replica_log = self.as_leader(), self.replica_log
        leader.check_produce(acks)
        size_bytes = records.size_bytes if isinstance(records, CheckedRecords) else len(records)
        replica_log.admit(size_bytes)
        replica_log.check_accepts()
        epoch, now_ms = LeaderEpoch(self.leader_epoch), self._services.wall_ms()
        log = replica_log.log
        with replica_log.watching_storage:
            result = log.append_as_leader(records, epoch, now_ms, replica_log.make_ready, origin)
        if effects := leader.appended(log.log_end_offset):
            self._run(effects)
        replica_log.sync_if_needed()
        self.appended.notify()
        counts = self.counts
        counts.appends += 1
        counts.bytes_in += size_bytes
        counts.messages_in += result.last_offset - result.base_offset + 1
        return result

    def park_produce(self, required_offset: Offset) -> ProduceOutcome:
        """Return the outcome, or a future of it, of an acks=all produce whose records end at `required_offset`."""
        assert self.leader is not None, "a produce waits only after an append as the leader"
        outcome = self.leader.acks_result(required_offset)
        return outcome if outcome is not None else self._produces.park(required_offset)

    def follower_fetched(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, fetch_offset: Offset, log_start: Offset
    ) -> None:
        leader, now_ms = self.as_leader(), self._services.monotonic_ms()
        self._run(leader.follower_fetched(broker_id, broker_epoch, fetch_offset, now_ms, log_start))
        self.low_watermark_moved.notify()

    def delete_records(self, before_offset: int) -> tuple[Offset, ChangeOutcome[None]]:
        """Advance the log start to `before_offset`, HIGH_WATERMARK for all committed records; return that offset.

        Raises Refusal: POLICY_VIOLATION for a log that is only compacted, OFFSET_OUT_OF_RANGE above the high watermark.
        An offset below the log start changes nothing and is no error.
        """
        leader, config = self.as_leader(), self.log.config
        if config.compacts and not config.deletes:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic_partition} has cleanup.policy=compact; add delete to it before deleting records",
            )
        wanted = Offset(leader.high_watermark if before_offset == HIGH_WATERMARK else before_offset)
        if not 0 <= wanted <= leader.high_watermark:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {wanted} of {self.topic_partition} is out of range: "
                f"the high watermark is {leader.high_watermark}",
            )
        return wanted, self.advance_log_start(wanted)

    def alter_partition_answered(self, proposal: ProposeIsr, answer: AlterPartitionResult) -> None:
        if self.leader is not None and self.leader_epoch == proposal.leader_epoch:
            self._run(self.leader.alter_partition_answered(proposal.attempt, answer))

    def tick(self, without_room: BrokerId | None = None) -> None:
        """Look after the ISR, as its leader. A follower `without_room` stores nothing, as its broker says."""
        if self.leader is not None:
            self._run(self.leader.tick(self._services.monotonic_ms(), without_room))

    # --- as a follower -----------------------------------------------------------------------------------------

    def append_as_follower(self, records: Buffer) -> ChangeOutcome[Offset]:
        """Append the leader's records.

        Ends with, or raises, InvalidBatch if they do not continue the log, Refusal KAFKA_STORAGE_ERROR if there is no
        room.
        """
        self.replica_log.admit(len(records))

        def settle() -> None:
            self._follower_change_pending = False
            # Batches for several segments are there in part if there was no room for the later ones.
            self.replica_log.sync_if_open()

        self._follower_change_pending = True
        return self.replica_log.changes.make(
            lambda: self.log.appending_as_follower(records), settle=settle, is_wanted=self._while_role_lasts()
        )

    def truncate(self, effect: TruncateTo | RestartAt) -> ChangeOutcome[object]:
        """Drop the records that the leader does not have.

        Ends with, or raises, Refusal KAFKA_STORAGE_ERROR, also if there is no room.
        """
        follower = self.follower
        assert follower is not None, "only a follower's log is truncated"

        def change() -> Change[object]:
            if self.replica_log.move is not None:
                # Also if the truncation fails here: what the copy dropped needlessly is copied again.
                self.replica_log.move.truncate_to(effect.offset if isinstance(effect, TruncateTo) else Offset(0))
            match effect:
                case TruncateTo():
                    return self.log.truncating_to(effect.offset)
                case RestartAt():
                    return self.log.starting_at(effect.offset)

        def settle() -> None:
            self._follower_change_pending = self.is_truncating = False
            if not self.is_open:
                return
            if self.follower is follower:
                follower.truncated(self.log.log_end_offset, self.replica_log.durable_end)
            self.replica_log.sync_if_needed()

        self._follower_change_pending = self.is_truncating = True
        return self.replica_log.changes.make(change, settle=settle, is_wanted=self._while_role_lasts())

    def _while_role_lasts(self) -> Condition:
        role = self.leader or self.follower
        return lambda: (self.leader or self.follower) is role

    # --- upkeep of the log, in either role -------------------------------------------------------------------

    def apply_retention(self) -> ChangeOutcome[list[str]]:
        """Roll the active segment if retention or compaction waits for it, and drop segments past retention.

        The result is the files of the dropped segments, for `disk.remove` after file.delete.delay.ms. Ends with, or
        raises, Refusal KAFKA_STORAGE_ERROR.
        """
        log_start, synced_end = self.log.log_start_offset, self.log.synced_end_offset

        def settle() -> None:
            if not self.is_open:
                return
            if self.log.synced_end_offset != synced_end:
                # A roll syncs the log, and no other sync follows for the requests that wait for one.
                self.log_became_durable()
            if self.log.log_start_offset > log_start:
                self._log_start_moved()

        return self.replica_log.changes.make(self._applying_retention, settle=settle)

    def _applying_retention(self) -> Change[list[str]]:
        now_ms = self._services.wall_ms()
        yield from self.log.rolling_if_due(now_ms)
        return (yield from self.log.applying_retention(now_ms, self.high_watermark))

    def advance_log_start(self, offset: Offset) -> ChangeOutcome[None]:
        """Advance the log start to `offset`, durably; an offset below the log start changes nothing.

        Ends with, or raises, Refusal KAFKA_STORAGE_ERROR.
        """
        before = self.log.log_start_offset

        def settle() -> None:
            if self.is_open and self.log.log_start_offset > before:
                self._log_start_moved()

        return self.replica_log.changes.make(
            lambda: self.log.advancing_log_start(offset), settle=settle, is_wanted=self._while_role_lasts()
        )

    def _log_start_moved(self) -> None:
        if self.leader is not None:
            self.leader.log_start_advanced(self.log.log_start_offset)
        self.low_watermark_moved.notify()
        # The followers' waiting fetches return the new log start.
        self.appended.notify()

    def log_moved(self, log: PartitionLog) -> None:
        """Replace the log by an equal, durable one in another log directory.

        `log_became_durable` must be called next, for the requests that wait for a sync.
        """
        self.replica_log.moved(log)
        if self.follower is not None:
            self.follower.log_moved(log)

    # --- events of the log -----------------------------------------------------------------------------------

    def log_became_durable(self) -> None:
        """Report to the machine of the current role how far the log is on disk."""
        if self.leader is not None:
            if effects := self.leader.synced(self.replica_log.durable_end):
                self._run(effects)
        elif self.follower is not None and not self._follower_change_pending:
            for effect in self.follower.appended(self.log.log_end_offset, self.replica_log.durable_end):
                if isinstance(effect, AdvanceLogStart):
                    self.advance_log_start(effect.offset)
                elif isinstance(effect, SetHighWatermark):
                    self.committed.notify()
            self.log.transactions.high_watermark_advanced(self.high_watermark)
            self.appended.notify()

    def log_directory_failed(self, reason: str) -> None:
        self._services.directory_failed(self, reason)

    def log_is_corrupt(self, reason: str) -> None:
        self._services.replica_is_corrupt(self, reason)

    # --- effects ---------------------------------------------------------------------------------------------

    def _run(self, effects: Sequence[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case HighWatermarkAdvanced():
                    self.log.transactions.high_watermark_advanced(effect.high_watermark)
                    self._produces.complete_below(effect.high_watermark)
                    self.committed.notify()
                case ProposeIsr():
                    self._services.propose_isr(self, effect)
                case IsrChanged():
                    if self.leader is not None:
                        self._isr = self.counts.isr_changed(self._isr, self.leader.isr)
                        self._produces.complete(self.leader.acks_result)
                    self.low_watermark_moved.notify()
                case _:
                    assert_never(effect)

    @property
    def produces_waiting(self) -> int:
        """Number of produces that wait for replicas."""
        return len(self._produces)
