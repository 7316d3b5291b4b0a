"""A cluster in memory that speaks as `kraft.rpc.peers` does, with faults on command.

A partition has one log, which every leader sees whole: replication is not under test here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, TypeVar
from uuid import UUID, uuid5

from kraft.log.format.record_batch import read_header
from kraft.metadata.features import METADATA_VERSION, SETTINGS_AS_METADATA
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import TopicId, TopicPartition, TopicPartitionReplica
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.model.transactions import (
    CommitTransactionsRequest,
    CommitTransactionsResponse,
)
from kraft.rpc.call import Call, Stream
from kraft.rpc.calls import PRODUCE
from kraft.rpc.peers import NotServed, Unreachable
from kraft.server.handlers.describe_topics import described
from kraft.wire.schema.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kraft.wire.schema.describe_producers import ProducerState
from kraft.wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.wire.schema.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.support import cluster_images
from tests.support.client.deletion_answers import deleted_records
from tests.support.client.fake_admin import FakeAdmin
from tests.support.client.fake_clients import FakeClients
from tests.support.client.fake_directories import FakeDirectories
from tests.support.client.fake_groups import FakeGroups
from tests.support.client.fake_partition import FakePartition
from tests.support.client.fake_streams import FakeFetchStream, FakeProduceStream, FakeStream
from tests.support.client.fake_transactions import FakeTransactions
from tests.support.client.fake_waits import FakeWaits
from tests.support.client.listed_offsets import listed_offsets
from tests.support.client.scripted_groups import ScriptedGroup, ScriptedGroups
from tests.support.client.scripted_transactions import ScriptedTransaction, ScriptedTransactions
from tests.support.server.fake_controllers import python_name

Request = TypeVar("Request")
Response = TypeVar("Response")


def _shared(value: Any, kind: Any, **changes: Any) -> Any:
    """Return a value of another kind, whose other fields have the same names."""
    return kind(
        **{field.name: getattr(value, field.name) for field in kind.fields if field.name not in changes}, **changes
    )


class FakeCluster:
    """The cluster; also implements the connections to it."""

    def __init__(self, brokers: int = 3) -> None:
        self.brokers = {broker_id: FakeBroker(self, broker_id) for broker_id in range(1, brokers + 1)}
        self.topics: dict[str, list[FakePartition]] = {}
        self.namespace = UUID(int=7)
        """Topic ids are computed from it and the topic's name."""
        self.throttle_time_ms = 0
        """What clients are told that they have to wait after each produce and fetch."""
        self.configs: dict[str, dict[str, str]] = {}
        self.topic_configs_of_files: dict[str, str] = {}
        self.alterations: list[IncrementalAlterConfigsRequest] = []
        self.hidden_topics: set[str] = set()
        self.refused_topics: set[str] = set()
        """Topics that no client has a right to."""
        self.producer_ids = 0
        self.calls: list[str] = []
        self.described: list[str] = []
        """Topics of metadata requests, in their order."""
        self.changed = asyncio.Event()
        self.closed = 0
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        self.fenced: set[int] = set()
        self.unregistered: set[int] = set()
        self.places: dict[TopicPartitionReplica, str] = {}
        """Log directories of replicas."""
        self.copies: dict[TopicPartitionReplica, str] = {}
        """Log directories that replicas are being moved to."""
        self.replicas_held: dict[int, int] = {}
        """What brokers say that they hold; 6 unless given."""
        self.unreachable_voters: set[int] = set()
        self.metadata_version = 1
        self.image = cluster_images.cluster(*self.brokers)
        """Has only the placed topics, with their replicas; every broker holds all partitions of the others."""
        self.groups: FakeGroups | None = None
        """Set by tests of members of groups, whose topics must be placed."""
        self.transactions: FakeTransactions | None = None
        """Set by tests of transactional producers."""
        self.scripted_groups: dict[str, ScriptedGroup] = {}
        """By id: for tests that need groups in a certain state, and no members."""
        self.scripted_transactions: dict[str, ScriptedTransaction] = {}
        """By transactional id: for tests that need transactions in a certain state, and no producers."""
        self.scripted_producers: dict[TopicPartition, list[ProducerState]] = {}
        """What the partitions' leaders know about producers."""
        self.quotas = EMPTY_IMAGE.replay([FeatureLevelSet(feature=METADATA_VERSION, level=SETTINGS_AS_METADATA)])

    # --- for tests --------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, leader_id: int | None = None) -> list[FakePartition]:
        count = len(self.brokers)
        self.topics[topic] = [
            FakePartition(leader_id=leader_id if leader_id is not None else number % count + 1)
            for number in range(partitions)
        ]
        return self.topics[topic]

    def place(self, topic: str, *assignment: list[int], isr: list[int] | None = None) -> None:
        """Place a topic on these brokers; commands about it are decided as a controller does."""
        self.image = cluster_images.with_topic(
            self.image, *assignment, isr=isr, topic=topic, topic_id=self.topic_id(topic)
        )
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

    # --- metadata ---------------------------------------------------------------------------------------------

    def topic_id(self, topic: str) -> TopicId:
        return TopicId(uuid5(self.namespace, topic))

    def topic_metadata(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        if name in self.refused_topics:
            code, partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, list[FakePartition]()
        elif name not in self.topics or name in self.hidden_topics:
            code, partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        elif self.image.topic(name) is not None:
            return described(self.image, name)
        else:
            code, partitions = ErrorCode.NONE, self.topics[name]
        return DescribeTopicPartitionsResponseTopic(
            error_code=code,
            name=name,
            topic_id=self.topic_id(name),
            partitions=tuple(
                DescribeTopicPartitionsResponsePartition(
                    error_code=ErrorCode.NONE,
                    partition_index=number,
                    leader_id=each.leader_id,
                    leader_epoch=each.leader_epoch,
                    replica_nodes=tuple(self.brokers),
                    isr_nodes=tuple(self.brokers),
                    offline_replicas=(),
                )
                for number, each in enumerate(partitions)
            ),
        )

    # --- Connections ------------------------------------------------------------------------------------------

    def peer(self, address: str, client_id: str = "") -> FakeBroker:
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
        self.withholds_responses = False
        """Does not answer produce requests, as a leader whose followers lag."""
        self.awaited = ""
        """What it says that acks=all produces wait for."""
        self.reads_late = False
        """Records are lost if the stream is closed before it is finished."""
        self.never_finishes = False
        """Does not end a stream after its producer has finished."""
        self.is_of_earlier_version = False
        """Does not say where leader epochs end, nor what it waits for."""
        self.loses_answers = 0
        """Streams of the next produce requests break after the request was carried out."""
        self.loses_requests = 0
        self.partitions_known: dict[str, int] = {}
        """The number of partitions that its metadata shows of a topic, if it is behind."""
        self.lost_answers: Counter[str] = Counter()
        """For each call's name, how many of the next requests are carried out and not answered."""
        self.refusals: dict[str, Refusal] = {}
        """For each call's name, the Refusal that its next request gets."""
        self.rejection: Refusal | None = None
        """What every call gets of a client that the broker does not accept."""
        self.produced: list[ProduceRequest] = []
        self.fetched: list[FetchRequest] = []
        self.streams: list[FakeStream] = []
        self._services = (
            self,
            FakeAdmin(cluster, broker_id),
            FakeClients(broker_id),
            FakeDirectories(cluster, broker_id),
            FakeWaits(self),
            ScriptedGroups(cluster, broker_id),
            ScriptedTransactions(cluster, broker_id),
        )

    def kill(self) -> None:
        self.is_up = False
        for stream in self.streams:
            stream.break_off()

    def reject(self, error: Refusal) -> None:
        """Do not accept the client any more."""
        self.rejection = error
        for stream in self.streams:
            stream.break_off()

    # --- Node -------------------------------------------------------------------------------------------------

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        name = python_name(call.name)
        self.cluster.calls.append(f"{self.address} {name}")
        if not self.is_up:
            raise Unreachable(self.address, "connection refused", nobody_listens=True)
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.sleep(timeout_s)
            raise Unreachable(self.address, "no answer within the time allowed")
        if self.rejection is not None:
            raise self.rejection
        if name in self.refusals:
            raise self.refusals.pop(name)
        groups = self.cluster.groups
        if groups is not None and groups.serves(name):
            try:
                async with asyncio.timeout(timeout_s):
                    coordinated: Response = await groups.answer(self.broker_id, name, request)
            except TimeoutError:
                raise Unreachable(self.address, "no answer within the time allowed") from None
            return coordinated
        service = next(each for each in self._services if hasattr(each, name))
        answer: Response = getattr(service, name)(request)
        if self.lost_answers[name]:
            self.lost_answers[name] -= 1
            raise Unreachable(self.address, "the connection broke")
        return answer

    def open(self, stream: Stream[Any, Any]) -> Any:
        opened = FakeProduceStream(self) if stream is PRODUCE else FakeFetchStream(self)
        self.streams.append(opened)
        return opened

    # --- Broker -----------------------------------------------------------------------------------------------

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        asked = self.cluster.topics if request.topics is None else [topic.name or "" for topic in request.topics]
        self.cluster.described += asked
        return MetadataResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=tuple(
                MetadataResponseBroker(node_id=broker.broker_id, host=broker.address.split(":")[0], port=9094)
                for broker in self.cluster.brokers.values()
                if broker.is_up
            ),
            topics=tuple(self._as_known(self.cluster.topic_metadata(name)) for name in asked),
        )

    def _as_known(self, topic: DescribeTopicPartitionsResponseTopic) -> MetadataResponseTopic:
        known = self.partitions_known.get(topic.name or "", len(topic.partitions))
        partitions = tuple(_shared(each, MetadataResponsePartition) for each in topic.partitions[:known])
        described_so: MetadataResponseTopic = _shared(
            topic, MetadataResponseTopic, partitions=partitions, error_message=""
        )
        return described_so

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return listed_offsets(self.cluster, self.broker_id, request)

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        if self.is_of_earlier_version:
            raise NotServed(self.address, "its version does not know this call")
        topics = (
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=tuple(self._epoch_end(topic.topic, each) for each in topic.partitions)
            )
            for topic in request.topics
        )
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _epoch_end(self, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self.cluster.partition(topic, asked.partition)
        code, epoch, end_offset = partition.objection(self.broker_id, asked.current_leader_epoch), -1, -1
        if code is ErrorCode.NONE:
            epoch, end_offset = partition.epoch_end(asked.leader_epoch)
        return EpochEndOffset(partition=asked.partition, error_code=code, leader_epoch=epoch, end_offset=end_offset)

    def delete_records(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        return deleted_records(self.cluster, self.broker_id, request)

    def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            assert self.cluster.transactions is not None
            return self.cluster.transactions.init_producer_id(self.broker_id, request, is_temporary=False)
        self.cluster.producer_ids += 1
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=self.cluster.producer_ids, producer_epoch=0
        )

    def init_temporary_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        assert self.cluster.transactions is not None
        return self.cluster.transactions.init_producer_id(self.broker_id, request, is_temporary=True)

    def end_txn(self, request: EndTxnRequest) -> EndTxnResponse:
        assert self.cluster.transactions is not None
        return self.cluster.transactions.end_txn(self.broker_id, request)

    def commit_transactions(self, request: CommitTransactionsRequest) -> CommitTransactionsResponse:
        assert self.cluster.transactions is not None
        return self.cluster.transactions.commit_transactions(self.broker_id, request)

    def txn_offset_commit(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        assert self.cluster.transactions is not None
        return self.cluster.transactions.txn_offset_commit(request)

    def produce(self, request: ProduceRequest) -> ProduceResponse:
        self.produced.append(request)
        results = [self._produce(asked, request.transactional_id) for asked in request.partitions]
        response = ProduceResponse(
            request_id=request.request_id, partitions=results, throttle_time_ms=self.cluster.throttle_time_ms
        )
        self.cluster.news()
        return response

    def _produce(self, asked: ProducePartition, transactional_id: str) -> ProducePartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, base_offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if partition.leader_id == self.broker_id:
            code = self._added(asked, transactional_id)
            if code is ErrorCode.NONE:
                code, base_offset = partition.append(bytes(asked.records))
        return ProducePartitionResult(
            topic=asked.topic, partition=asked.partition, error_code=code, base_offset=base_offset
        )

    def _added(self, asked: ProducePartition, transactional_id: str) -> ErrorCode:
        """Add the partition to the transaction, if the batch belongs to one."""
        header = read_header(asked.records)
        assert header.is_transactional == bool(transactional_id)
        if not transactional_id:
            return ErrorCode.NONE
        assert self.cluster.transactions is not None
        place = TopicPartition(asked.topic, asked.partition)
        return self.cluster.transactions.add(transactional_id, header.producer_id, header.producer_epoch, place)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            request_id=request.request_id,
            partitions=[self._fetch(asked, request) for asked in request.partitions],
            throttle_time_ms=self.cluster.throttle_time_ms,
        )

    def _fetch(self, asked: FetchPartition, request: FetchRequest) -> FetchPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        upper = partition.last_stable_offset if request.reads_committed else partition.end_offset
        code, records = partition.objection(self.broker_id, asked.current_leader_epoch), b""
        if code is not ErrorCode.NONE:
            pass
        elif not partition.log_start_offset <= asked.fetch_offset <= partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked.fetch_offset == partition.corrupt_at:
            code = ErrorCode.CORRUPT_MESSAGE
        else:
            records = partition.read(asked.fetch_offset, asked.partition_max_bytes, upper)
        return FetchPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            records=records,
            last_stable_offset=partition.last_stable_offset,
            aborted=partition.aborted_from(asked.fetch_offset) if request.reads_committed else [],
        )


def tp(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
