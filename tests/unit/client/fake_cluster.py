"""A cluster in memory that speaks as `kraft.rpc.peers` does, with faults on command.

A partition has one log, which every leader sees whole: what replication does is not under test here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from kraft.log.record_batch import BatchHeader, assign_offsets, decode_batch, read_header, split, validate
from kraft.log.record_codec import Record
from kraft.model import config_requests as configs
from kraft.model import requests as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.rpc.peers import Unreachable

NAMESPACE = UUID(int=7)


@dataclass
class FakePartition:
    leader_id: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    log_start_offset: int = 0
    end_offset: int = 0
    recent: dict[int, deque[BatchHeader]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=5)))
    refusals: deque[ErrorCode] = field(default_factory=deque)
    """Answers to the next produce requests, in place of appending."""
    size_max: int = 1 << 20

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_batch(batch)]

    def append(self, records: bytes) -> tuple[ErrorCode, int]:
        header = validate(records)
        if self.refusals:
            return self.refusals.popleft(), -1
        if len(records) > self.size_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        recent = self.recent[header.producer_id]
        if header.has_producer:
            for known in recent:
                if known.base_sequence == header.base_sequence and known.record_count == header.record_count:
                    return ErrorCode.NONE, known.base_offset
            # As brokers do: a producer that is not known, perhaps because its records are gone, may begin anywhere.
            if recent and header.base_sequence != (recent[-1].last_sequence + 1) & 0x7FFFFFFF:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        stored = bytearray(records)
        assign_offsets(stored, 0, Offset(self.end_offset), LeaderEpoch(self.leader_epoch))
        placed = read_header(stored)
        recent.append(placed)
        self.batches.append(bytes(stored))
        base_offset, self.end_offset = self.end_offset, placed.next_offset
        return ErrorCode.NONE, base_offset

    def read(self, offset: int, bytes_max: int) -> bytes:
        chosen: list[bytes] = []
        for batch in self.batches:
            if read_header(batch).next_offset > offset:
                if chosen and sum(map(len, chosen)) + len(batch) > bytes_max:
                    break
                chosen.append(batch)
        return b"".join(chosen)


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

    # --- what a test does -------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, leader_id: int | None = None) -> list[FakePartition]:
        count = len(self.brokers)
        self.topics[topic] = [
            FakePartition(leader_id=leader_id if leader_id is not None else number % count + 1)
            for number in range(partitions)
        ]
        return self.topics[topic]

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

    def broker(self, address: str) -> FakeBroker:
        for broker in self.brokers.values():
            if broker.address == address:
                return broker
        return FakeBroker(self, -1, address=address, is_up=False)

    def admin(self, address: str) -> FakeBroker:
        return self.broker(address)

    async def close(self) -> None:
        self.closed += 1


class FakeBroker:
    def __init__(self, cluster: FakeCluster, broker_id: int, address: str = "", is_up: bool = True) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.address = address or f"broker-{broker_id}:9094"
        self.is_up = is_up
        self.hangs = False
        self.loses_answers = 0
        """Streams of the next produce requests break after the request was carried out."""
        self.loses_requests = 0
        self.produced: list[values.ProduceRequest] = []
        self.fetched: list[values.FetchRequest] = []
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

    # --- Broker -----------------------------------------------------------------------------------------------

    async def metadata(self, request: values.MetadataRequest, timeout_s: float) -> values.MetadataResponse:
        await self._answering("metadata")
        await self._hang(timeout_s)
        names = list(self.cluster.topics) if request.all_topics else request.topics
        return values.MetadataResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=[
                values.BrokerEndpoint(broker_id=broker.broker_id, host=broker.address.split(":")[0], port=9094)
                for broker in self.cluster.brokers.values()
                if broker.is_up
            ],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> values.TopicMetadata:
        if name not in self.cluster.topics or name in self.cluster.hidden_topics:
            code, partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        else:
            code, partitions = ErrorCode.NONE, self.cluster.topics[name]
        return values.TopicMetadata(
            error_code=code,
            topic=name,
            topic_id=uuid5(NAMESPACE, name),
            partitions=[
                values.PartitionMetadata(
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

    async def list_offsets(self, request: values.ListOffsetsRequest, timeout_s: float) -> values.ListOffsetsResponse:
        await self._answering("list_offsets")
        await self._hang(timeout_s)
        return values.ListOffsetsResponse(partitions=[self._offset(asked) for asked in request.partitions])

    def _offset(self, asked: values.ListOffsetsPartition) -> values.ListOffsetsPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, offset, timestamp_ms = ErrorCode.NONE, -1, -1
        if partition.leader_id != self.broker_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif asked.timestamp_ms == values.LATEST_TIMESTAMP:
            offset = partition.end_offset
        elif asked.timestamp_ms == values.EARLIEST_TIMESTAMP:
            offset = partition.log_start_offset
        else:
            for record in partition.records():
                if record.timestamp_ms >= asked.timestamp_ms:
                    offset, timestamp_ms = record.offset, record.timestamp_ms
                    break
        return values.ListOffsetsPartitionResult(
            topic=asked.topic, partition=asked.partition, error_code=code, offset=offset, timestamp_ms=timestamp_ms
        )

    async def delete_records(
        self, request: values.DeleteRecordsRequest, timeout_s: float
    ) -> values.DeleteRecordsResponse:
        await self._answering("delete_records")
        await self._hang(timeout_s)
        return values.DeleteRecordsResponse(partitions=[self._delete_records(asked) for asked in request.partitions])

    def _delete_records(self, asked: values.DeleteRecordsPartition) -> values.DeleteRecordsPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code = ErrorCode.NONE
        wanted = partition.end_offset if asked.before_offset == values.HIGH_WATERMARK else asked.before_offset
        if partition.leader_id != self.broker_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif wanted > partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            partition.log_start_offset = max(partition.log_start_offset, wanted)
        return values.DeleteRecordsPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            low_watermark=partition.log_start_offset if code is ErrorCode.NONE else -1,
        )

    async def init_producer_id(self, timeout_s: float) -> values.InitProducerIdResponse:
        await self._answering("init_producer_id")
        await self._hang(timeout_s)
        self.cluster.producer_ids += 1
        return values.InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=self.cluster.producer_ids, producer_epoch=0
        )

    def produce_stream(self) -> FakeProduceStream:
        stream = FakeProduceStream(self)
        self.streams.append(stream)
        return stream

    def fetch_stream(self) -> FakeFetchStream:
        stream = FakeFetchStream(self)
        self.streams.append(stream)
        return stream

    def produce(self, request: values.ProduceRequest) -> values.ProduceResponse:
        self.produced.append(request)
        response = values.ProduceResponse(
            request_id=request.request_id, partitions=[self._produce(asked) for asked in request.partitions]
        )
        self.cluster.news()
        return response

    def _produce(self, asked: values.ProducePartition) -> values.ProducePartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, base_offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if partition.leader_id == self.broker_id:
            code, base_offset = partition.append(asked.records)
        return values.ProducePartitionResult(
            topic=asked.topic, partition=asked.partition, error_code=code, base_offset=base_offset
        )

    def fetch(self, request: values.FetchRequest) -> values.FetchResponse:
        return values.FetchResponse(
            request_id=request.request_id, partitions=[self._fetch(asked) for asked in request.partitions]
        )

    def _fetch(self, asked: values.FetchPartition) -> values.FetchPartitionResult:
        partition = self.cluster.partition(asked.topic, asked.partition)
        code, records = ErrorCode.NONE, b""
        if partition.leader_id != self.broker_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not partition.log_start_offset <= asked.fetch_offset <= partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            records = partition.read(asked.fetch_offset, asked.partition_max_bytes)
        return values.FetchPartitionResult(
            topic=asked.topic,
            partition=asked.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            records=records,
        )

    # --- AdminNode --------------------------------------------------------------------------------------------

    async def create_topics(self, request: values.CreateTopicsRequest, timeout_s: float) -> values.TopicResults:
        await self._answering("create_topics")
        results = []
        for topic in request.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.topic in self.cluster.topics else ErrorCode.NONE
            if code is ErrorCode.NONE and not request.validate_only:
                self.cluster.create(topic.topic, max(1, topic.partitions))
                self.cluster.configs[topic.topic] = topic.configs
            results.append(_result(topic.topic, code))
        return values.TopicResults(results=results)

    async def delete_topics(self, request: values.DeleteTopicsRequest, timeout_s: float) -> values.TopicResults:
        await self._answering("delete_topics")
        results = []
        for topic in request.topics:
            known = self.cluster.topics.pop(topic, None)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NONE
            results.append(_result(topic, code))
        return values.TopicResults(results=results)

    async def describe_topics(
        self, request: values.DescribeTopicsRequest, timeout_s: float
    ) -> values.DescribeTopicsResponse:
        await self._answering("describe_topics")
        names = request.topics or list(self.cluster.topics)
        return values.DescribeTopicsResponse(
            topics=[
                values.TopicDescription(metadata=self._topic(name), configs=self.cluster.configs.get(name, {}))
                for name in names
            ]
        )

    async def describe_configs(
        self, request: configs.DescribeConfigsRequest, timeout_s: float
    ) -> configs.DescribeConfigsResponse:
        await self._answering("describe_configs")
        return configs.DescribeConfigsResponse(results=[self._described(asked) for asked in request.resources])

    def _described(self, asked: configs.ConfigResource) -> configs.ResourceDescription:
        if asked.resource_type is configs.ConfigResourceType.BROKER:
            entries = [_config("node.id", asked.resource_name, configs.ConfigSource.STATIC_BROKER_CONFIG)]
            assert asked.resource_name == str(self.broker_id)
        else:
            own = self.cluster.configs.get(asked.resource_name, {})
            entries = [_config("segment.bytes", "1073741824", configs.ConfigSource.DEFAULT_CONFIG)]
            entries += [
                _config(key, value, configs.ConfigSource.DYNAMIC_TOPIC_CONFIG) for key, value in sorted(own.items())
            ]
        known = asked.resource_name in self.cluster.topics or asked.resource_type is configs.ConfigResourceType.BROKER
        return configs.ResourceDescription(
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            entries=entries if known else [],
        )

    async def incremental_alter_configs(
        self, request: configs.IncrementalAlterConfigsRequest, timeout_s: float
    ) -> configs.IncrementalAlterConfigsResponse:
        await self._answering("incremental_alter_configs")
        self.cluster.alterations.append(request)
        results = []
        for asked in request.resources:
            own = self.cluster.configs.setdefault(asked.resource_name, {})
            for alteration in [] if request.validate_only else asked.alterations:
                own.pop(alteration.key, None)
                if alteration.value is not None:
                    own[alteration.key] = alteration.value
            known = asked.resource_name in self.cluster.topics
            results.append(
                configs.ResourceAlterationResult(
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            )
        return configs.IncrementalAlterConfigsResponse(results=results)

    async def describe_quorum(self, timeout_s: float) -> values.QuorumDescription:
        await self._answering("describe_quorum")
        voters = [values.QuorumMember(node_id=broker_id, log_end_offset=41) for broker_id in self.cluster.brokers]
        return values.QuorumDescription(leader_id=2, leader_epoch=5, high_watermark=41, voters=voters)


def _config(key: str, value: str, source: configs.ConfigSource) -> configs.ConfigEntry:
    return configs.ConfigEntry(
        key=key,
        value=value,
        source=source,
        is_default=source is configs.ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        type=configs.ConfigType.LONG,
        synonyms=[configs.ConfigSynonym(key=key, value=value, source=source)],
    )


def _result(topic: str, code: ErrorCode) -> values.TopicResult:
    return values.TopicResult(topic=topic, error_code=code, topic_id=uuid5(NAMESPACE, topic), partitions=1)


class FakeStream:
    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.broken = asyncio.Event()

    def break_off(self) -> None:
        self.broken.set()

    def check(self) -> None:
        if self.broken.is_set() or not self.broker.is_up:
            raise Unreachable(self.broker.address, "the stream broke")

    async def close(self) -> None:
        self.break_off()

    async def _until_broken(self, *others: asyncio.Future[Any]) -> None:
        broken = asyncio.ensure_future(self.broken.wait())
        try:
            waited: list[asyncio.Future[Any]] = [broken, *others]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            broken.cancel()
            for other in others:
                other.cancel()


class FakeProduceStream(FakeStream):
    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.answers: asyncio.Queue[values.ProduceResponse] = asyncio.Queue()

    async def send(self, request: values.ProduceRequest) -> None:
        self.check()
        await asyncio.sleep(0)
        if self.broker.hangs:
            return
        if self.broker.loses_requests:
            self.broker.loses_requests -= 1
            self.break_off()
            return
        response = self.broker.produce(request)
        if self.broker.loses_answers:
            self.broker.loses_answers -= 1
            self.break_off()
        elif request.acks:
            self.answers.put_nowait(response)
        elif any(result.error_code for result in response.partitions):
            # All that a broker can tell of a request that gets no answer.
            self.break_off()

    async def receive(self) -> values.ProduceResponse:
        self.check()
        answer = asyncio.ensure_future(self.answers.get())
        broken = asyncio.ensure_future(self.broken.wait())
        try:
            waited: list[asyncio.Future[Any]] = [answer, broken]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise Unreachable(self.broker.address, "the stream broke")
        finally:
            answer.cancel()
            broken.cancel()


class FakeFetchStream(FakeStream):
    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.asked: deque[values.FetchRequest] = deque()

    async def send(self, request: values.FetchRequest) -> None:
        self.check()
        self.broker.fetched.append(request)
        self.asked.append(request)

    async def receive(self) -> values.FetchResponse:
        request = self.asked.popleft()
        until_s = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            self.check()
            if self.broker.hangs:
                await self._until_broken()
                continue
            response = self.broker.fetch(request)
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or any(_is_worth_an_answer(each) for each in response.partitions):
                return response
            news = asyncio.ensure_future(self.broker.cluster.changed.wait())
            timer = asyncio.ensure_future(asyncio.sleep(left_s))
            await self._until_broken(news, timer)


def _is_worth_an_answer(result: values.FetchPartitionResult) -> bool:
    return bool(result.records) or result.error_code is not ErrorCode.NONE


def all_values(batches: Iterable[bytes]) -> list[bytes | None]:
    return [record.value for data in batches for _, batch in split(data) for record in decode_batch(batch)]


def tp(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
