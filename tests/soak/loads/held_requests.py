"""Requests that hold an event loop longest: floods of markers, and of entries to be appended.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.ids import TopicPartition
from kraft.server.handlers.txn_markers import TxnMarkersHandler
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.wire.schema.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.group_broker import GroupBroker
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, lead

Work = Callable[[], Awaitable[object]]

MARKERS: Final = 30_000
ENTRIES: Final = 15_000
LARGE_ENTRIES: Final = 200
LARGE_ENTRY_BATCHES: Final = 1_000
_RECORD: Final = [Record(0, 1_000, None, b"v")]
_PRODUCE_VERSION: Final = 10


def marker_flood(directory: Path, scale: float) -> Work:
    """One request has a marker of many producers for one partition of the offsets topic."""
    topics = (WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=(0,)),)
    markers = tuple(
        WritableTxnMarker(
            producer_id=producer_id, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
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
        handler = produce_handler(broker.partitions)
        requests = KafkaRequests(
            {ApiKey.PRODUCE: ProduceApi(handler.begin, Leaders(lambda: image, "GRPC"), handler.refuse_unknown)}, "peer"
        )
        response = requests.begin(frame)
        if not isinstance(response, list):
            await response

    return work
