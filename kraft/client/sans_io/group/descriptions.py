"""Groups as the admin client returns them, whichever protocol they use."""

from __future__ import annotations

from msgspec import Struct

from kraft.client.sans_io.group.consumer_protocol import decode_assignment
from kraft.model.groups import MemberType
from kraft.model.ids import TopicPartition
from kraft.wire.errors import ProtocolError
from kraft.wire.schema import consumer_group_describe, describe_groups, list_groups
from kraft.wire.schema.find_coordinator import Coordinator

CONSUMER_PROTOCOL_TYPE = "consumer"
"""Protocol type of consumers; groups of other programs, such as Kafka Connect, have their own."""


class ListedGroup(Struct, frozen=True, kw_only=True):
    """A group that a broker coordinates."""

    group_id: str
    protocol_type: str
    """Such as `consumer` or `connect`; empty for a group that has only committed offsets."""

    state: str
    """Kafka's name of it."""

    type: str
    """`classic` or `consumer`."""

    rebalances: int = 0
    """How many began within five minutes, as its coordinator has seen; 50 stands for that many or more."""


class GroupMember(Struct, frozen=True, kw_only=True):
    """A member, and the partitions that it has now."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """In order. Empty for a member whose protocol type is not `consumer`, or whose assignment cannot be read."""

    target: tuple[TopicPartition, ...] | None = None
    """The partitions that it will have when the rebalance is over; None for a member of a classic group."""

    member_epoch: int | None = None
    """None for a member of a classic group."""

    upgraded: bool | None = None
    """False for a member of a consumer group that uses the classic protocol; None for a member of a classic group."""


class GroupDescription(Struct, frozen=True, kw_only=True):
    """State and members of one group."""

    group_id: str
    type: str
    """`classic` or `consumer`."""

    protocol_type: str
    state: str
    assignor: str
    """Empty while a classic group is not stable."""

    coordinator: Coordinator
    members: tuple[GroupMember, ...]
    group_epoch: int | None = None
    """None for a classic group, as for the next field."""

    target_assignment_epoch: int | None = None


def listed(group: list_groups.ListedGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        state=group.group_state,
        type=group.group_type,
        rebalances=group.rebalances,
    )


def of_classic(group: describe_groups.DescribedGroup, coordinator: Coordinator) -> GroupDescription:
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        protocol_type=group.protocol_type,
        state=group.group_state,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(each, is_consumer) for each in group.members),
    )


def of_consumer(group: consumer_group_describe.DescribedGroup, coordinator: Coordinator) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_consumer_member, group.members)),
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _classic_member(member: describe_groups.DescribedGroupMember, is_consumer: bool) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assigned_to(member.member_assignment) if is_consumer else (),
    )


def _consumer_member(member: consumer_group_describe.Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        member_epoch=member.member_epoch,
        upgraded=member.member_type != MemberType.CLASSIC,
    )


def assigned_to(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a consumer's assignment; none for bytes that are not one, which the leader sent."""
    try:
        return tuple(sorted(decode_assignment(assignment)))
    except ProtocolError:
        return ()


def _partitions(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    found = (
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )
    return tuple(sorted(found))
