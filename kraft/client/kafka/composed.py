"""Calls that Kafka's protocol does not have, made of requests that it has; and those that cannot be made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from kraft import __version__
from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.brokers import BrokerDescription, DescribeBrokersRequest, DescribeBrokersResponse
from kraft.model.configs import ConfigResourceType, ConfigSource
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest, QuorumMember
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.features import DescribeFeaturesRequest, DescribeFeaturesResponse, FeatureDescription
from kraft.model.ids import NO_BROKER_EPOCH
from kraft.model.transactions import AbortTransactionRequest, AbortTransactionResponse
from kraft.rpc.calls import DESCRIBE_BROKERS, DESCRIBE_FEATURES, DESCRIBE_QUORUM, INIT_TEMPORARY_PRODUCER_ID
from kraft.rpc.group_calls import CONSUMER_GROUP_HEARTBEAT
from kraft.rpc.topic_calls import DESCRIBE_TOPICS
from kraft.rpc.transaction_calls import ABORT_TRANSACTION
from kraft.wire import declaration
from kraft.wire.declaration import Message
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kraft.wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kraft.wire.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Ask: TypeAlias = Callable[[Message], Awaitable[Any]]
"""Sends a request to the broker. Raises Unreachable, or the Refusal of the whole request."""

_ALL_BROKERS: Final = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
_VERSIONS: Final = ApiVersionsRequest(client_software_name="kraft", client_software_version=__version__)
_SILENT_MS: Final = 3_000
"""How long a voter may not have fetched: it asks again after half a second, and `controller.quorum.fetch.timeout.ms`,
after which it stands for election, is 2,000 by default."""

_METADATA_TOPIC: Final = "__cluster_metadata"
_CONFIGS_AT_ONCE: Final = 500


async def _describe_topics(ask: Ask, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
    topics = await (_names if request.without_partitions else _partitions)(ask, request.topics)
    existing = [topic for topic, found in topics.items() if found.error_code == ErrorCode.NONE]
    configs = await _configs(ask, existing, tuple(request.config_names) or None)
    return DescribeTopicsResponse(
        topics=[
            TopicDescription(topic=topic, metadata=metadata, configs=configs.get(topic, {}))
            for topic, metadata in sorted(topics.items())
        ]
    )


async def _names(ask: Ask, names: Sequence[str]) -> dict[str, DescribeTopicPartitionsResponseTopic]:
    """Return these topics, or all, without their partitions. Brokers keep the answer about all of them encoded."""
    return {
        each.name or "": DescribeTopicPartitionsResponseTopic(
            error_code=each.error_code,
            name=each.name,
            topic_id=each.topic_id,
            is_internal=each.is_internal,
            partitions=(),
            topic_authorized_operations=each.topic_authorized_operations,
        )
        for each in (await _metadata(ask, names or None)).topics
    }


async def _partitions(ask: Ask, names: Sequence[str]) -> dict[str, DescribeTopicPartitionsResponseTopic]:
    """Return these topics, or all."""
    topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    wanted, cursor = tuple(TopicRequest(name=name) for name in sorted(names)), None
    while True:
        page: DescribeTopicPartitionsResponse = await ask(DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor))
        for topic in page.topics:
            before = topics.get(topic.name or "")
            partitions = (*(before.partitions if before is not None else ()), *topic.partitions)
            topics[topic.name or ""] = declaration.replace(topic, partitions=partitions)
        if page.next_cursor is None:
            return topics
        # A response's class of the same fields is not the request's.
        cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)


async def _configs(ask: Ask, topics: Sequence[str], names: tuple[str, ...] | None) -> dict[str, dict[str, str]]:
    """Return the configs that are set on the topics themselves, or of these those with the names."""
    configs: dict[str, dict[str, str]] = {}
    for start in range(0, len(topics), _CONFIGS_AT_ONCE):
        resources = tuple(
            DescribeConfigsResource(
                resource_type=ConfigResourceType.TOPIC, resource_name=topic, configuration_keys=names
            )
            for topic in topics[start : start + _CONFIGS_AT_ONCE]
        )
        response: DescribeConfigsResponse = await ask(DescribeConfigsRequest(resources=resources))
        for result in response.results:
            configs[result.resource_name] = {
                each.name: each.value or ""
                for each in result.configs
                if each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
            }
    return configs


async def _describe_brokers(ask: Ask, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
    """Return what Kafka tells of brokers: not their registration's epoch, nor their log directories and features."""
    cluster: DescribeClusterResponse = await ask(_ALL_BROKERS)
    partitions = [each for topic in (await _metadata(ask, None)).topics for each in topic.partitions]
    found = {each.broker_id: each for each in cluster.brokers}
    for broker_id in request.broker_ids:
        if broker_id not in found:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    return DescribeBrokersResponse(
        brokers=[
            BrokerDescription(
                broker_id=broker_id,
                broker_epoch=NO_BROKER_EPOCH,
                addresses=[Endpoint(listener="", host=broker.host, port=broker.port)],
                rack=broker.rack or "",
                fenced=broker.is_fenced,
                fenced_by_operator=False,
                in_controlled_shutdown=False,
                leaders=sum(each.leader_id == broker_id for each in partitions),
                replicas=sum(broker_id in each.replica_nodes for each in partitions),
                in_sync=sum(broker_id in each.isr_nodes for each in partitions),
                log_directory_ids=[],
                features=[],
            )
            for broker_id, broker in sorted(found.items())
            if not request.broker_ids or broker_id in request.broker_ids
        ]
    )


