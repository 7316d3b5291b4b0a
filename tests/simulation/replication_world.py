"""Three replicas of one partition, a perfect controller and an unreliable network, all in memory and all in one thread.

The machines are the real ones. Their surroundings are as small as possible, but can fail in every way that matters: a
log that may lose its unsynced tail, a controller whose metadata arrives late, messages that are lost, repeated and
overtaken. `World.check` states the invariants; every method that changes something ends in it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition, ReplicaFetchResult
from kraft.replication.divergence import check_follower_fetch
from kraft.replication.effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderEffect,
    ProposeIsr,
    RestartAt,
    Retry,
    SetHighWatermark,
    TruncatedBelowHighWatermark,
    TruncateTo,
    WaitForMetadata,
)
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.replication.leader import LeaderSettings, LogState, PartitionLeader
from tests.simulation.replication_model import (
    BROKERS,
    TOPIC,
    AlterAnswer,
    AlterAttempt,
    Controller,
    MemoryLog,
    PartitionState,
    Record,
)

LAG_TIME_MAX_MS = 400
FETCH_RECORDS_MAX = 3
LATE_ATTEMPTS_MAX = 8


class Violation(AssertionError):
    """An invariant does not hold."""


# --- a broker --------------------------------------------------------------------------------------------------


@dataclass
class Replica:
    """One broker's process and disk; `life` distinguishes its incarnations, as connections do."""

    broker_id: BrokerId
    broker_epoch: int
    log: MemoryLog = field(default_factory=MemoryLog)
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


