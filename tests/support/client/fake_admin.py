"""Requests of an admin client, as a broker of the fake cluster answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.decision import Decision
from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.metadata.election_decisions import elect_leaders
from kraft.metadata.partition_creation import create_partitions
from kraft.metadata.quota_decisions import alter_client_quotas, describe_client_quotas
from kraft.metadata.reassignment import alter_partition_reassignments, list_partition_reassignments
from kraft.model import features
from kraft.model.brokers import (
    BrokerActionResult,
    BrokerDescription,
    DescribeBrokersRequest,
    DescribeBrokersResponse,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
)
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest, QuorumMember
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kraft.wire.schema.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kraft.wire.schema.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kraft.wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kraft.wire.schema.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kraft.wire.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.support.client.fake_configs import altered, described
from tests.support.client.fake_listings import FakeListings

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster


Response = TypeVar("Response")


class FakeAdmin(FakeListings):
    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        super().__init__(cluster)
        self._broker_id = broker_id

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        results = []
        for topic in request.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in self._cluster.topics else ErrorCode.NONE
            if code is ErrorCode.NONE and not request.validate_only:
                self._cluster.create(topic.name, max(1, topic.num_partitions))
                self._cluster.configs[topic.name] = {config.name: config.value or "" for config in topic.configs}
            topic_id = self._cluster.topic_id(topic.name)
            results.append(
                CreatableTopicResult(name=topic.name, topic_id=topic_id, error_code=code, error_message=None)
            )
        return CreateTopicsResponse(topics=tuple(results))

    def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        results = []
        for state in request.topics:
            known = self._cluster.topics.pop(state.name or "", None)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NONE
            results.append(DeletableTopicResult(name=state.name, error_code=code))
        return DeleteTopicsResponse(responses=tuple(results))

    def describe_topics(self, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
        names = request.topics or list(self._cluster.topics)
        return DescribeTopicsResponse(
            topics=[
                TopicDescription(
                    topic=name,
                    metadata=self._cluster.topic_metadata(name),
                    configs=self._cluster.configs.get(name, {}),
                )
                for name in names
            ]
        )

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = (described(self._cluster, self._broker_id, asked) for asked in request.resources)
        return DescribeConfigsResponse(results=tuple(results))

    def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        self._cluster.alterations.append(request)
        responses = (altered(self._cluster, asked, request.validate_only) for asked in request.resources)
        return IncrementalAlterConfigsResponse(responses=tuple(responses))

    def describe_brokers(self, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
        registered = set(self._cluster.brokers) - self._cluster.unregistered
        wanted = request.broker_ids or list(registered)
        if missing := set(wanted) - registered:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {missing.pop()}")
        return DescribeBrokersResponse(brokers=[self._broker(broker_id) for broker_id in sorted(wanted)])

    def _broker(self, broker_id: int) -> BrokerDescription:
        return BrokerDescription(
            broker_id=broker_id,
            broker_epoch=10 + broker_id,
            addresses=[Endpoint(listener="GRPC", host=f"broker-{broker_id}", port=9094)],
            rack="a" if broker_id == 1 else "",
            fenced=broker_id in self._cluster.fenced,
            fenced_by_operator=broker_id in self._cluster.fenced,
            in_controlled_shutdown=broker_id == 3,
            leaders=2,
            replicas=self._cluster.replicas_held.get(broker_id, 6),
            in_sync=5,
            log_directory_ids=[UUID(int=broker_id)],
            features=[features.FeatureRange(feature="metadata.version", min_level=1, max_level=2)],
        )

    def fence_broker(self, request: FenceBrokerRequest) -> BrokerActionResult:
        if not request.force and request.broker_id == 2:
            raise Refusal(ErrorCode.INVALID_REQUEST, "fencing broker 2 would leave 1 partition without a leader")
        changed = request.broker_id not in self._cluster.fenced
        self._cluster.fenced.add(request.broker_id)
        return BrokerActionResult(changed=changed, leaderless=["orders-0"] if request.force else [])

    def unfence_broker(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        changed = request.broker_id in self._cluster.fenced
        self._cluster.fenced.discard(request.broker_id)
        return BrokerActionResult(changed=changed, leaderless=[])

    def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        self._cluster.unregistered.add(request.broker_id)
        return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)

    def describe_features(self, _: features.DescribeFeaturesRequest) -> features.DescribeFeaturesResponse:
        described = features.FeatureDescription(
            feature="metadata.version", min_level=1, max_level=2, finalized_level=self._cluster.metadata_version
        )
        return features.DescribeFeaturesResponse(epoch=41, features=[described])

    def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        (update,) = request.feature_updates
        if not request.validate_only:
            self._cluster.metadata_version = update.max_version_level
        return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)

    def describe_client_quotas(self, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        return describe_client_quotas(self._cluster.quotas, request)

    def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        decision = alter_client_quotas(self._cluster.quotas, request)
        self._cluster.quotas = self._cluster.quotas.replay(decision.records)
        return decision.response

    def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return self._carried_out(create_partitions(self._cluster.image, request, placement_start=0))

    def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        return self._carried_out(elect_leaders(self._cluster.image, request))

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        return self._carried_out(alter_partition_reassignments(self._cluster.image, request, defaults=KAFKA_DEFAULTS))

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return list_partition_reassignments(self._cluster.image, request)

    def describe_quorum(self, _: QuorumDescriptionRequest) -> QuorumDescription:
        voters = [
            QuorumMember(
                node_id=broker_id,
                log_end_offset=39 + broker_id if broker_id < 3 else -1,
                last_fetch_ms_ago=0 if broker_id == 2 else 5,
                lag=2 - broker_id if broker_id < 3 else -1,
                last_fetch_timestamp_ms=1_000 if broker_id == 2 else 995,
                last_caught_up_timestamp_ms=1_000 if broker_id == 2 else 900 if broker_id == 1 else -1,
                unreachable=broker_id in self._cluster.unreachable_voters,
            )
            for broker_id in self._cluster.brokers
        ]
        return QuorumDescription(
            leader_id=2,
            leader_epoch=5,
            high_watermark=41,
            voters=voters,
            observers=[
                QuorumMember(
                    node_id=7,
                    log_end_offset=41,
                    lag=0,
                    last_fetch_timestamp_ms=990,
                    last_caught_up_timestamp_ms=990,
                )
            ],
            cluster_id="kJ2Yk0mVT0ma0wV2Yk0mVQ",
        )

    def _carried_out(self, decision: Decision[Response]) -> Response:
        self._cluster.image = self._cluster.image.replay(decision.records)
        return decision.response
