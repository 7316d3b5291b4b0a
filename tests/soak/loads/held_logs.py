"""Logs that hold an event loop longest: a truncation of many batches, look-ups of many aborted transactions.

A function prepares its scenario in a directory, scaled by a number of at most 1, and returns what is to be measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch, with_assigned_offsets
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartition, FetchRequest
from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partition import Partition
from tests.support.log.log_building import EPOCH
from tests.support.server.replicas import Broker, lead

Work = Callable[[], Awaitable[object]]

TRUNCATED_BATCHES: Final = 600_000
ABORTED: Final = 200_000
COPIED_AT_ONCE: Final = 1_000
_RECORD: Final = [Record(0, 1_000, None, b"v")]


def truncation(directory: Path, scale: float) -> Work:
    """A leader that returns truncates the end of a log of small batches, none of them below a snapshot."""
    count = int(TRUNCATED_BATCHES * scale)
    syncer = LogSyncer([LogDirectory(str(directory))])
    broker = Broker(directory, request_sync=syncer.request)
    partition = broker.open(TopicPartition("orders", 0))
    _copy(partition, (build_batch(_RECORD, producer_id=7, producer_epoch=0, base_sequence=at) for at in range(count)))

    async def work() -> None:
        running = asyncio.create_task(syncer.run())
        held = partition.log
        await partition.replica_log.changes.make(lambda: held.truncating_to(Offset(count - 10))).wait()
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
            handler = FetchHandler(broker.partitions, SlowReads(thread))
            for _ in range(5):
                for offset in (count - 1, count - 1_000, count // 2):
                    wanted = _reading(offset)
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
                for piece in with_assigned_offsets(memoryview(batch), Offset(end + at), EPOCH, None)
            )
        )


def _reading(offset: int) -> FetchRequest:
    return FetchRequest(
        request_id=7,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        partitions=[FetchPartition(topic="orders", partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
        reads_committed=True,
    )
