"""One partition under the real decisions of the controller, and the logs of its replicas as lists of records.

The model has what matters for an election: which node has which records, which of them were acknowledged, and what a
power failure or an empty disk removes. The leader commits as `kraft.replication.leader` does, and its own
min.insync.replicas may differ from the controller's. Metadata reaches every node at once; the replication simulation
covers late metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from kraft.log.topic_config import TopicConfig
from kraft.metadata import broker_decisions, election_decisions, partition_decisions, reassignment
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.features import ELIGIBLE_REPLICAS_VERSION
from kraft.metadata.image import MetadataImage, PartitionImage
from kraft.metadata.records import FeatureLevelSet
from kraft.model.alter_partition import AlterPartitionRequest, IsrMember
from kraft.model.errors import ErrorCode
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import NO_LEADER_EPOCH, BrokerId, DirectoryId, LeaderEpoch
from kraft.model.partitions import ElectionType
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.cluster_images import ORDERS, cluster, epoch_of, partition, registration, with_topic

BROKERS = (1, 2, 3, 4)
REPLICAS = (1, 2, 3)


class AcknowledgedIsLost(AssertionError):
    """A leader, or a node that may be elected, lacks acknowledged records."""


@dataclass
class Node:
    """A broker's process and its disk. `knows_of_loss`: it found that its log is gone, and has not reported it yet."""

    log: list[int] = field(default_factory=list)
    is_up: bool = True
    process: int = 1
    directory: int = 0
    may_have_lost_records: bool = False
    used_in: LeaderEpoch = NO_LEADER_EPOCH
    knows_of_loss: bool = False


@dataclass(frozen=True)
class Variant:
    """Guards that are removed, to show that they are needed. The default removes none."""

    keeps_eligible_replicas: bool = True
    leader_minds_elr: bool = True


