"""Surroundings of the replication machines in a simulation: a log that power loss can shorten, a perfect controller.

The controller elects in the simplest correct way. Its answer to a proposed ISR is the decision of the real controller.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from uuid import UUID

from msgspec.structs import replace

from kraft.metadata import partition_decisions
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from kraft.metadata.records import (
    BrokerUnfenced,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    RegisterBroker,
    TopicCreated,
)
from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult, IsrMember
from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from kraft.replication.effects import ProposeIsr

TOPIC = TopicId(UUID(int=7))
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
Record = tuple[int, int]
"""Leader epoch and value."""


class MemoryLog:
    """Records in memory; the first `durable_end` of them are on the simulated disk."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._durable_end = 0

    @property
    def durable_end(self) -> int:
        return self._durable_end

    @property
    def log_start_offset(self) -> int:
        return 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def epoch_at(self, offset: Offset, /) -> int:
        return self.records[offset][0] if 0 <= offset < len(self.records) else -1

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        """Answer as Kafka's cache does: nothing for an epoch above all known ones."""
        if not self.records or epoch > self.records[-1][0]:
            return -1, -1
        end_offset = bisect_right(self.records, int(epoch), key=_epoch_of)
        return (self.records[end_offset - 1][0] if end_offset else int(epoch)), end_offset

    def read(self, offset: int, records_max: int) -> bytes:
        batch = self.records[offset : offset + records_max]
        return json.dumps([offset, batch]).encode() if batch else b""

    def append(self, leader_epoch: int, value: int) -> None:
        self.records.append((leader_epoch, value))

    def append_as_follower(self, data: bytes) -> bool:
        base_offset, batch = json.loads(data)
        if base_offset != len(self.records):
            return False
        self.records += [(epoch, value) for epoch, value in batch]
        return True

    def sync(self) -> None:
        self._durable_end = len(self.records)

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self._durable_end = min(self.durable_end, offset)

    def lose_power(self, kept_end: int) -> None:
        """Keep the synced records, and of the rest those below `kept_end`."""
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

    @property
    def image(self) -> PartitionImage:
        return PartitionImage(
            partition=0,
            replicas=BROKERS,
            isr=self.isr,
            leader=NO_BROKER if self.leader is None else self.leader,
            leader_epoch=LeaderEpoch(self.leader_epoch),
            partition_epoch=PartitionEpoch(self.partition_epoch),
        )


@dataclass(frozen=True)
class AlterAttempt:
    """A proposal in flight, with the broker epoch of its sender."""

    sender: BrokerId
    broker_epoch: int
    proposal: ProposeIsr


@dataclass(frozen=True)
class AlterAnswer:
    attempt: int
    result: AlterPartitionResult


class Controller:
    """Elects only from the ISR, unless it is told to; `history` is the metadata log that the brokers read."""

    def __init__(self, *, refusals_begin_epochs: bool = True) -> None:
        self.refusals_begin_epochs = refusals_begin_epochs
        self.broker_epochs = {broker: int(broker) for broker in BROKERS}
        self.unfenced = set(BROKERS)
        self.history = [PartitionState(BROKERS[0], 1, 1, BROKERS)]

    @property
    def state(self) -> PartitionState:
        return self.history[-1]

    def register(self, broker: BrokerId) -> None:
        """Register a broker after a crash: its earlier roles and ISR memberships end."""
        self.fence(broker)
        self.broker_epochs[broker] = max(self.broker_epochs.values()) + 1
        self.unfence(broker)

    def fence(self, broker: BrokerId) -> None:
        self.unfenced.discard(broker)
        state = self.state
        # The last replica of the ISR stays in it: it is the only one known to have every committed record.
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

    def elect_uncleanly(self, broker: BrokerId) -> None:
        """Let a replica lead that is not in sync; it is the only one that is then."""
        self._publish(broker, (broker,))

    def alter_partition(self, attempt: AlterAttempt) -> AlterAnswer:
        proposal = attempt.proposal
        request = AlterPartitionRequest(
            broker_id=attempt.sender,
            broker_epoch=BrokerEpoch(attempt.broker_epoch),
            topic_id=TOPIC,
            partition=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr=[IsrMember(broker_id=each.broker_id, broker_epoch=each.broker_epoch) for each in proposal.isr],
        )
        decision = partition_decisions.alter_partition(self._image(), request)
        if decision.response.error_code is not ErrorCode.NONE and not self.refusals_begin_epochs:
            state = self.state
            answer = replace(decision.response, partition_epoch=PartitionEpoch(state.partition_epoch))
            return AlterAnswer(proposal.attempt, answer)
        for record in decision.records:
            assert isinstance(record, PartitionChanged)
            isr = tuple(record.isr)
            self.history.append(PartitionState(record.leader, record.leader_epoch, record.partition_epoch, isr))
        return AlterAnswer(proposal.attempt, decision.response)

    def _image(self) -> MetadataImage:
        """The controller's image, without eligible replicas."""
        state = self.state
        records: list[MetadataRecord] = [
            RegisterBroker(
                broker_id=broker,
                incarnation_id=UUID(int=epoch),
                broker_epoch=BrokerEpoch(epoch),
                endpoints=[],
                rack="",
                directory_ids=[],
            )
            for broker, epoch in sorted(self.broker_epochs.items(), key=lambda item: item[1])
        ]
        records += [
            BrokerUnfenced(broker_id=broker, broker_epoch=BrokerEpoch(self.broker_epochs[broker]))
            for broker in sorted(self.unfenced)
        ]
        partition = PartitionCreated(
            topic_id=TOPIC,
            partition=0,
            replicas=list(BROKERS),
            isr=list(state.isr),
            leader=NO_BROKER if state.leader is None else state.leader,
            leader_epoch=LeaderEpoch(state.leader_epoch),
            partition_epoch=PartitionEpoch(state.partition_epoch),
        )
        return EMPTY_IMAGE.replay([*records, TopicCreated(topic="simulated", topic_id=TOPIC), partition])

    def _publish(self, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> None:
        if leader is None:
            leader = next((broker for broker in isr if broker in self.unfenced), None)
        state = self.state
        if (leader, isr) == (state.leader, state.isr):
            return
        leader_epoch = state.leader_epoch + (leader != state.leader)
        self.history.append(PartitionState(leader, leader_epoch, state.partition_epoch + 1, isr))
