"""A coordinator of one group: it decides, replays the records, and keeps the log and the timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.coordinator.consumer.departures import decide_timer_ended
from kraft.coordinator.consumer.draft import ConsumerGroupDecision
from kraft.coordinator.consumer.group import ConsumerGroup, ConsumerGroupMember, ConsumerGroupState, MemberState
from kraft.coordinator.consumer.heartbeats import decide_heartbeat
from kraft.coordinator.consumer.records import replay
from kraft.coordinator.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    RebalanceTimeout,
    SessionTimeout,
)
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.errors import Refusal
from kraft.model.ids import LeaderEpoch, PartitionEpoch, TopicId
from tests.support.cluster_images import ids

GROUP = "g"


def topic_id(name: str) -> TopicId:
    return TopicId(UUID(bytes=name.encode().rjust(16)))


def partitions(name: str, *numbers: int) -> Partitions:
    return frozenset((topic_id(name), number) for number in numbers)


def image_of(partition_counts: Mapping[str, int]) -> MetadataImage:
    topics = {
        topic_id(name): TopicImage(
            topic=name,
            topic_id=topic_id(name),
            partitions={
                number: PartitionImage(
                    partition=number,
                    replicas=tuple(ids(1)),
                    isr=tuple(ids(1)),
                    leader=ids(1)[0],
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(0),
                )
                for number in range(count)
            },
        )
        for name, count in partition_counts.items()
    }
    return MetadataImage(topics=topics, topic_ids={name: topic_id(name) for name in partition_counts})


def compacted(log: list[GroupRecord]) -> list[GroupRecord]:
    """Return the last record of each key, tombstones included."""
    last = {repr(record.key): number for number, record in enumerate(log)}
    return [record for number, record in enumerate(log) if last[repr(record.key)] == number]


def replayed(log: list[GroupRecord]) -> ConsumerGroup | None:
    group: ConsumerGroup | None = None
    for record in log:
        group = replay(group, record)
    return group


class Coordinator:
    def __init__(self, settings: GroupSettings | None = None, **partition_counts: int) -> None:
        self.settings = settings or GroupSettings(assignment_interval_ms=0)
        self.image = image_of(partition_counts)
        self.state: ConsumerGroup | None = None
        self.log: list[GroupRecord] = []
        self.timers: dict[TimerKey, int] = {}
        self.now_ms = 0
        self._tickets = 0

    @property
    def group(self) -> ConsumerGroup:
        assert self.state is not None
        return self.state

    def member(self, member_id: str) -> ConsumerGroupMember:
        return self.group.members[member_id]

    def context(self) -> DecisionContext:
        self._tickets += 1
        return DecisionContext(now_ms=self.now_ms, image=self.image, random_id=f"random-{self._tickets}")

    def apply(self, decision: ConsumerGroupDecision) -> None:
        for record in decision.records:
            self.state = replay(self.state, record)
        self.log += decision.records
        for key, after_ms in decision.timers.items():
            if after_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = after_ms

    def decide(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResponse | Refusal:
        context = self.context()
        decision = decide_heartbeat(self.state, Ticket(self._tickets), request, context, self.settings)
        [reply] = decision.replies
        assert reply.ticket == self._tickets
        assert isinstance(reply.response, ConsumerHeartbeatResponse | Refusal)
        if isinstance(reply.response, Refusal):
            assert not decision.records
            assert not decision.timers
        self.apply(decision)
        return reply.response

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResponse:
        response = self.decide(ConsumerHeartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields))
        assert isinstance(response, ConsumerHeartbeatResponse), response
        return response

    def refusal(self, member_id: str, epoch: int, **fields: Any) -> str:
        """Send a heartbeat that is refused, and return the name of the error."""
        response = self.decide(ConsumerHeartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields))
        assert isinstance(response, Refusal), response
        return response.error_code.name

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatResponse:
        fields = {"rebalance_timeout_ms": 60_000, "owned": NO_PARTITIONS, "topics": frozenset(topics)} | fields
        return self.heartbeat(member_id, 0, **fields)

    def end(self, key: SessionTimeout | RebalanceTimeout) -> None:
        del self.timers[key]
        self.apply(decide_timer_ended(self.state, key, self.context()))

    def settle(self) -> None:
        """Let every member do what it is asked to, until the group is stable."""
        for _ in range(20):
            for member_id in sorted(self.group.members):
                member = self.member(member_id)
                if member.epoch >= 0:
                    self.heartbeat(member_id, member.epoch, owned=member.assigned)
            if self.group.state is ConsumerGroupState.STABLE:
                return
        raise AssertionError(f"{self.group} did not become stable")

    def owners(self) -> dict[Partition, str]:
        """Return the owner of each partition; fails if one has two."""
        owned = [(partition, m.member_id) for m in self.group.members.values() for partition in m.owned]
        assert len(dict(owned)) == len(owned)
        assert dict(self.group.owners) == dict(owned)
        return dict(owned)


def pair() -> Coordinator:
    """A stable group of two members, each with two of the four partitions."""
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.settle()
    return group


def revoking_in_a_later_epoch() -> Coordinator:
    """A group whose member m1 owns four partitions, and has to give up two of them, in epoch 4 as once in epoch 2."""
    group = pair()
    group.heartbeat("m2", -1)
    group.settle()
    group.join("m3", "a")
    group.heartbeat("m1", 4)
    assert group.member("m1").state is MemberState.UNREVOKED_PARTITIONS
    return group
