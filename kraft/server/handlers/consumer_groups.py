"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.consumer.requests import GroupDescription, Heartbeat, HeartbeatResponse, MemberDescription
from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.queries import describe_consumer
from kraft.metadata.features import require_groups
from kraft.metadata.image import MetadataImage
from kraft.model.consumer_groups import (
    Assignment,
    ConsumerGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMember,
    MemberHeartbeat,
    TopicPartitions,
)
from kraft.model.errors import Refusal
from kraft.model.ids import TopicId
from kraft.rpc.call import Served
from kraft.rpc.group_calls import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.handlers.client_hosts import client_host
from kraft.server.loop.turns import Turns

MEMBERS_AT_ONCE: Final = 100
"""Members described before other tasks have their turn."""


class ConsumerGroupsHandler:
    def __init__(self, coordinators: GroupCoordinators, image: Callable[[], MetadataImage]) -> None:
        self._coordinators = coordinators
        self._image = image

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, peer: str, api_version: int = 1
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the member's epoch, and its assignment if it has changed. Raises Refusal."""
        self._require_protocol()
        command = Heartbeat(
            **{field: getattr(request, field) for field in MemberHeartbeat.__struct_fields__},
            topics=None if request.subscription is None else frozenset(request.subscription.names),
            owned=None if request.owned is None else _partitions(request.owned),
            client_host=client_host(peer),
            api_version=api_version,
        )
        response: HeartbeatResponse = await self._coordinators.decide(request.group_id, command)
        return ConsumerGroupHeartbeatResponse(
            member_id=response.member_id,
            member_epoch=response.member_epoch,
            heartbeat_interval_ms=response.heartbeat_interval_ms,
            assignment=None if response.assignment is None else self._assignment(response.assignment),
        )

    async def describe(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        """Return each group of the consumer protocol, or its Refusal; once if the request repeats it."""
        turns = Turns(MEMBERS_AT_ONCE)
        return ConsumerGroupDescribeResponse(
            groups=tuple([await self._described(group_id, turns) for group_id in dict.fromkeys(request.group_ids)])
        )

    async def _described(self, group_id: str, turns: Turns) -> ConsumerGroup:
        await turns.done_with_id(group_id)
        try:
            group = self._description(group_id)
        except Refusal as refusal:
            return ConsumerGroup(group_id=group_id, error_code=refusal.error_code, error_message=refusal.message)
        members = []
        for described in group.members:
            members.append(self._member(described))
            await turns.done()
        return ConsumerGroup(
            group_id=group_id,
            state=group.state.value,
            epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.assignor,
            members=tuple(members),
        )

    def _description(self, group_id: str) -> GroupDescription:
        self._require_protocol()
        if not group_id:
            raise empty_group_id()
        view = self._coordinators.view(group_id)
        return describe_consumer(view.committed, view.volatile, group_id, view.settings)

    def _member(self, described: MemberDescription) -> ConsumerGroupMember:
        member = described.member
        return ConsumerGroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=tuple(sorted(member.topics)),
            topic_regex=member.topic_regex,
            assignment=self._assignment(member.owned),
            target=self._assignment(described.target),
            is_classic=member.classic is not None,
        )

    def _assignment(self, partitions: Partitions) -> Assignment:
        by_topic: dict[TopicId, list[int]] = {}
        for topic_id, partition in sorted(partitions):
            by_topic.setdefault(topic_id, []).append(partition)
        image = self._image()
        return Assignment(
            tuple(
                TopicPartitions(
                    topic_id=topic_id,
                    topic="" if (topic := image.topic_by_id(topic_id)) is None else topic.topic,
                    partitions=tuple(numbers),
                )
                for topic_id, numbers in by_topic.items()
            )
        )

    def _require_protocol(self) -> None:
        require_groups(self._image(), "the consumer protocol")

    def served(self) -> list[Served]:
        return [
            CONSUMER_GROUP_HEARTBEAT.served_to_peer_by(self.heartbeat),
            CONSUMER_GROUP_DESCRIBE.served_by(self.describe),
        ]


def _partitions(assignment: Assignment) -> Partitions:
    return frozenset((topic.topic_id, partition) for topic in assignment.topics for partition in topic.partitions)
