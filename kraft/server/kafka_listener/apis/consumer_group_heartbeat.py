"""ConsumerGroupHeartbeat: join a group of the consumer protocol, stay in it, or leave it (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import consumer_groups as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Handle = Callable[
    [values.ConsumerGroupHeartbeatRequest, RequestContext], Awaitable[values.ConsumerGroupHeartbeatResponse]
]


class ConsumerGroupHeartbeatApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: ConsumerGroupHeartbeatRequest, call: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        try:
            response = await self._handle(_request(request, call.client_id), call)
        except Refusal as refusal:
            return ConsumerGroupHeartbeatResponse(
                error_code=refusal.error_code, error_message=refusal.message, member_epoch=0, heartbeat_interval_ms=0
            )
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=response.member_id,
            member_epoch=response.member_epoch,
            heartbeat_interval_ms=response.heartbeat_interval_ms,
            assignment=None if response.assignment is None else _assignment(response.assignment),
        )


def _request(request: ConsumerGroupHeartbeatRequest, client_id: str) -> values.ConsumerGroupHeartbeatRequest:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return values.ConsumerGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscription=None if names is None else values.TopicNames(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=client_id,
    )


def _owned(topics: tuple[TopicPartitions, ...]) -> values.Assignment:
    return values.Assignment(
        tuple(values.TopicPartitions(topic_id=TopicId(each.topic_id), partitions=each.partitions) for each in topics)
    )


def _assignment(assignment: values.Assignment) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=each.topic_id, partitions=each.partitions) for each in assignment.topics
        )
    )