class World:
    def __init__(self, variant: Variant | None = None, *, minimum: int = 2, leaders_minimum: int | None = None) -> None:
        """`minimum` is min.insync.replicas in the controller's file, `leaders_minimum` in those of the brokers."""
        self.variant = variant or Variant()
        self.defaults: TopicConfig = broker_defaults({"min.insync.replicas": str(minimum)})
        self.leaders_minimum = minimum if leaders_minimum is None else leaders_minimum
        self.image: MetadataImage = with_topic(cluster(*BROKERS), REPLICAS)
        if not self.variant.keeps_eligible_replicas:
            self.image = self.image.replay([FeatureLevelSet(feature=ELIGIBLE_REPLICAS_VERSION, level=0)])
        self.nodes = {broker: Node(directory=broker) for broker in BROKERS}
        self.acknowledged: list[int] = []
        self.losses = 0
        """Number of times that the only replica left led without all acknowledged records."""
        self._next = 0

    @property
    def state(self) -> PartitionImage:
        return partition(self.image)

    @property
    def leader(self) -> int | None:
        """The broker that serves the partition."""
        leader = int(self.state.leader)
        return leader if self.state.has_leader and self.nodes[leader].is_up else None

    # --- records ---------------------------------------------------------------------------------------------

    def produce(self) -> None:
        if self.leader is not None and not self.nodes[self.leader].knows_of_loss:
            self._next += 1
            self.nodes[self.leader].log.append(self._next)
            self._commit()

    def fetch(self, follower: int) -> None:
        """Make the follower's log equal to the leader's; then the leader adds it to the ISR."""
        leader, node = self.leader, self.nodes[follower]
        can_fetch = leader not in (None, follower) and node.is_up and follower in self.state.replicas
        if not can_fetch or node.knows_of_loss or leader is None or self.nodes[leader].knows_of_loss:
            return
        node.log[:] = self.nodes[leader].log
        if follower not in self.state.isr:
            self._propose(leader, *self.state.isr, follower)
        self._commit()

    def drop_laggard(self, follower: int) -> None:
        if self.leader is not None and follower != self.leader and follower in self.state.isr:
            self._propose(self.leader, *(member for member in self.state.isr if member != follower))
            self._commit()

    def _propose(self, leader: int, *isr: int) -> None:
        request = AlterPartitionRequest(
            broker_id=BrokerId(leader),
            broker_epoch=epoch_of(self.image, leader),
            topic_id=ORDERS,
            partition=0,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            new_isr=[IsrMember(broker_id=BrokerId(each), broker_epoch=epoch_of(self.image, each)) for each in isr],
        )
        decision = partition_decisions.alter_partition(self.image, request, defaults=self.defaults)
        before = self.state
        self._apply(decision)
        if decision.response.error_code is ErrorCode.NONE and decision.records and not before.is_reassigned:
            assert tuple(decision.response.elr) == self.state.elr, "the answer says what the metadata says"

    def _commit(self) -> None:
        state, leader = self.state, self.leader
        if leader is None or self.nodes[leader].knows_of_loss:
            return
        is_below_minimum = len(state.isr) < min(self.leaders_minimum, len(state.replicas))
        if is_below_minimum or (self.variant.leader_minds_elr and state.elr):
            return
        logs = [self.nodes[member].log for member in state.isr]
        common = [records[0] for records in takewhile(lambda each: len(set(each)) == 1, zip(*logs, strict=False))]
        if len(common) > len(self.acknowledged):
            self.acknowledged = common

    # --- brokers ---------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """Kill the process; the disk keeps everything that it wrote."""
        self.nodes[broker].is_up = False

    def lose_power(self, broker: int, *, kept: int, acknowledges_from_memory: bool = True) -> None:
        """Cut the power: of the unsynced records only the first `kept` survive; with fsync before the ack all are."""
        node = self.nodes[broker]
        node.is_up = False
        if acknowledges_from_memory:
            node.may_have_lost_records = True
            del node.log[kept:]

    def empty_disk(self, broker: int) -> None:
        """Replace the broker's disk by an empty one; its id stays."""
        node = self.nodes[broker]
        node.is_up = False
        node.log.clear()
        node.directory += 100
        node.knows_of_loss = True

    def clear_directory(self, broker: int) -> None:
        """Delete everything but the directory's id."""
        self.empty_disk(broker)
        self.nodes[broker].directory -= 100

    def fence(self, broker: int) -> None:
        """Fence the broker, as after a missed session."""
        epoch = epoch_of(self.image, broker)
        self._apply(broker_decisions.fence_broker(self.image, BrokerId(broker), epoch, self.defaults))

    def start(self, broker: int) -> None:
        """The broker registers as a new process; it is in service with the next heartbeat."""
        node = self.nodes[broker]
        if node.is_up:
            return
        node.is_up, node.process, node.used_in = True, node.process + 1, NO_LEADER_EPOCH
        request = replace(
            registration(broker, process=node.process),
            directory_ids=[DirectoryId(UUID(int=node.directory))],
            may_have_lost_records=node.may_have_lost_records,
        )
        node.may_have_lost_records = False
        self._apply(
            broker_decisions.register_broker(self.image, request, session_is_alive=False, defaults=self.defaults),
        )

    def heartbeat(self, broker: int, *, wants_shutdown: bool = False) -> None:
        if self.nodes[broker].is_up:
            request = BrokerHeartbeatRequest(
                broker_id=BrokerId(broker),
                broker_epoch=epoch_of(self.image, broker),
                metadata_index=1,
                wants_shutdown=wants_shutdown,
            )
            self._apply(
                broker_decisions.heartbeat(
                    self.image, request, caught_up_from_index=0, committed_index=1, defaults=self.defaults
                )
            )

    def tell_of_loss(self, broker: int) -> None:
        """Report that the broker's replica is gone, and create it again once it is out of the ISR and the ELR."""
        node = self.nodes[broker]
        if not node.is_up or not node.knows_of_loss:
            return
        failed = FailedReplica(topic_id=ORDERS, partition=0, leader_epoch=node.used_in)
        request = FailReplicasRequest(
            broker_id=BrokerId(broker), broker_epoch=epoch_of(self.image, broker), replicas=[failed]
        )
        self._apply(partition_decisions.fail_replicas(self.image, request, defaults=self.defaults))
        if self.state.has_leader and not self.state.counts_on(BrokerId(broker)):
            node.knows_of_loss = False

    def come_back(self, broker: int) -> None:
        """Start a broker that reports its loss until the metadata shows it, even if it becomes leader meanwhile."""
        self.start(broker)
        self.tell_of_loss(broker)
        self.heartbeat(broker)
        self.tell_of_loss(broker)

    # --- operators -------------------------------------------------------------------------------------------

    def elect_preferred(self) -> None:
        topics = (TopicPartitions(topic="orders", partitions=(0,)),)
        request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=topics)
        self._apply(election_decisions.elect_leaders(self.image, request, defaults=self.defaults))

    def reassign(self, *target: int) -> None:
        """Reassign to these brokers; with none, cancel the current reassignment."""
        asked = ReassignablePartition(partition_index=0, replicas=target or None)
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="orders", partitions=(asked,)),))
        self._apply(reassignment.alter_partition_reassignments(self.image, request, defaults=self.defaults))

    def restart_with_minimum(self, minimum: int) -> None:
        """Restart the controllers with another minimum; the brokers' own may change later, or never."""
        self.defaults = broker_defaults({"min.insync.replicas": str(minimum)})
        self._apply(election_decisions.clear_stale_elrs(self.image, defaults=self.defaults))

    # --- what must hold ----------------------------------------------------------------------------------------

    def _apply(self, decision: Decision[Any]) -> None:
        self.image = self.image.replay(decision.records)
        self._take_what_is_left()
        self.check()

    def _take_what_is_left(self) -> None:
        """Accept the loss if the only replica left leads with fewer records than were acknowledged."""
        state, leader = self.state, self.leader
        if leader is None or state.elr or state.isr != (leader,) or self.nodes[leader].knows_of_loss:
            return
        if self.nodes[leader].log[: len(self.acknowledged)] != self.acknowledged:
            self.losses += 1
            del self.acknowledged[:]
            self._commit()

    def check(self) -> None:
        state = self.state
        # I7, I8; the image refuses such records as well, these checks do not rely on it.
        assert state.isr, "the ISR is empty"
        assert set(state.isr) <= set(state.replicas), "I7: the ISR lies within the replicas"
        assert not state.has_leader or state.leader in state.isr, "I7: the leader is in the ISR"
        assert set(state.elr) <= set(state.replicas), "I8: the ELR lies within the replicas"
        assert not set(state.elr) & set(state.isr), "I8: the ELR is apart from the ISR"
        assert not set(state.last_known_elr) & {*state.isr, *state.elr}, "I8: what was eligible is not any more"
        assert not state.elr or self.variant.keeps_eligible_replicas, "the feature is off"
        for member in (*state.isr, *state.elr):
            node = self.nodes[member]
            # If a process that has ended lost records, the next one reports that before it can be elected.
            is_told = node.is_up and not node.knows_of_loss
            if is_told and node.log[: len(self.acknowledged)] != self.acknowledged:
                if state.isr == (member,) and not state.elr:
                    continue
                raise AcknowledgedIsLost(f"{member} of {state} has {node.log}, acknowledged is {self.acknowledged}")
