"""What holds an event loop longest: logs, requests and a controller's start, each prepared on a disk for a measured loop.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import batched, repeat
from pathlib import Path
from typing import Any, Final

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch, placed
from kraft.log.format.record_codec import Record
from kraft.metadata.records import PartitionCreated, TopicCreated
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, LogDirectory, Offset, TopicPartition
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
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.cluster_images import ORDERS
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

DEADLINE_S: Final = 120.0

_RECORD: Final = [Record(0, 1_000, None, b"v")]
_PRODUCE_VERSION: Final = 10


# --- logs ------------------------------------------------------------------------------------------------------------


def truncation(directory: Path, scale: float) -> Work:
    """A leader that returns truncates the end of a log of small batches, none of them below a snapshot."""
    count = int(TRUNCATED_BATCHES * scale)
    broker, syncers = Broker(directory), list[LogSyncer]()
    partition = broker.open(TopicPartition("orders", 0))
    _copy(partition, (build_batch(_RECORD, producer_id=7, producer_epoch=0, base_sequence=at) for at in range(count)))

    async def work() -> None:
        syncer = LogSyncer([LogDirectory(str(directory))])
        syncers.append(syncer)
        running = asyncio.create_task(syncer.run())
        partition._changes._off_loop, partition._changes._request_step = True, lambda: syncer.request(partition)
        held = partition.log
        await partition._changes.make(lambda: held.truncating_to(Offset(count - 10))).wait()
        assert held.log_end_offset == count - 10
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        syncer.close()

    return work


def aborted_look_up(directory: Path, scale: float) -> Work:
    """A consumer reads beside an open transaction: each block of the index has entries that begin before its records."""
    count = int(ABORTED * scale)
    broker = Broker(directory)
    partition = broker.open(TopicPartition("orders", 0))
    producers = range(100, 100 + count)
    _copy(partition, (build_batch(_RECORD, 0, at, 0, 0, transactional=True) for at in producers))  # type: ignore[arg-type]
    abort = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=0)
    _copy(partition, (build_marker(abort, at, 0, 1_000) for at in producers))
    lead(partition, replicas=(1,))
    broker.sync()

    async def work() -> None:
        with ThreadPoolExecutor(1) as thread:
            handler = FetchHandler(broker.partitions, slow_reads=SlowReads(thread))
            for _ in range(5):
                for offset in (count - 1, count - 1_000, count // 2):
                    wanted = request(asking(offset))
                    wanted.reads_committed = True  # type: ignore[misc]
                    (result,) = (await handler.handle(wanted)).partitions
                    assert result.error_code is ErrorCode.NONE
                    assert result.aborted

    return work


def _copy(partition: Partition, batches: Iterable[bytes]) -> None:
    """Append the batches as a follower does."""
    for together in batched(batches, 1_000):
        end = partition.log.log_end_offset
        partition.log.append_as_follower(
            b"".join(
                piece
                for at, batch in enumerate(together)
                for piece in placed(memoryview(batch), Offset(end + at), 0, None)
            )
        )