class World:
    """Brokers, controller and network, and every record that was ever exposed as committed."""

    def __init__(self, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> None:
        self.variant = variant
        self.min_insync_replicas = min_insync_replicas
        self.now_ms = 0
        self.next_value = 0
        self.controller = Controller(refusals_begin_epochs=variant.refusals_begin_epochs)
        self.replicas = {
            broker: Replica(broker, broker_epoch=self.controller.broker_epochs[broker]) for broker in BROKERS
        }
        self.network: list[Message] = []
        self.alter_requests: dict[BrokerId, list[AlterAttempt]] = {broker: [] for broker in BROKERS}
        self.late_attempts: deque[AlterAttempt] = deque(maxlen=LATE_ATTEMPTS_MAX)
        """Everything that was sent to the controller, and may still wait unread in a connection."""
        self.exposed: list[Record] = []
        self.exposed_in_epoch: dict[int, int] = {}
        self._leaders_seen: dict[int, tuple[BrokerId, int]] = {}
        for broker in BROKERS:
            self.read_metadata(broker)

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
        replica.log.records.append((leader.leader_epoch, self.next_value))
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

    def crash(self, broker: BrokerId, kept_end: int = 0) -> None:
        """Cut the broker's power: of the unsynced tail only records below `kept_end` survive."""
        replica = self.replicas[broker]
        replica.alive = False
        replica.machine = None
        replica.log.lose_power(kept_end)
        self.alter_requests[broker].clear()
        self.check()

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

    # --- invariants --------------------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.controller.state
        require(state.leader is None or state.leader in state.isr, "I7: the leader is in the ISR")
        committed_end = len(self.exposed)
        for member in state.isr:
            # Exposed records are on the disk of every replica that may be elected (I4, I6).
            log = self.replicas[member].log
            if log.durable_end < committed_end or log.records[:committed_end] != self.exposed:
                raise Violation(
                    f"I4: in-sync {member} has {log.records}, {log.durable_end} synced; exposed are {self.exposed}"
                )
        for replica in self.replicas.values():
            leader = replica.leader
            if leader is not None:
                require(leader.high_watermark <= len(replica.log.records), f"I6: on {replica.broker_id}")
        logs = [replica.log.records for replica in self.replicas.values()]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            check_log_matching(logs[one], logs[other])

    def _expose(self, replica: Replica, high_watermark: int, epoch: int) -> None:
        require(high_watermark >= self.exposed_in_epoch.get(epoch, 0), f"I5: high watermark went down in {epoch}")
        self.exposed_in_epoch[epoch] = high_watermark
        self._expose_records(replica.log.records[:high_watermark])

    def _expose_records(self, committed: list[Record]) -> None:
        shared = min(len(committed), len(self.exposed))
        if committed[:shared] != self.exposed[:shared]:
            raise Violation(f"I4: {committed} look committed, but exposed are {self.exposed}")
        for offset in range(len(self.exposed), len(committed)):
            copies = sum(
                replica.log.durable_end > offset and replica.log.records[offset] == committed[offset]
                for replica in self.replicas.values()
            )
            require(copies >= self.min_insync_replicas, f"I14: offset {offset} is on {copies} disks")
            self.exposed.append(committed[offset])

    # --- implementation ----------------------------------------------------------------------------------------

    def _apply_metadata(self, replica: Replica, state: PartitionState) -> None:
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

    def _lead(self, replica: Replica, state: PartitionState) -> None:
        holder = self._leaders_seen.setdefault(state.leader_epoch, (replica.broker_id, replica.life))
        require(holder == (replica.broker_id, replica.life), f"I1: two leaders in epoch {state.leader_epoch}")
        log = replica.log
        leader = self.variant.leader(
            state.image,
            LogState(
                start=Offset(0),
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
        )
        replica.machine = leader
        self._run_leader(replica, leader.start())

    def _follow(self, replica: Replica, state: PartitionState) -> None:
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

    def _run_leader(self, replica: Replica, effects: list[LeaderEffect]) -> None:
        assert replica.leader is not None
        for effect in effects:
            match effect:
                case ProposeIsr():
                    attempt = AlterAttempt(replica.broker_id, replica.broker_epoch, effect)
                    # Nobody waits for an earlier attempt any more, but it may still arrive.
                    self.alter_requests[replica.broker_id] = [attempt]
                    self.late_attempts.append(attempt)
                case HighWatermarkAdvanced(high_watermark=high_watermark):
                    self._expose(replica, high_watermark, replica.leader.leader_epoch)
                case IsrChanged():
                    pass

    def _run_follower(self, replica: Replica, effects: list[FollowerEffect]) -> None:
        follower = replica.follower
        assert follower is not None
        log = replica.log
        for effect in effects:
            match effect:
                case AppendRecords(records=records):
                    if not log.append_as_follower(bytes(records)):
                        follower.append_refused()
                case TruncateTo(offset=offset):
                    self._truncate(replica, offset)
                    self._run_follower(replica, follower.truncated(Offset(log.log_end_offset), Offset(log.durable_end)))
                case SetHighWatermark(high_watermark=high_watermark):
                    self._expose_records(log.records[:high_watermark])
                case TruncatedBelowHighWatermark() | RestartAt():
                    raise Violation(f"I9: {effect} with clean elections only")
                case AdvanceLogStart():
                    raise Violation(f"{effect} where no leader's log start ever moves")
                case Retry() | WaitForMetadata():
                    pass

    def _truncate(self, replica: Replica, offset: int) -> None:
        # A replica outside the ISR may truncate a record that it got from one leader and that another leader committed,
        # for instance if it learns late of the leader in between. Its copy was not counted, and it fetches it again.
        if replica.broker_id in self.controller.state.isr:
            lost = [record for record in replica.log.records[offset : len(self.exposed)] if record in self.exposed]
            require(not lost, f"I9: committed records {lost} are truncated")
        replica.log.truncate_to(offset)

    def _serve_fetch(self, request: FetchRequest) -> None:
        replica = self.replicas[request.to]
        if not replica.alive:
            return
        try:
            result = self._read_for(replica, request)
        except Refusal as refusal:
            result = _result(refusal.error_code)
        self.network.append(FetchAnswer(request.sender, request.life, request.position, result))

    def _read_for(self, replica: Replica, request: FetchRequest) -> ReplicaFetchResult:
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
            return _result(
                leader_epoch=leader.leader_epoch,
                diverging_epoch=diverging.epoch,
                diverging_end_offset=diverging.end_offset,
            )
        effects = leader.follower_fetched(
            request.sender, BrokerEpoch(request.broker_epoch), asked.fetch_offset, self.now_ms
        )
        self._run_leader(replica, effects)
        return _result(
            leader_epoch=leader.leader_epoch,
            high_watermark=leader.high_watermark,
            records=replica.log.read(asked.fetch_offset, FETCH_RECORDS_MAX),
        )

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


def check_log_matching(one: list[Record], other: list[Record]) -> None:
    """I3: if two logs have a record of the same epoch at the same offset, they are equal up to it."""
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if one[offset][0] == other[offset][0]:
            if one[: offset + 1] != other[: offset + 1]:
                raise Violation(f"I3: {one} and {other} part below {offset + 1}")
            return


def _result(
    error_code: ErrorCode = ErrorCode.NONE,
    leader_epoch: int = -1,
    high_watermark: int = -1,
    records: bytes = b"",
    diverging_epoch: int = -1,
    diverging_end_offset: int = -1,
) -> ReplicaFetchResult:
    return ReplicaFetchResult(
        topic_id=TOPIC,
        partition=0,
        error_code=error_code,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        log_start_offset=0,
        records=records,
        diverging_epoch=diverging_epoch,
        diverging_end_offset=diverging_end_offset,
    )
