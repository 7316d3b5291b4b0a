"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.assignors.assignor import Partitions, by_topic
from kraft.coordinator.consumer.records import partitions_of_topics
from kraft.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    MemberDescription,
)
from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.queries import describe_consumer
from kraft.metadata.features import require_groups
from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.groups import MemberType
from kraft.model.request_context import RequestContext
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.handlers.authorized_operations import on_group
from kraft.server.loop.turns import Turns
from kraft.wire.schema import consumer_group_describe as described
from kraft.wire.schema.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBERS_AT_ONCE: Final = 100
"""Members described before other tasks have their turn."""

ENTRIES_OF_MEMBER: Final = 20
"""Topic names and partitions of a member that take about as long as a member without any."""


class ConsumerGroupsHandler:
    def __init__(self, coordinators: GroupCoordinators, image: CurrentImage) -> None:
        self._coordinators = coordinators
        self._image = image

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the member's epoch, and its assignment if it has changed. Raises Refusal."""
        self._require_protocol()
        names, owned = request.subscribed_topic_names, request.topic_partitions
        command = ConsumerHeartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=None if names is None else frozenset(names),
            topic_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=None if owned is None else partitions_of_topics(owned),
            client_id=context.client_id,
            client_host=context.client_host,
            api_version=context.version,
        )
        response: ConsumerHeartbeatResponse = await self._coordinators.decide(request.group_id, command)
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=response.member_id,
            member_epoch=response.member_epoch,
            heartbeat_interval_ms=response.heartbeat_interval_ms,
            assignment=None if response.assignment is None else self._assignment(response.assignment),
        )

    async def describe(
        self, request: described.ConsumerGroupDescribeRequest
    ) -> described.ConsumerGroupDescribeResponse:
        """Return each group of the consumer protocol, or its Refusal; once if the request repeats it."""
        turns = Turns(MEMBERS_AT_ONCE)
        operations = on_group(asked=request.include_authorized_operations)
        groups = [await self._described(group_id, operations, turns) for group_id in dict.fromkeys(request.group_ids)]
        return described.ConsumerGroupDescribeResponse(groups=tuple(groups))

    async def _described(self, group_id: str, operations: int, turns: Turns) -> described.DescribedGroup:
        await turns.done_with_id(group_id)
        try:
            group = self._description(group_id)
        except Refusal as refusal:
            return refused_group(group_id, refusal)
        members = []
        for each in group.members:
            members.append(self._member(each))
            entries = len(each.member.topics) + len(each.member.owned) + len(each.target)
            await turns.done(1 + entries // ENTRIES_OF_MEMBER)
        return described.DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.assignor,
            members=tuple(members),
            authorized_operations=operations,
        )

    def _description(self, group_id: str) -> ConsumerGroupDescription:
        self._require_protocol()
        if not group_id:
            raise empty_group_id()
        view = self._coordinators.view(group_id)
        return describe_consumer(view.committed, view.volatile, group_id, view.settings)

    def _member(self, description: MemberDescription) -> described.Member:
        member = description.member
        return described.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.topics)),
            subscribed_topic_regex=member.topic_regex,
            assignment=self._named(member.owned),
            target_assignment=self._named(description.target),
            member_type=MemberType.CONSUMER if member.classic is None else MemberType.CLASSIC,
        )

    def _named(self, partitions: Partitions) -> described.Assignment:
        """Return the partitions without those of topics that were deleted, which have no name."""
        image = self._image()
        topics = ((image.topic_by_id(topic_id), numbers) for topic_id, numbers in by_topic(partitions).items())
        return described.Assignment(
            topic_partitions=tuple(
                described.TopicPartitions(topic_id=topic.topic_id, topic_name=topic.topic, partitions=tuple(numbers))
                for topic, numbers in topics
                if topic is not None
            )
        )

    def _assignment(self, partitions: Partitions) -> Assignment:
        image = self._image()
        return Assignment(
            topic_partitions=tuple(
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name="" if (topic := image.topic_by_id(topic_id)) is None else topic.topic,
                    partitions=tuple(numbers),
                )
                for topic_id, numbers in by_topic(partitions).items()
            )
        )

    def _require_protocol(self) -> None:
        require_groups(self._image(), "the consumer protocol")


def refused_group(group_id: str, refusal: Refusal) -> described.DescribedGroup:
    return described.DescribedGroup(
        error_code=refusal.error_code,
        error_message=refusal.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