async def _describe_features(ask: Ask, _: DescribeFeaturesRequest) -> DescribeFeaturesResponse:
    answered: ApiVersionsResponse = await ask(_VERSIONS)
    levels = {each.name: each.max_version_level for each in answered.finalized_features}
    return DescribeFeaturesResponse(
        epoch=answered.finalized_features_epoch,
        features=[
            FeatureDescription(
                feature=each.name,
                min_level=each.min_version,
                max_level=each.max_version,
                finalized_level=levels.get(each.name, 0),
            )
            for each in answered.supported_features
        ],
    )


async def _describe_quorum(ask: Ask, _: QuorumDescriptionRequest) -> QuorumDescription:
    topic = RequestedTopic(topic_name=_METADATA_TOPIC, partitions=(RequestedPartition(partition_index=0),))
    response: DescribeQuorumResponse = await ask(DescribeQuorumRequest(topics=(topic,)))
    quorum = response.topics[0].partitions[0]
    if quorum.error_code != ErrorCode.NONE:
        code = error_code(quorum.error_code)
        return QuorumDescription(error_code=code, error_message=quorum.error_message or code.name)
    cluster: DescribeClusterResponse = await ask(_ALL_BROKERS)
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    return QuorumDescription(
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        voters=_members(quorum.current_voters, leader, are_voters=True),
        observers=_members(quorum.observers, leader),
        cluster_id=cluster.cluster_id,
    )


def _members(
    states: Iterable[ReplicaState], leader: ReplicaState | None, are_voters: bool = False
) -> list[QuorumMember]:
    leader_end = -1 if leader is None else leader.log_end_offset
    return [
        QuorumMember(
            node_id=each.replica_id,
            log_end_offset=each.log_end_offset,
            lag=leader_end - each.log_end_offset if min(leader_end, each.log_end_offset) >= 0 else -1,
            last_fetch_timestamp_ms=each.last_fetch_timestamp,
            last_caught_up_timestamp_ms=each.last_caught_up_timestamp,
            unreachable=are_voters and _is_unreachable(each, leader),
        )
        for each in states
    ]


def _is_unreachable(voter: ReplicaState, leader: ReplicaState | None) -> bool:
    """Return whether the leader hears nothing of the voter: Kafka's answer has the times, by the leader's clock, only.

    Without times, as from brokers before KIP-836, nothing is known of it.
    """
    if leader is None or voter.replica_id == leader.replica_id or leader.last_fetch_timestamp < 0:
        return False
    return voter.last_fetch_timestamp < leader.last_fetch_timestamp - _SILENT_MS


async def _abort_transaction(ask: Ask, request: AbortTransactionRequest) -> AbortTransactionResponse:
    where = WritableTxnMarkerTopic(name=request.topic, partition_indexes=(request.partition,))
    marker = WritableTxnMarker(
        transaction_result=False,
        topics=(where,),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        coordinator_epoch=request.coordinator_epoch,
    )
    response: WriteTxnMarkersResponse = await ask(WriteTxnMarkersRequest(markers=(marker,)))
    for result in (each for one in response.markers for topic in one.topics for each in topic.partitions):
        if result.error_code != ErrorCode.NONE:
            code = error_code(result.error_code)
            what = f"the abort marker was not written into {request.topic}-{result.partition_index}"
            raise Refusal(code, f"{what}: {code.name}")
    return AbortTransactionResponse()


async def _consumer_group_heartbeat(ask: Ask, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Add the names of assigned topics, which Kafka gives by their ids."""
    response: ConsumerGroupHeartbeatResponse = await ask(request)
    if response.assignment is None or not response.assignment.topic_partitions:
        return response
    assigned = response.assignment.topic_partitions
    topics = tuple(MetadataRequestTopic(topic_id=each.topic_id, name=None) for each in assigned)
    metadata: MetadataResponse = await ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    names = {each.topic_id: each.name or "" for each in metadata.topics}
    missing = [str(each.topic_id) for each in assigned if not names.get(each.topic_id)]
    if missing:
        # The broker will know the topic soon; until then the member asks again.
        raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the broker does not know topic {missing[0]} yet")
    named = tuple(declaration.replace(each, topic_name=names[each.topic_id]) for each in assigned)
    return declaration.replace(response, assignment=declaration.replace(response.assignment, topic_partitions=named))


async def _metadata(ask: Ask, topics: Iterable[str] | None) -> MetadataResponse:
    response: MetadataResponse = await ask(metadata_of(topics))
    return response


Compose: TypeAlias = Callable[[Ask, Any], Awaitable[Any]]

COMPOSED: Final[dict[Any, Compose]] = {
    DESCRIBE_TOPICS: _describe_topics,
    DESCRIBE_BROKERS: _describe_brokers,
    DESCRIBE_FEATURES: _describe_features,
    DESCRIBE_QUORUM: _describe_quorum,
    ABORT_TRANSACTION: _abort_transaction,
    CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
}

MISSING: Final = frozenset({INIT_TEMPORARY_PRODUCER_ID})
"""Calls with a request of Kafka's that mean something else."""
