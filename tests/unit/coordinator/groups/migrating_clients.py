"""Clients of both protocols, as Kafka's own behave: what they own changes only as their protocol allows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TypeAlias

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from kraft.coordinator.shard import Ticket
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire import codec
from kraft.wire.schema import heartbeat
from kraft.wire.schema.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.classic_requests import assigning, offered
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, joining_consumer

TOPIC = "orders"
Owned: TypeAlias = Partitions


def subscription_of(owned: frozenset[int], generation: int = -1, version: int = 3) -> bytes:
    """The subscription of a consumer to TOPIC, with what it owns of it."""
    topics = (TopicPartition(topic=TOPIC, partitions=tuple(sorted(owned))),) if owned else ()
    message = ConsumerProtocolSubscription(
        topics=(TOPIC,), user_data=None, owned_partitions=topics, generation_id=generation
    )
    return b"".join(codec.encode(message, version, bytearray(version.to_bytes(2, "big"))))


class Client(ABC):
    """One consumer; `owned` are the partitions that it reads."""

    def __init__(self, shard: Coordinator, name: str, instance_id: str | None = None) -> None:
        self.shard = shard
        self.name = name
        self.instance_id = instance_id
        self.owned: Partitions = NO_PARTITIONS

    @abstractmethod
    def step(self) -> None:
        """Send the next request, or take up the response to the last one."""

    @abstractmethod
    def miss(self) -> None:
        """The last request had no response: the coordinator has moved, or the connection broke."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group for good."""

    @abstractmethod
    def pause(self) -> None:
        """Stop as a static member does that will come back."""


class ConsumerClient(Client):
    """A client of the consumer protocol. It gives up partitions between two heartbeats."""

    def __init__(self, shard: Coordinator, name: str, instance_id: str | None = None) -> None:
        super().__init__(shard, name, instance_id)
        self.epoch = 0
        self._assigned: Partitions = NO_PARTITIONS

    def step(self) -> None:
        if self.owned - self._assigned:
            self.owned &= self._assigned
            return
        response = self.shard.replies[self.shard.request(self._heartbeat(self.epoch))]
        if isinstance(response, Refusal):
            assert response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH), response
            self.epoch, self.owned, self._assigned = 0, NO_PARTITIONS, NO_PARTITIONS
            return
        assert isinstance(response, ConsumerHeartbeatResponse)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned = response.assignment
            self.owned |= response.assignment

    def miss(self) -> None:
        """Send the next heartbeat, but do not take up its response."""
        if not self.owned - self._assigned and self.epoch:
            self.shard.request(self._heartbeat(self.epoch))

    def leave(self) -> None:
        self.owned = NO_PARTITIONS
        if self.epoch:
            self.shard.request(self._heartbeat(-1))

    def pause(self) -> None:
        self.owned = NO_PARTITIONS
        if self.epoch:
            self.shard.request(self._heartbeat(-2))

    def _heartbeat(self, epoch: int) -> ConsumerHeartbeat:
        """Return a full heartbeat: its response has the assignment."""
        return joining_consumer(self.name, member_epoch=epoch, instance_id=self.instance_id, owned=self.owned)


class ClassicClient(Client):
    """A client of the classic protocol, eager or cooperative. It leads its group where it is asked to."""

    def __init__(self, shard: Coordinator, name: str, instance_id: str | None = None, *, cooperative: bool) -> None:
        super().__init__(shard, name, instance_id)
        self.cooperative = cooperative
        self.member_id = ""
        self.generation = -1
        self._has_to_join = True
        self._waiting: Ticket | None = None

    def step(self) -> None:
        if self._waiting is not None:
            if self._waiting in self.shard.replies:
                waiting, self._waiting = self._waiting, None
                self._receive(self.shard.replies[waiting])
        elif self._has_to_join:
            self._join()
        else:
            self._waiting = self.shard.request(
                HeartbeatRequest(
                    group_id=GROUP,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                    generation_id=self.generation,
                )
            )

    def miss(self) -> None:
        self._has_to_join |= self._waiting is not None
        self._waiting = None

    def leave(self) -> None:
        self.owned = NO_PARTITIONS
        leaving = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.shard.request(LeaveGroupRequest(group_id=GROUP, members=(leaving,)))

    def pause(self) -> None:
        self.owned = NO_PARTITIONS

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = NO_PARTITIONS
        metadata = subscription_of(frozenset(number for _, number in self.owned), self.generation)
        protocols = (offered("range", metadata),)
        self._waiting = self.shard.join(self.member_id, group_instance_id=self.instance_id, protocols=protocols)

    def _receive(self, response: object) -> None:
        match response:
            case MemberIdRequired():
                self.member_id = response.member_id
            case JoinGroupResponse():
                self.member_id, self.generation = response.member_id, response.generation_id
                self._waiting = self.shard.request(self._sync(response))
            case SyncGroupResponse():
                self._take(decode_assignment(response.assignment).assigned_partitions if response.assignment else ())
            case Refusal():
                self._refused(response.error_code)
            case _:
                assert isinstance(response, heartbeat.HeartbeatResponse)

    def _sync(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        owned = {each.member_id: decode_subscription(each.metadata).owned_partitions for each in joined.members}
        return SyncGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.generation,
            assignments=assigning(self._assigned(owned) if joined.leader == self.member_id else {}),
        )

    def _assigned(self, owned: dict[str, tuple[TopicPartition, ...]]) -> dict[str, bytes]:
        """Assign in turn. What another one owns is assigned to nobody, and by the rebalance after that."""
        image = self.shard.image
        owners = {each: member for member, topics in owned.items() for each in partitions_of(topics, image)}
        assigned: dict[str, set[Partition]] = defaultdict(set)
        members = sorted(owned)
        for number in image.topics[image.topic_ids[TOPIC]].partitions:
            partition = (image.topic_ids[TOPIC], number)
            member = members[number % len(members)]
            if owners.get(partition, member) == member:
                assigned[member].add(partition)
        return {
            each: encode_assignment(frozenset(assigned[each]), image, subscription_of(frozenset())) for each in owned
        }

    def _take(self, topics: tuple[TopicPartition, ...]) -> None:
        assigned = partitions_of(topics, self.shard.image)
        self._has_to_join = bool(self.owned - assigned)
        self.owned = assigned

    def _refused(self, error_code: ErrorCode) -> None:
        self._has_to_join = True
        match error_code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case ErrorCode.ILLEGAL_GENERATION:
                self.owned, self.generation = NO_PARTITIONS, -1
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.owned, self.generation, self.member_id = NO_PARTITIONS, -1, ""
            case _:
                raise AssertionError(error_code)
