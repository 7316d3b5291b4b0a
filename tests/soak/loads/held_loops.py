"""What holds an event loop longest: logs, requests and a controller's start, each prepared on a disk.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch, placed
from kraft.log.format.record_codec import Record
from kraft.metadata.records import MetadataRecord, PartitionCreated, TopicCreated
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, LeaderEpoch, LogDirectory, Offset, PartitionEpoch, TopicId, TopicPartition
from kraft.model.partitions import PartitionName
from kraft.model.transaction_partitions import TxnMarker, WriteTxnMarkersRequest
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.world import QuorumWorld
from kraft.rpc.metadata_codec import encode_records
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.txn_markers import TxnMarkersHandler
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.log.log_building import EPOCH
from tests.support.server.group_broker import GroupBroker
from tests.support.server.replicas import Broker, lead
from tests.unit.server.handlers.fetches import asking, request

Work = Callable[[], Awaitable[object]]

TRUNCATED_BATCHES: Final = 600_000
ABORTED: Final = 200_000
MARKERS: Final = 30_000
ENTRIES: Final = 15_000
LARGE_ENTRIES: Final = 200
LARGE_ENTRY_BATCHES: Final = 1_000
PARTITIONS: Final = 50_000

COPIED_AT_ONCE: Final = 1_000
TOPIC_PARTITIONS: Final = 50

DEADLINE_S: Final = 120.0

_RECORD: Final = [Record(0, 1_000, None, b"v")]
_PRODUCE_VERSION: Final = 10


# --- logs ------------------------------------------------------------------------------------------------------------


def truncation(directory: Path, scale: float) -> Work:
    """A leader that returns truncates the end of a log of small batches, none of them below a snapshot."""
    count = int(TRUNCATED_BATCHES * scale)
    broker = Broker(directory)
    partition = broker.open(TopicPartition("orders", 0))
    _copy(partition, (build_batch(_RECORD, producer_id=7, producer_epoch=0, base_sequence=at) for at in range(count)))

    async def work() -> None:
        syncer = LogSyncer([LogDirectory(str(directory))])
        running = asyncio.create_task(syncer.run())
        partition._changes._off_loop, partition._changes._request_step = True, lambda: syncer.request(partition)
        held = partition.log
        await partition._changes.make(lambda: held.truncating_to(Offset(count - 10))).wait()
        assert held.log_end_offset == count - 10
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await syncer.close()

    return work


def aborted_look_up(directory: Path, scale: float) -> Work:
    """A consumer reads where very many transactions were open, all of which were aborted later."""
    count = int(ABORTED * scale)
    broker = Broker(directory)
    partition = broker.open(TopicPartition("orders", 0))
    producers = range(100, 100 + count)
    _copy(
        partition,
        (
            build_batch(_RECORD, producer_id=at, producer_epoch=0, base_sequence=0, transactional=True)
            for at in producers
        ),
    )
    abort = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=0)
    _copy(partition, (build_marker(abort, at, 0, 1_000) for at in producers))
    lead(partition, replicas=(1,))
    broker.sync()

    async def work() -> None:
        with ThreadPoolExecutor(1) as thread:
            handler = FetchHandler(broker.partitions, slow_reads=SlowReads(thread))
            for _ in range(5):
                for offset in (count - 1, count - 1_000, count // 2):
                    wanted = replace(request(asking(offset)), reads_committed=True)
                    (result,) = (await handler.handle(wanted)).partitions
                    assert result.error_code is ErrorCode.NONE
                    assert result.aborted

    return work


def _copy(partition: Partition, batches: Iterable[bytes]) -> None:
    """Append the batches as a follower does."""
    left = iter(batches)
    while together := list(islice(left, COPIED_AT_ONCE)):
        end = partition.log.log_end_offset
        partition.log.append_as_follower(
            b"".join(
                piece
                for at, batch in enumerate(together)
                for piece in placed(memoryview(batch), Offset(end + at), EPOCH, None)
            )
        )


# --- requests --------------------------------------------------------------------------------------------------------


def marker_flood(directory: Path, scale: float) -> Work:
    """One request has a marker of many producers for one partition of the offsets topic."""
    names = (PartitionName(topic=OFFSETS_TOPIC, partition=0),)
    markers = tuple(
        TxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            committed=True,
            coordinator_epoch=0,
            transaction_version=0,
            partitions=names,
        )
        for producer_id in range(int(MARKERS * scale))
    )

    async def work() -> None:
        async with GroupBroker(directory) as broker:
            handler = TxnMarkersHandler(
                broker.broker.partitions,
                WaitingAppends(),
                lambda: 1_000,
                broker.coordinators.append_marker,
                check_hanging=_nothing_hangs,
            )
            # Its deadline may pass first; the coordinator sends what is left again.
            await handler.write(WriteTxnMarkersRequest(markers=markers))

    return work


async def _nothing_hangs(*_: object) -> None:
    raise AssertionError("no operator aborts anything here")


def produce_entries(directory: Path, scale: float) -> Work:
    """One request has many entries for ten partitions."""
    return _produce(directory, [at % 10 for at in range(int(ENTRIES * scale))], build_batch(_RECORD))


def produce_refused(directory: Path, scale: float) -> Work:
    """One request has many entries for partitions that do not exist."""
    return _produce(directory, [10 + at for at in range(int(ENTRIES * scale))], build_batch(_RECORD))


def produce_batches(directory: Path, scale: float) -> Work:
    """One request has as many batches as an entry may have in each of its entries."""
    count = int(LARGE_ENTRIES * scale)
    return _produce(directory, [at % 10 for at in range(count)], build_batch(_RECORD) * LARGE_ENTRY_BATCHES)


def _produce(directory: Path, partitions: Sequence[int], records: bytes) -> Work:
    broker = Broker(directory, sync_before_ack=False)
    for number in range(10):
        lead(broker.open(TopicPartition("orders", number)), replicas=(1,))
    entries = tuple(PartitionProduceData(index=number, records=memoryview(records)) for number in partitions)
    sent = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name="orders", partition_data=entries),)
    )
    frame = memoryview(b"".join(encode_request(sent, _PRODUCE_VERSION, 1, "attacker")))[SIZE_BYTES:]
    image = with_topic(cluster(1), *[[1]] * 10, topic="orders", topic_id=ORDERS)

    async def work() -> None:
        handler = ProduceHandler(broker.partitions)
        requests = KafkaRequests({ApiKey.PRODUCE: ProduceApi(handler.begin, Leaders(lambda: image, "GRPC"))}, "peer")
        response = requests.begin(frame)
        if not isinstance(response, list):
            await response

    return work


# --- a controller ----------------------------------------------------------------------------------------------------


def controller_restart(directory: Path, scale: float) -> Work:
    """A controller starts with the log of many topics and without a snapshot."""
    config = QuorumConfig(
        node_id=1,
        cluster_id="loop holds",
        voters={1: VoterAddress(host="localhost", port=9093)},
        directory=directory,
    )
    topics = int(PARTITIONS * scale) // TOPIC_PARTITIONS

    async def start() -> tuple[RaftQuorum, StateMachineHost]:
        leads = asyncio.Event()
        host = StateMachineHost(lambda is_active: leads.set() if is_active else None)
        quorum = RaftQuorum(
            config=config,
            world=QuorumWorld(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy()),
            listener=host,
            fatal=sys.exit,
        )
        host.attach(quorum)
        await asyncio.to_thread(quorum.open)
        await quorum.start()
        await asyncio.wait_for(leads.wait(), DEADLINE_S)
        return quorum, host

    async def fill() -> None:
        quorum, _ = await start()
        for number in range(topics):
            await quorum.propose(encode_records(_topic(number)), quorum.term, DEADLINE_S)
        await quorum.stop()

    async def work() -> None:
        quorum, host = await start()
        assert len(host.image.topics) == topics, "it leads with the whole log"
        await quorum.stop()

    directory.mkdir()
    asyncio.run(fill())
    return work


def _topic(number: int) -> list[MetadataRecord]:
    topic_id = TopicId(UUID(int=number + 1))
    return [
        TopicCreated(topic=f"topic-{number}", topic_id=topic_id),
        *(
            PartitionCreated(
                topic_id=topic_id,
                partition=partition,
                replicas=[BrokerId(1)],
                isr=[BrokerId(1)],
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
            )
            for partition in range(TOPIC_PARTITIONS)
        ),
    ]
