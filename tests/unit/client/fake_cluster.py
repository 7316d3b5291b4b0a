"""A cluster in memory that speaks as `kraft.rpc.peers` does, with faults on command.

A partition has one log, which every leader sees whole: what replication does is not under test here.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar
from uuid import UUID, uuid5

from kraft.metadata.configs import KAFKA_DEFAULTS
from kraft.metadata.election_decisions import elect_leaders
from kraft.metadata.features import METADATA_VERSION, SETTINGS_AS_METADATA
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.partition_creation import create_partitions
from kraft.metadata.quota_decisions import alter_client_quotas, describe_client_quotas
from kraft.metadata.reassignment import alter_partition_reassignments, list_partition_reassignments
from kraft.metadata.records import FeatureLevelSet
from kraft.model import client_quotas as quotas
from kraft.model import configs, features
from kraft.model import partitions as partition_changes
from kraft.model.brokers import (
    BrokerActionResult,
    BrokerDescription,
    DescribeBrokersRequest,
    DescribeBrokersResponse,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
    UnregisterBrokerRequest,
)
from kraft.model.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kraft.model.describe_quorum import DescribeQuorumRequest, QuorumDescription, QuorumMember
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import TopicId, TopicPartition
from kraft.model.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.model.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kraft.model.metadata import BrokerEndpoint, MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata
from kraft.model.offset_for_leader_epoch import (
    EpochEndPartition,
    EpochEndPartitionResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.model.topics import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    TopicDescription,
    TopicResult,
    TopicResults,
)
from kraft.rpc.call import Call, Stream
from kraft.rpc.calls import PRODUCE
from kraft.rpc.peers import NotServed, Unreachable
from kraft.server.handlers.describe_topics import topic_metadata
from tests.unit.client.fake_configs import altered, described
from tests.unit.client.fake_partition import FakePartition
from tests.unit.client.fake_streams import FakeFetchStream, FakeProduceStream, FakeStream
from tests.unit.metadata import clusters
from tests.unit.server.fake_controllers import python_name

Request = TypeVar("Request")
Response = TypeVar("Response")

NAMESPACE = UUID(int=7)


class FakeCluster:
    """Doubles as the connections to it."""

    def __init__(self, brokers: int = 3) -> None:
        self.brokers = {broker_id: FakeBroker(self, broker_id) for broker_id in range(1, brokers + 1)}
        self.topics: dict[str, list[FakePartition]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.alterations: list[configs.IncrementalAlterConfigsRequest] = []
        self.hidden_topics: set[str] = set()
        self.producer_ids = 0
        self.calls: list[str] = []
        self.changed = asyncio.Event()
        self.closed = 0
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.fenced: set[int] = set()
        self.metadata_version = 1
        self.image = clusters.cluster(*self.brokers)
        """Knows only the topics that were placed, with their replicas; of the others every broker holds all."""
        self.quotas = EMPTY_IMAGE.replay([FeatureLevelSet(feature=METADATA_VERSION, level=SETTINGS_AS_METADATA)])

    # --- what a test does -------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, leader_id: int | None = None) -> list[FakePartition]:
        count = len(self.brokers)
        self.topics[topic] = [
            FakePartition(leader_id=leader_id if leader_id is not None else number % count + 1)
            for number in range(partitions)
        ]
        return self.topics[topic]

    def place(self, topic: str, *assignment: list[int], isr: list[int] | None = None) -> None:
        """A topic on these brokers. What is decided about it is decided as a controller does."""
        topic_id = TopicId(uuid5(NAMESPACE, topic))
        self.image = clusters.with_topic(self.image, *assignment, isr=isr, topic=topic, topic_id=topic_id)
        self.create(topic, len(assignment))

    def partition(self, topic: str, partition: int = 0) -> FakePartition:
        return self.topics[topic][partition]

    def move_leader(self, topic: str, partition: int, leader_id: int) -> None:
        moved = self.partition(topic, partition)
        moved.leader_id = leader_id
        moved.leader_epoch += 1

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.partition(topic, partition).records()]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def news(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    # --- Connections ------------------------------------------------------------------------------------------

    def peer(self, address: str) -> FakeBroker:
        for broker in self.brokers.values():
            if broker.address == address:
                return broker
        return FakeBroker(self, -1, address=address, is_up=False)

    async def close(self) -> None:
        self.closed += 1


class FakeBroker:
    def __init__(self, cluster: FakeCluster, broker_id: int, address: str = "", is_up: bool = True) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.address = address or f"broker-{broker_id}:9094"
        self.is_up = is_up
        self.hangs = False
        self.reads_late = False
        """What is produced to it is lost when the stream is closed before it was finished."""
        self.never_finishes = False
        """Does not end a stream whose producer has said that no more comes."""
        self.is_of_earlier_version = False
        """Does not say where leader epochs end."""
        self.loses_answers = 0
        """Streams of the next produce requests break after the request was carried out."""
        self.loses_requests = 0
        self.produced: list[ProduceRequest] = []
        self.fetched: list[FetchRequest] = []
        self.streams: list[FakeStream] = []

    def kill(self) -> None:
        self.is_up = False
        for stream in self.streams:
            stream.break_off()

    async def _answering(self, call: str) -> None:
        self.cluster.calls.append(f"{self.address} {call}")
        if not self.is_up:
            raise Unreachable(self.address, "connection refused")
        await asyncio.sleep(0)

    async def _hang(self, timeout_s: float) -> None:
        if self.hangs:
            await asyncio.sleep(timeout_s)
            raise Unreachable(self.address, "no answer within the time allowed")

    # --- Node -------------------------------------------------------------------------------------------------

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        answer: Response = await getattr(self, python_name(call.name))(request, timeout_s)
        return answer

    def open(self, stream: Stream[Any, Any]) -> Any:
        opened = FakeProduceStream(self) if stream is PRODUCE else FakeFetchStream(self)
        self.streams.append(opened)
        return opened

    # --- Broker -----------------------------------------------------------------------------------------------

    async def metadata(self, request: MetadataRequest, timeout_s: float) -> MetadataResponse:
        await self._answering("metadata")
        await self._hang(timeout_s)
        names = list(self.cluster.topics) if request.all_topics else request.topics
        return MetadataResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=[
                BrokerEndpoint(broker_id=broker.broker_id, host=broker.address.split(":")[0], port=9094)
                for broker in self.cluster.brokers.values()
                if broker.is_up
            ],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> TopicMetadata:
        if name not in self.cluster.topics or name in self.cluster.hidden_topics:
            code, partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        elif (placed := self.cluster.image.topic(name)) is not None:
            return topic_metadata(self.cluster.image, placed)
        else:
            code, partitions = ErrorCode.NONE, self.cluster.topics[name]
        return TopicMetadata(
            error_code=code,
            topic=name,
            topic_id=uuid5(NAMESPACE, name),
            partitions=[
                PartitionMetadata(
                    partition=number,
                    leader_id=each.leader_id,
                    leader_epoch=each.leader_epoch,
                    replicas=list(self.cluster.brokers),
                    isr=list(self.cluster.brokers),
                    offline_replicas=[],
                )
                for number, each in enumerate(partitions)
            ],
        )

    async def list_offsets(self, request: ListOffsetsRequest, timeout_s: float) -> ListOffsetsResponse:
        await self._answering("list_offsets")
        await self._hang(timeout_s)
        return ListOffsetsResponse(partitions=[self._offset(asked) for asked in request.partitions])

    def _offset(self, asked: ListOffsetsPartition) -> ListOffsetsPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, offset, timestamp_ms = partition.objection(self.broker_id, asked.current_leader_epoch), -1, -1
        if code is ErrorCode.NONE:
            offset, timestamp_ms = partition.find(asked.timestamp_ms)
        return ListOffsetsPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            offset=offset,
            timestamp_ms=timestamp_ms,
            leader_epoch=partition.leader_epoch,
        )

    async def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, timeout_s: float
    ) -> OffsetForLeaderEpochResponse:
        await self._answering("offset_for_leader_epoch")
        if self.is_of_earlier_version:
            raise NotServed(self.address, "its version does not know this call")
        await self._hang(timeout_s)
        return OffsetForLeaderEpochResponse(partitions=[self._epoch_end(asked) for asked in request.partitions])

    def _epoch_end(self, asked: EpochEndPartition) -> EpochEndPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, epoch, end_offset = partition.objection(self.broker_id, asked.current_leader_epoch), -1, -1
        if code is ErrorCode.NONE:
            epoch, end_offset = partition.epoch_end(asked.leader_epoch)
        return EpochEndPartitionResult(
            topic=asked.topic, partition=asked.partition, error_code=code, leader_epoch=epoch, end_offset=end_offset
        )

    async def delete_records(self, request: DeleteRecordsRequest, timeout_s: float) -> DeleteRecordsResponse:
        await self._answering("delete_records")
        await self._hang(timeout_s)
        return DeleteRecordsResponse(partitions=[self._delete_records(asked) for asked in request.partitions])

    def _delete_records(self, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code = ErrorCode.NONE
        wanted = partition.end_offset if asked.before_offset == HIGH_WATERMARK else asked.before_offset
        if partition.leader_id != self.broker_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif wanted > partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            partition.log_start_offset = max(partition.log_start_offset, wanted)
        return DeleteRecordsPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            low_watermark=partition.log_start_offset if code is ErrorCode.NONE else -1,
        )

    async def init_producer_id(self, _: InitProducerIdRequest, timeout_s: float) -> InitProducerIdResponse:
        await self._answering("init_producer_id")
        await self._hang(timeout_s)
        self.cluster.producer_ids += 1
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=self.cluster.producer_ids, producer_epoch=0
        )

    def produce(self, request: ProduceRequest) -> ProduceResponse:
        self.produced.append(request)
        response = ProduceResponse(
            request_id=request.request_id, partitions=[self._produce(asked) for asked in request.partitions]
        )
        self.cluster.news()
        return response

    def _produce(self, asked: ProducePartition) -> ProducePartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, base_offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if partition.leader_id == self.broker_id:
            code, base_offset = partition.append(bytes(asked.records))
        return ProducePartitionResult(
            topic=asked.topic, partition=asked.partition, error_code=code, base_offset=base_offset
        )

    def fetch(self, request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            request_id=request.request_id, partitions=[self._fetch(asked) for asked in request.partitions]
        )

    def _fetch(self, asked: FetchPartition) -> FetchPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, records = partition.objection(self.broker_id, asked.current_leader_epoch), b""
        if code is not ErrorCode.NONE:
            pass
        elif not partition.log_start_offset <= asked.fetch_offset <= partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            records = partition.read(asked.fetch_offset, asked.partition_max_bytes)
        return FetchPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            records=records,
        )

    # --- Admin ------------------------------------------------------------------------------------------------

    async def create_topics(self, request: CreateTopicsRequest, timeout_s: float) -> TopicResults:
        await self._answering("create_topics")
        results = []
        for topic in request.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.topic in self.cluster.topics else ErrorCode.NONE
            if code is ErrorCode.NONE and not request.validate_only:
                self.cluster.create(topic.topic, max(1, topic.partitions))
                self.cluster.configs[topic.topic] = topic.configs
            results.append(_result(topic.topic, code))
        return TopicResults(results=results)

    async def delete_topics(self, request: DeleteTopicsRequest, timeout_s: float) -> TopicResults:
        await self._answering("delete_topics")
        results = []
        for topic in request.topics:
            known = self.cluster.topics.pop(topic, None)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NONE
            results.append(_result(topic, code))
        return TopicResults(results=results)

    async def describe_topics(self, request: DescribeTopicsRequest, timeout_s: float) -> DescribeTopicsResponse:
        await self._answering("describe_topics")
        names = request.topics or list(self.cluster.topics)
        return DescribeTopicsResponse(
            topics=[
                TopicDescription(metadata=self._topic(name), configs=self.cluster.configs.get(name, {}))
                for name in names
            ]
        )

    async def describe_configs(
        self, request: configs.DescribeConfigsRequest, timeout_s: float
    ) -> configs.DescribeConfigsResponse:
        await self._answering("describe_configs")
        return configs.DescribeConfigsResponse(
            results=[described(self.cluster, self.broker_id, asked) for asked in request.resources]
        )

    async def incremental_alter_configs(
        self, request: configs.IncrementalAlterConfigsRequest, timeout_s: float
    ) -> configs.IncrementalAlterConfigsResponse:
        await self._answering("incremental_alter_configs")
        self.cluster.alterations.append(request)
        results = [altered(self.cluster, asked, request.validate_only) for asked in request.resources]
        return configs.IncrementalAlterConfigsResponse(results=results)

    async def describe_brokers(self, request: DescribeBrokersRequest, timeout_s: float) -> DescribeBrokersResponse:
        await self._answering("describe_brokers")
        wanted = request.broker_ids or list(self.cluster.brokers)
        if missing := set(wanted) - set(self.cluster.brokers):
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {missing.pop()}")
        return DescribeBrokersResponse(brokers=[self._broker(broker_id) for broker_id in sorted(wanted)])

    def _broker(self, broker_id: int) -> BrokerDescription:
        return BrokerDescription(
            broker_id=broker_id,
            broker_epoch=10 + broker_id,
            addresses=[Endpoint(listener="GRPC", host=f"broker-{broker_id}", port=9094)],
            rack="a" if broker_id == 1 else "",
            fenced=broker_id in self.cluster.fenced,
            fenced_by_operator=broker_id in self.cluster.fenced,
            in_controlled_shutdown=broker_id == 3,
            leaders=2,
            replicas=6,
            in_sync=5,
            log_directory_ids=[UUID(int=broker_id)],
            features=[features.FeatureRange(feature="metadata.version", min_level=1, max_level=2)],
        )

    async def fence_broker(self, request: FenceBrokerRequest, timeout_s: float) -> BrokerActionResult:
        await self._answering("fence_broker")
        if not request.force and request.broker_id == 2:
            raise Refusal(ErrorCode.INVALID_REQUEST, "fencing broker 2 would leave 1 partition without a leader")
        changed = request.broker_id not in self.cluster.fenced
        self.cluster.fenced.add(request.broker_id)
        return BrokerActionResult(changed=changed, leaderless=["orders-0"] if request.force else [])

    async def unfence_broker(self, request: UnfenceBrokerRequest, timeout_s: float) -> BrokerActionResult:
        await self._answering("unfence_broker")
        changed = request.broker_id in self.cluster.fenced
        self.cluster.fenced.discard(request.broker_id)
        return BrokerActionResult(changed=changed, leaderless=[])

    async def unregister_broker(self, request: UnregisterBrokerRequest, timeout_s: float) -> BrokerActionResult:
        await self._answering("unregister_broker")
        return BrokerActionResult(changed=True, leaderless=[])

    async def describe_features(
        self, _: features.DescribeFeaturesRequest, timeout_s: float
    ) -> features.DescribeFeaturesResponse:
        await self._answering("describe_features")
        described = features.FeatureDescription(
            feature="metadata.version", min_level=1, max_level=2, finalized_level=self.cluster.metadata_version
        )
        return features.DescribeFeaturesResponse(epoch=41, features=[described])

    async def update_features(
        self, request: features.UpdateFeaturesRequest, timeout_s: float
    ) -> features.UpdateFeaturesResponse:
        await self._answering("update_features")
        (update,) = request.updates
        if update.level == self.cluster.metadata_version:
            return features.UpdateFeaturesResponse(changed=[])
        if not request.validate_only:
            self.cluster.metadata_version = update.level
        return features.UpdateFeaturesResponse(changed=[update])

    async def describe_client_quotas(
        self, request: quotas.DescribeClientQuotasRequest, timeout_s: float
    ) -> quotas.DescribeClientQuotasResponse:
        await self._answering("describe_client_quotas")
        return describe_client_quotas(self.cluster.quotas, request)

    async def alter_client_quotas(
        self, request: quotas.AlterClientQuotasRequest, timeout_s: float
    ) -> quotas.AlterClientQuotasResponse:
        await self._answering("alter_client_quotas")
        decision = alter_client_quotas(self.cluster.quotas, request)
        self.cluster.quotas = self.cluster.quotas.replay(decision.records)
        return decision.response

    async def create_partitions(
        self, request: partition_changes.CreatePartitionsRequest, timeout_s: float
    ) -> TopicResults:
        await self._answering("create_partitions")
        decision = create_partitions(self.cluster.image, request, placement_start=0)
        self.cluster.image = self.cluster.image.replay(decision.records)
        return decision.response

    async def elect_leaders(
        self, request: partition_changes.ElectLeadersRequest, timeout_s: float
    ) -> partition_changes.ElectLeadersResponse:
        await self._answering("elect_leaders")
        decision = elect_leaders(self.cluster.image, request)
        self.cluster.image = self.cluster.image.replay(decision.records)
        return decision.response

    async def alter_partition_reassignments(
        self, request: partition_changes.AlterPartitionReassignmentsRequest, timeout_s: float
    ) -> partition_changes.AlterPartitionReassignmentsResponse:
        await self._answering("alter_partition_reassignments")
        decision = alter_partition_reassignments(self.cluster.image, request, defaults=KAFKA_DEFAULTS)
        self.cluster.image = self.cluster.image.replay(decision.records)
        return decision.response

    async def list_partition_reassignments(
        self, request: partition_changes.ListPartitionReassignmentsRequest, timeout_s: float
    ) -> partition_changes.ListPartitionReassignmentsResponse:
        await self._answering("list_partition_reassignments")
        return list_partition_reassignments(self.cluster.image, request)

    async def describe_quorum(self, _: DescribeQuorumRequest, timeout_s: float) -> QuorumDescription:
        await self._answering("describe_quorum")
        voters = [
            QuorumMember(
                node_id=broker_id,
                log_end_offset=39 + broker_id if broker_id < 3 else -1,
                last_fetch_ms_ago=0 if broker_id == 2 else 5,
                lag=2 - broker_id if broker_id < 3 else -1,
                last_fetch_timestamp_ms=1_000 if broker_id == 2 else 995,
                last_caught_up_timestamp_ms=1_000 if broker_id == 2 else 900 if broker_id == 1 else -1,
            )
            for broker_id in self.cluster.brokers
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


def _result(topic: str, code: ErrorCode) -> TopicResult:
    return TopicResult(topic=topic, error_code=code, topic_id=uuid5(NAMESPACE, topic), partitions=1)


def tp(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
