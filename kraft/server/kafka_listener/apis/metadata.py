"""Metadata: which brokers there are, and who leads what. Topics are asked for by name, by id, or all at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import requests as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.server.kafka_listener.apis.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.requests import Call
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Handle = Callable[[values.MetadataRequest], Awaitable[values.MetadataResponse]]

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})

_NULL_NAMES_FROM: Final = 12


class MetadataApi:
    def __init__(self, handle: Handle, leaders: Leaders, broker_id: BrokerId) -> None:
        self._handle = handle
        self._leaders = leaders
        self._broker_id = broker_id

    async def __call__(self, request: MetadataRequest, call: Call) -> MetadataResponse:
        # In version 0 no topic at all means every topic; later that is what null says.
        everything = request.topics is None or (call.version == 0 and not request.topics)
        asked = request.topics or ()
        names = [topic.name or self._leaders.topic_name("", topic.topic_id) for topic in asked]
        answer = await self._handle(
            values.MetadataRequest(
                topics=[name for name in names if name is not None],
                all_topics=everything,
                allow_auto_topic_creation=request.allow_auto_topic_creation and not everything,
            )
        )
        operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
        found = [_topic(topic, operations) for topic in answer.topics]
        unknown = [_unknown(topic, call.version) for topic, name in zip(asked, names, strict=True) if name is None]
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack or None)
                for each in answer.brokers
            ),
            cluster_id=answer.cluster_id,
            controller_id=controller_for_clients(answer, self._broker_id),
            topics=(*found, *unknown),
            cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
        )


def controller_for_clients(answer: values.MetadataResponse, broker_id: BrokerId) -> int:
    """A broker that takes what is meant for the controller. Every one hands it on, but clients ask just one.

    `broker_id` is the one that answers.
    """
    is_broker = any(each.broker_id == answer.controller_id for each in answer.brokers)
    return answer.controller_id if is_broker else broker_id


def _topic(topic: values.TopicMetadata, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=topic.error_code,
        name=topic.topic,
        topic_id=topic.topic_id,
        is_internal=topic.topic in INTERNAL_TOPICS,
        partitions=tuple(map(_partition, topic.partitions)),
        topic_authorized_operations=operations,
    )


def _partition(partition: values.PartitionMetadata) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if partition.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(partition.replicas),
        isr_nodes=tuple(partition.isr),
        offline_replicas=tuple(partition.offline_replicas),
    )


def _unknown(topic: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    """An id that no topic has."""
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        name=None if version >= _NULL_NAMES_FROM else "",
        topic_id=topic.topic_id,
        partitions=(),
    )
