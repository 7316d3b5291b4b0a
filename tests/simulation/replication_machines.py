"""Three replicas of one partition, a perfect controller and an unreliable network, all in memory and all in one thread.

The machines are the real ones. Their surroundings are as small as possible, but can fail in every way that matters: a
log that may lose its unsynced tail, a controller whose metadata arrives late, messages that are lost, repeated and
overtaken. A subclass chooses the logs and states the invariants in `check`; every event ends in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol, TypeVar

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition, ReplicaFetchResult
from kraft.replication.divergence import DivergingEpoch, EpochEnds, check_follower_fetch
from kraft.replication.effects import (
    FollowerEffect,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderEffect,
    ProposeIsr,
)
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.replication.leader import LeaderSettings, LogState, PartitionLeader
from tests.simulation.replication_model import (
    BROKERS,
    TOPIC,
    AlterAnswer,
    AlterAttempt,
    Controller,
    PartitionState,
)

LAG_TIME_MAX_MS = 400
FETCH_RECORDS_MAX = 3
LATE_ATTEMPTS_MAX = 8


class Violation(AssertionError):
    """An invariant does not hold."""


# --- a broker --------------------------------------------------------------------------------------------------


class SimulatedLog(EpochEnds, Protocol):
    """A replica's log, on a disk that a power loss may shorten."""

    @property
    def durable_end(self) -> int:
        """Offset below which everything is on the disk."""

    def append(self, leader_epoch: int, value: int) -> None:
        """Append one record as the leader."""

    def append_as_follower(self, data: bytes) -> bool:
        """Append what `read` returned elsewhere; return False if it does not continue the log."""

    def read(self, offset: int, records_max: int) -> bytes:
        """Return about so many records, or fewer. Raises Refusal."""

    def sync(self) -> None: ...

    def truncate_to(self, offset: int) -> None: ...


Log = TypeVar("Log", bound=SimulatedLog)


@dataclass
class Replica(Generic[Log]):
    """One broker's process and disk; `life` distinguishes its incarnations, as connections do."""

    broker_id: BrokerId
    broker_epoch: int
    log: Log
    alive: bool = True
    life: int = 0
    metadata_read: int = 0
    leader_epoch: int = 0
    checkpointed_high_watermark: int = 0
    machine: PartitionLeader | PartitionFollower | None = None

    @property
    def leader(self) -> PartitionLeader | None:
        return self.machine if isinstance(self.machine, PartitionLeader) else None

    @property
    def follower(self) -> PartitionFollower | None:
        return self.machine if isinstance(self.machine, PartitionFollower) else None


# --- messages --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FetchRequest:
    sender: BrokerId
    life: int
    broker_epoch: int
    to: BrokerId
    position: FetchPosition


@dataclass(frozen=True)
class FetchAnswer:
    to: BrokerId
    life: int
    position: FetchPosition
    result: ReplicaFetchResult


@dataclass(frozen=True)
class AlterReply:
    to: BrokerId
    life: int
    answer: AlterAnswer


Message = FetchRequest | FetchAnswer | AlterReply


@dataclass(frozen=True)
class Variant:
    """The machines to run, and deliberate mistakes of their surroundings; by default none."""

    leader: type[PartitionLeader] = PartitionLeader
    follower: type[PartitionFollower] = PartitionFollower
    truncates_to_high_watermark: bool = False
    ignores_divergence: bool = False
    refusals_begin_epochs: bool = True


CORRECT = Variant()


