from __future__ import annotations

import pytest

from kraft.model import consumer_groups as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.server.kafka_listener.apis.authorized_operations import NOT_ASKED, ON_GROUP
from kraft.server.kafka_listener.apis.consumer_group_describe import ConsumerGroupDescribeApi
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.support.cluster_images import ORDERS
from tests.unit.server.kafka_listener.apis.listener import UNKNOWN_ID, answered, versions_of

ASSIGNMENT = values.Assignment(
    (
        values.TopicPartitions(topic_id=ORDERS, topic="orders", partitions=(0, 1)),
        values.TopicPartitions(topic_id=TopicId(UNKNOWN_ID), partitions=(0,)),
    )
)


async def handle(asked: values.ConsumerGroupDescribeRequest) -> values.ConsumerGroupDescribeResponse:
    member = values.ConsumerGroupMember(
        member_id="m",
        instance_id=None,
        rack_id="a",
        member_epoch=3,
        client_id="tester",
        client_host="/10.0.0.7",
        topics=("orders",),
        topic_regex="",
        assignment=ASSIGNMENT,
        target=values.Assignment(),
    )
    described = values.ConsumerGroup(
        group_id="g", state="Stable", epoch=4, assignment_epoch=3, assignor="uniform", members=(member,)
    )
    refused = values.ConsumerGroup(
        group_id="none", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="there is none"
    )
    return values.ConsumerGroupDescribeResponse(
        groups=tuple(described if group_id == "g" else refused for group_id in asked.group_ids)
    )


@pytest.mark.parametrize("version", versions_of(ConsumerGroupDescribeRequest))
async def test_groups_are_described_with_their_members(version: int) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=("g", "none"), include_authorized_operations=True)
    response = await answered(ConsumerGroupDescribeApi(handle), request, version, ConsumerGroupDescribeResponse)
    group, refused = response.groups
    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (4, 3, "uniform")
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", None, "a", 3)
    assert (member.client_id, member.client_host) == ("tester", "/10.0.0.7")
    assert (member.subscribed_topic_names, member.member_type) == (("orders",), 1 if version >= 1 else -1)
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (ORDERS, "orders", (0, 1)), "only what exists"
    assert member.target_assignment.topic_partitions == ()
    assert (refused.error_code, refused.error_message) == (69, "there is none")
    assert (group.authorized_operations, refused.authorized_operations) == (ON_GROUP, NOT_ASKED)
