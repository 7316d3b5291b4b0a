"""What surrounds the replication machines in a simulation: a log that power loss can shorten, a perfect controller."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, LeaderEpoch, Offset
from kraft.replication.effects import IsrMember, ProposeIsr

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
Record = tuple[int, int]
"""Leader epoch and value."""


class MemoryLog:
    """Records in memory, the first `durable_end` of them on the imaginary disk."""

    log_start_offset = 0

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.durable_end = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def epoch_at(self, offset: Offset, /) -> int:
        return self.records[offset][0] if 0 <= offset < len(self.records) else -1

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        """As Kafka's cache: nothing for an epoch above all that are known."""
        if not self.records or epoch > self.records[-1][0]:
            return -1, -1
        end_offset = bisect_right(self.records, int(epoch), key=_epoch_of)
        return (self.records[end_offset - 1][0] if end_offset else int(epoch)), end_offset

    def read(self, offset: int, records_max: int) -> bytes:
        batch = self.records[offset : offset + records_max]
        return json.dumps([offset, batch]).encode() if batch else b""

    def append_as_follower(self, data: bytes) -> bool:
        base_offset, batch = json.loads(data)
        if base_offset != len(self.records):
            return False
        self.records += [(epoch, value) for epoch, value in batch]
        return True

    def sync(self) -> None:
        self.durable_end = len(self.records)

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self.durable_end = min(self.durable_end, offset)

    def lose_power(self, kept_end: int) -> None:
        """What was synced stays; of the rest, what lies below `kept_end`."""
        self.truncate_to(max(self.durable_end, kept_end))
        self.sync()


def _epoch_of(record: Record) -> int:
    return record[0]


# --- the controller --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionState:
    leader: BrokerId | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True)
class AlterAnswer:
    attempt: int
    error_code: ErrorCode
    state: PartitionState | None = None


class Controller:
    """Elects from the ISR and from nothing else; `history` is the metadata log that the brokers read."""

    def __init__(self) -> None:
        self.broker_epochs = dict.fromkeys(BROKERS, 1)
        self.unfenced = set(BROKERS)
        self.history = [PartitionState(BROKERS[0], 1, 1, BROKERS)]

    @property
    def state(self) -> PartitionState:
        return self.history[-1]

    def register(self, broker: BrokerId) -> None:
        """A broker came back from a crash: whatever its earlier life was part of has ended."""
        self.fence(broker)
        self.broker_epochs[broker] += 1
        self.unfence(broker)

    def fence(self, broker: BrokerId) -> None:
        self.unfenced.discard(broker)
        state = self.state
        # The last replica of the ISR stays in it: only it is known to have everything.
        isr = tuple(member for member in state.isr if member != broker) or state.isr
        leader = None if state.leader == broker else state.leader
        self._publish(leader, isr)

    def unfence(self, broker: BrokerId) -> None:
        self.unfenced.add(broker)
        self._publish(self.state.leader, self.state.isr)

    def elect(self, broker: BrokerId) -> None:
        """Move the leadership to a chosen in-sync replica, as a preferred election does."""
        if broker in self.state.isr and broker in self.unfenced:
            self._publish(broker, self.state.isr)

    def alter_partition(self, sender: BrokerId, request: ProposeIsr) -> AlterAnswer:
        state = self.state
        if state.leader != sender or state.leader_epoch != request.leader_epoch:
            return AlterAnswer(request.attempt, ErrorCode.FENCED_LEADER_EPOCH)
        if state.partition_epoch != request.partition_epoch:
            return AlterAnswer(request.attempt, ErrorCode.INVALID_UPDATE_VERSION)
        if not all(self._is_eligible(member) for member in request.isr):
            return AlterAnswer(request.attempt, ErrorCode.INELIGIBLE_REPLICA)
        self._publish(state.leader, tuple(member.broker_id for member in request.isr))
        return AlterAnswer(request.attempt, ErrorCode.NONE, self.state)

    def _is_eligible(self, member: IsrMember) -> bool:
        if member.broker_epoch == -1 and member.broker_id in self.state.isr:
            return True
        return member.broker_id in self.unfenced and member.broker_epoch == self.broker_epochs[member.broker_id]

    def _publish(self, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> None:
        if leader is None:
            leader = next((broker for broker in isr if broker in self.unfenced), None)
        state = self.state
        if (leader, isr) == (state.leader, state.isr):
            return
        leader_epoch = state.leader_epoch + (leader != state.leader)
        self.history.append(PartitionState(leader, leader_epoch, state.partition_epoch + 1, isr))
