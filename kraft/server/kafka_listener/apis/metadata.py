"""Metadata: list brokers, and topics with their leaders; topics by name, by id, or all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.model import metadata as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from kraft.server.handlers.metadata import PARTITIONS_AT_ONCE
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.encoded_responses import EncodedResponses, encoded
from kraft.server.kafka_listener.requests import EncodedMessage, RequestContext
from kraft.server.loop.turns import Turns
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Handle = Callable[[values.MetadataRequest], Awaitable[values.MetadataResponse]]

_NULL_NAMES_FROM: Final = 12
_LISTENER_NOT_FOUND_FROM: Final = 6


class MetadataApi:
    def __init__(
        self,
        handle: Handle,
        leaders: Leaders,
        broker_id: BrokerId,
        fenced_lately: Callable[[], tuple[BrokerId, ...]],
    ) -> None:
        """`fenced_lately` returns the recently fenced brokers, which are still listed."""
        self._handle = handle
        self._leaders = leaders
        self._broker_id = broker_id
        self._fenced_lately = fenced_lately
        self._everything = EncodedResponses(lambda: leaders.image)

    async def __call__(self, request: MetadataRequest, call: RequestContext) -> MetadataResponse | EncodedMessage:
        # In version 0 an empty list means every topic; later versions use null for that.
        if request.topics is None or (call.version == 0 and not request.topics):
            operations = (request.include_cluster_authorized_operations, request.include_topic_authorized_operations)
            return await self._everything.get(
                (call.version, *operations, self._fenced_lately()),
                lambda: self._describe_all(request, call.version),
            )
        return await self._describe(request, request.topics, call.version)

    async def _describe_all(self, request: MetadataRequest, version: int) -> EncodedMessage:
        response = await self._describe(request, None, version)
        return await encoded(response, version, sum(1 + len(topic.partitions) for topic in response.topics or ()))

    async def _describe(
        self, request: MetadataRequest, topics: Sequence[MetadataRequestTopic] | None, version: int
    ) -> MetadataResponse:
        """Describe `topics`; None: every topic."""
        everything, asked = topics is None, topics or ()
        names = [self._leaders.topic_name("", topic.topic_id) if topic.name is None else topic.name for topic in asked]
        answer = await self._handle(
            values.MetadataRequest(
                topics=[name for name in names if name is not None],
                all_topics=everything,
                allow_auto_topic_creation=request.allow_auto_topic_creation and not everything,
            )
        )
        operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
        without_listener = _WithoutListener(answer, version)
        turns, found = Turns(PARTITIONS_AT_ONCE), []
        for topic in answer.topics:
            found.append(_topic(topic, operations, without_listener))
            await turns.done(1 + len(topic.partitions))
        unknown = [_unknown(topic, version) for topic, name in zip(asked, names, strict=True) if name is None]
        return MetadataResponse(
            brokers=self._brokers(answer),
            cluster_id=answer.cluster_id,
            controller_id=controller_for_clients(answer, self._broker_id),
            topics=(*found, *unknown),
            cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
        )

    def _brokers(self, answer: values.MetadataResponse) -> tuple[MetadataResponseBroker, ...]:
        in_service = {
            each.broker_id: MetadataResponseBroker(
                node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack or None
            )
            for each in answer.brokers
        }
        fenced = {
            broker_id: MetadataResponseBroker(
                node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack or None
            )
            for broker_id, endpoint, rack in self._leaders.endpoints(self._fenced_lately())
        }
        return tuple(broker for _, broker in sorted((fenced | in_service).items()))


def controller_for_clients(answer: values.MetadataResponse, broker_id: BrokerId) -> int:
    """Return a broker that takes requests for the controller: the controller's own, or else the one that answers.

    Every broker forwards such requests, but clients ask only one. `broker_id` is the broker that answers.
    """
    is_broker = any(each.broker_id == answer.controller_id for each in answer.brokers)
    return answer.controller_id if is_broker else broker_id


class _WithoutListener:
    """Leaders without a listener of the name that the client uses, and the error code for their partitions."""

    def __init__(self, answer: values.MetadataResponse, version: int) -> None:
        self._reachable = {each.broker_id for each in answer.brokers}
        is_known = version >= _LISTENER_NOT_FOUND_FROM
        self.error_code = ErrorCode.LISTENER_NOT_FOUND if is_known else ErrorCode.LEADER_NOT_AVAILABLE

    def __contains__(self, leader_id: int) -> bool:
        return leader_id >= 0 and leader_id not in self._reachable


def _topic(topic: values.TopicMetadata, operations: int, without_listener: _WithoutListener) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=topic.error_code,
        name=topic.topic,
        topic_id=topic.topic_id,
        is_internal=topic.topic in INTERNAL_TOPICS,
        partitions=tuple(_partition(each, without_listener) for each in topic.partitions),
        topic_authorized_operations=operations,
    )


def _partition(partition: values.PartitionMetadata, without_listener: _WithoutListener) -> MetadataResponsePartition:
    leader_id, error_code = partition.leader_id, ErrorCode.NONE
    if leader_id in without_listener:
        leader_id, error_code = NO_BROKER, without_listener.error_code
    elif leader_id < 0:
        error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition.partition,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(partition.replicas),
        isr_nodes=tuple(partition.isr),
        offline_replicas=tuple(partition.offline_replicas),
    )


def _unknown(topic: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    """Return the result for a topic id that no topic has."""
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        name=None if version >= _NULL_NAMES_FROM else "",
        topic_id=topic.topic_id,
        partitions=(),
    )