class Machines(ABC, Generic[Log]):
    """Brokers, controller and network."""

    def __init__(self, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> None:
        self.variant = variant
        self.min_insync_replicas = min_insync_replicas
        self.now_ms = 0
        self.next_value = 0
        self.controller = Controller(refusals_begin_epochs=variant.refusals_begin_epochs)
        self.replicas = {
            broker: Replica(broker, self.controller.broker_epochs[broker], self.new_log()) for broker in BROKERS
        }
        self.network: list[Message] = []
        self.alter_requests: dict[BrokerId, list[AlterAttempt]] = {broker: [] for broker in BROKERS}
        self.late_attempts: deque[AlterAttempt] = deque(maxlen=LATE_ATTEMPTS_MAX)
        """Everything that was sent to the controller, and may still wait unread in a connection."""
        self._leaders_seen: dict[int, tuple[BrokerId, int]] = {}
        for broker in BROKERS:
            self.read_metadata(broker)

    @abstractmethod
    def new_log(self) -> Log:
        """Return an empty log."""

    @abstractmethod
    def check(self) -> None:
        """Check the invariants. Raises Violation."""

    @abstractmethod
    def unrest(self) -> str:
        """Return what has not converged yet; empty if everything has."""

    @abstractmethod
    def crash_randomly(self, broker: BrokerId, random: Random) -> None:
        """Cut the broker's power; chance decides what its disk keeps."""

    @abstractmethod
    def _commit(self, replica: Replica[Log], high_watermark: int, leader_epoch: int) -> None:
        """Handle a high watermark that a leader has reached."""

    @abstractmethod
    def _run_follower(self, replica: Replica[Log], effects: list[FollowerEffect]) -> None: ...

    # --- events ------------------------------------------------------------------------------------------------

    def read_metadata(self, broker: BrokerId, records: int | None = None) -> None:
        """Apply the next records of the metadata log on the broker, or all of them."""
        replica = self.replicas[broker]
        if not replica.alive:
            return
        end = len(self.controller.history)
        until = end if records is None else min(end, replica.metadata_read + records)
        for state in self.controller.history[replica.metadata_read : until]:
            self._apply_metadata(replica, state)
        replica.metadata_read = until
        self.check()

    def produce(self, broker: BrokerId) -> int | None:
        """Produce one record with acks=all; return its value, or None if it was refused."""
        replica = self.replicas[broker]
        leader = replica.leader
        if leader is None or not replica.alive:
            return None
        try:
            leader.check_produce(-1)
        except Refusal:
            return None
        self.next_value += 1
        replica.log.append(leader.leader_epoch, self.next_value)
        self._run_leader(replica, leader.appended(Offset(replica.log.log_end_offset)))
        self.check()
        return self.next_value

    def sync(self, broker: BrokerId) -> None:
        replica = self.replicas[broker]
        if not replica.alive:
            return
        replica.log.sync()
        end = Offset(replica.log.log_end_offset)
        if replica.leader is not None:
            self._run_leader(replica, replica.leader.synced(end))
        elif replica.follower is not None:
            self._run_follower(replica, replica.follower.appended(end, end))
        self.check()

    def fetch(self, broker: BrokerId) -> None:
        """Send the follower's next fetch, even if an earlier one has no answer yet."""
        replica = self.replicas[broker]
        follower = replica.follower
        if follower is None or not replica.alive:
            return
        position = follower.next_fetch()
        if position is not None:
            request = FetchRequest(broker, replica.life, replica.broker_epoch, follower.leader_id, position)
            self.network.append(request)

    def deliver(self, message: Message) -> None:
        match message:
            case FetchRequest():
                self._serve_fetch(message)
            case FetchAnswer():
                self._take_answer(message)
            case AlterReply():
                self._take_alter_reply(message)
        self.check()

    def reach_controller(self, broker: BrokerId, *, answer_arrives: bool = True) -> None:
        """Let the controller decide a broker's oldest proposal; the answer may be lost."""
        replica = self.replicas[broker]
        if not self.alter_requests[broker]:
            return
        answer = self.controller.alter_partition(self.alter_requests[broker].pop(0))
        if answer_arrives:
            self.network.append(AlterReply(broker, replica.life, answer))
        self.check()

    def reach_controller_late(self, attempt: AlterAttempt) -> None:
        """Let the controller decide another copy of an attempt whose sender no longer waits for the answer."""
        self.controller.alter_partition(attempt)
        self.check()

    def tick(self, broker: BrokerId) -> None:
        replica = self.replicas[broker]
        if replica.leader is not None and replica.alive:
            self._run_leader(replica, replica.leader.tick(self.now_ms))
        self.check()

    def checkpoint(self, broker: BrokerId) -> None:
        replica = self.replicas[broker]
        if replica.machine is not None and replica.alive:
            replica.checkpointed_high_watermark = replica.machine.high_watermark

    def restart(self, broker: BrokerId) -> None:
        """Start the broker: it registers, reads all metadata, and takes up its role."""
        replica = self.replicas[broker]
        if replica.alive:
            return
        self.controller.register(broker)
        replica.alive = True
        replica.life += 1
        replica.broker_epoch = self.controller.broker_epochs[broker]
        replica.metadata_read = len(self.controller.history) - 1
        self.read_metadata(broker)

    # --- implementation ----------------------------------------------------------------------------------------

    def _apply_metadata(self, replica: Replica[Log], state: PartitionState) -> None:
        leader = replica.leader
        if leader is not None and leader.leader_epoch == state.leader_epoch:
            effects = leader.partition_changed(state.image)
            self._run_leader(replica, effects)
            return
        if state.leader is None:
            replica.machine = None
            return
        if replica.machine is not None and replica.leader_epoch == state.leader_epoch:
            return
        require(state.leader_epoch >= replica.leader_epoch, "I2: a leader epoch went down")
        if replica.machine is not None:
            replica.checkpointed_high_watermark = replica.machine.high_watermark
        replica.leader_epoch = state.leader_epoch
        if state.leader == replica.broker_id:
            self._lead(replica, state)
        else:
            self._follow(replica, state)

    def _lead(self, replica: Replica[Log], state: PartitionState) -> None:
        holder = self._leaders_seen.setdefault(state.leader_epoch, (replica.broker_id, replica.life))
        require(holder == (replica.broker_id, replica.life), f"I1: two leaders in epoch {state.leader_epoch}")
        log = replica.log
        leader = self.variant.leader(
            state.image,
            LogState(
                start=Offset(log.log_start_offset),
                end=Offset(log.log_end_offset),
                durable_end=Offset(log.durable_end),
                high_watermark=Offset(replica.checkpointed_high_watermark),
            ),
            LeaderSettings(
                min_insync_replicas=self.min_insync_replicas,
                replica_lag_time_max_ms=LAG_TIME_MAX_MS,
                alter_partition_timeout_ms=100,
                retry_backoff_ms=20,
            ),
            topic_id=TOPIC,
            broker_id=replica.broker_id,
            broker_epoch=BrokerEpoch(replica.broker_epoch),
            now_ms=self.now_ms,
            is_active=lambda _: True,
        )
        replica.machine = leader
        self._run_leader(replica, leader.start())

    def _follow(self, replica: Replica[Log], state: PartitionState) -> None:
        assert state.leader is not None
        log = replica.log
        if self.variant.truncates_to_high_watermark:
            log.truncate_to(replica.checkpointed_high_watermark)
        replica.machine = self.variant.follower(
            topic_id=TOPIC,
            partition=0,
            leader_id=state.leader,
            leader_epoch=LeaderEpoch(state.leader_epoch),
            log=log,
            durable_end=Offset(log.durable_end),
            high_watermark=Offset(replica.checkpointed_high_watermark),
        )

    def _run_leader(self, replica: Replica[Log], effects: list[LeaderEffect]) -> None:
        assert replica.leader is not None
        for effect in effects:
            match effect:
                case ProposeIsr():
                    attempt = AlterAttempt(replica.broker_id, replica.broker_epoch, effect)
                    # Nobody waits for an earlier attempt any more, but it may still arrive.
                    self.alter_requests[replica.broker_id] = [attempt]
                    self.late_attempts.append(attempt)
                case HighWatermarkAdvanced(high_watermark=high_watermark):
                    self._commit(replica, high_watermark, replica.leader.leader_epoch)
                case IsrChanged():
                    pass

    def _serve_fetch(self, request: FetchRequest) -> None:
        replica = self.replicas[request.to]
        if not replica.alive:
            return
        try:
            result = self._read_for(replica, request)
        except Refusal as refusal:
            result = _result(replica.log, error_code=refusal.error_code)
        self.network.append(FetchAnswer(request.sender, request.life, request.position, result))

    def _read_for(self, replica: Replica[Log], request: FetchRequest) -> ReplicaFetchResult:
        leader = replica.leader
        if leader is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "follows")
        asked = request.position
        fetch = ReplicaFetchPartition(
            topic_id=TOPIC,
            partition=0,
            fetch_offset=asked.fetch_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            current_leader_epoch=asked.current_leader_epoch,
            log_start_offset=asked.log_start,
            high_watermark=asked.high_watermark,
            partition_max_bytes=1_000,
        )
        diverging = check_follower_fetch(
            replica.log, leader.leader_epoch, fetch, leader.empty_start_max(request.sender)
        )
        if diverging is not None and not self.variant.ignores_divergence:
            return _result(replica.log, leader.leader_epoch, diverging=diverging)
        epoch = BrokerEpoch(request.broker_epoch)
        effects = leader.follower_fetched(request.sender, epoch, asked.fetch_offset, self.now_ms, asked.log_start)
        self._run_leader(replica, effects)
        records = replica.log.read(asked.fetch_offset, FETCH_RECORDS_MAX)
        return _result(replica.log, leader.leader_epoch, high_watermark=leader.high_watermark, records=records)

    def _take_answer(self, message: FetchAnswer) -> None:
        replica = self.replicas[message.to]
        follower = replica.follower
        if replica.alive and replica.life == message.life and follower is not None:
            self._run_follower(replica, follower.answered(message.position, message.result))

    def _take_alter_reply(self, message: AlterReply) -> None:
        replica = self.replicas[message.to]
        leader = replica.leader
        if leader is None or not replica.alive or replica.life != message.life:
            return
        answer = message.answer
        self._run_leader(replica, leader.alter_partition_answered(answer.attempt, answer.result))


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def _result(
    log: EpochEnds,
    leader_epoch: int = -1,
    *,
    error_code: ErrorCode = ErrorCode.NONE,
    high_watermark: int = -1,
    records: bytes = b"",
    diverging: DivergingEpoch | None = None,
) -> ReplicaFetchResult:
    return ReplicaFetchResult(
        topic_id=TOPIC,
        partition=0,
        log_start_offset=log.log_start_offset,
        leader_epoch=leader_epoch,
        error_code=error_code,
        high_watermark=high_watermark,
        records=records,
        diverging_epoch=-1 if diverging is None else diverging.epoch,
        diverging_end_offset=-1 if diverging is None else diverging.end_offset,
    )
