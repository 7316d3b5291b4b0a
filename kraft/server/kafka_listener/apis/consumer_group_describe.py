"""ConsumerGroupDescribe: state and members of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import consumer_groups as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.authorized_operations import NOT_ASKED, ON_GROUP
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1

Handle = Callable[[values.ConsumerGroupDescribeRequest], Awaitable[values.ConsumerGroupDescribeResponse]]


class ConsumerGroupDescribeApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: ConsumerGroupDescribeRequest, call: RequestContext
    ) -> ConsumerGroupDescribeResponse:
        described = await self._handle(values.ConsumerGroupDescribeRequest(group_ids=request.group_ids))
        operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED
        return ConsumerGroupDescribeResponse(groups=tuple(_group(each, operations) for each in described.groups))


def _group(group: values.ConsumerGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(map(_member, group.members)),
        authorized_operations=operations if group.error_code is ErrorCode.NONE else NOT_ASKED,
    )


def _member(member: values.ConsumerGroupMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(assignment: values.Assignment) -> Assignment:
    """Return the assignment without topics that were deleted, which have no name."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=each.topic_id, topic_name=each.topic, partitions=each.partitions)
            for each in assignment.topics
            if each.topic
        )
    )
