from __future__ import annotations

from kraft.model import consumer_groups as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.server.kafka_listener.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatApi
from kraft.wire.schema.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.cluster_images import ORDERS
from tests.unit.server.kafka_listener.apis.listener import answered

OWNED = values.Assignment((values.TopicPartitions(topic_id=ORDERS, partitions=(0, 1)),))


async def test_a_heartbeat_is_taken_with_its_sender_and_answered_with_the_assignment() -> None:
    async def handle(
        request: values.ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> values.ConsumerGroupHeartbeatResponse:
        assert (request.client_id, context.peer, context.version) == ("tester", "10.0.0.7:5100", 1)
        assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 3)
        assert (request.subscription, request.owned) == (values.TopicNames(("orders",)), OWNED)
        assert (request.topic_regex, request.rebalance_timeout_ms) == ("pay.*", 60_000)
        return values.ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=4, heartbeat_interval_ms=5_000, assignment=OWNED
        )

    partitions = (TopicPartitions(topic_id=ORDERS, partitions=(0, 1)),)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=3,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        subscribed_topic_regex="pay.*",
        topic_partitions=partitions,
    )
    response = await answered(ConsumerGroupHeartbeatApi(handle), request, 1, ConsumerGroupHeartbeatResponse)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", 4)
    assert response.heartbeat_interval_ms == 5_000
    assert response.assignment is not None
    assert response.assignment.topic_partitions == partitions


async def test_what_is_left_out_stays_left_out_and_a_refusal_has_a_reason() -> None:
    async def handle(
        request: values.ConsumerGroupHeartbeatRequest, *_: object
    ) -> values.ConsumerGroupHeartbeatResponse:
        assert (request.subscription, request.owned, request.topic_regex) == (None, None, None)
        raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, "the epoch is that of an earlier member")

    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    response = await answered(ConsumerGroupHeartbeatApi(handle), request, 0, ConsumerGroupHeartbeatResponse)
    assert (response.error_code, response.error_message) == (110, "the epoch is that of an earlier member")
    assert (response.member_id, response.member_epoch, response.assignment) == (None, 0, None)
