"""Fetch: committed record batches for consumers, at once when there are any, otherwise as soon as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.log.format.record_batch import HEADER_BYTES, split
from kraft.log.segment.batches import READ_BATCHES_MAX
from kraft.log.segment.segment import READ_BYTES_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.rpc.call import Served
from kraft.rpc.calls import FETCH
from kraft.server.loop.purgatory import Notifier, Watch
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

RESPONSE_BYTES_MAX: Final = 55 * 1024 * 1024
"""However much a request asks for. Kafka's fetch.max.bytes at its default; one message of ours holds a little more."""

PARTITIONS_AT_ONCE: Final = 500
"""Then others have their turn: a request may name more partitions than are read in a second."""

TURN_S_MAX: Final = 0.01
"""Then too: a partition may give some MiB, or a thousand small batches."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How much a read may give."""

    bytes_max: int
    at_least_one: bool
    """KIP-74: the first batch of an answer is given whatever its size, so that a consumer never gets stuck."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A result, and whose and within which bounds it was read."""

    result: FetchPartitionResult
    partition: Partition | None
    bounds: _Bounds

    def is_cut_alike(self, bounds: _Bounds) -> bool:
        """A read within these bounds ends where this one did."""
        was = self.bounds
        is_within = was.at_least_one and len(self.result.records) <= was.bytes_max
        return bounds.bytes_max == was.bytes_max and (bounds.at_least_one == was.at_least_one or is_within)


class _Reading:
    """What a request has found so far, in its order, and how much more it may."""

    def __init__(self, request: FetchRequest) -> None:
        self._request_id = request.request_id
        # Nobody waits for more than one read of one partition gives: behind it there may be more.
        bytes_min = min(request.min_bytes, request.max_bytes, READ_BYTES_MAX, RESPONSE_BYTES_MAX)
        self._bytes_min = bytes_min if request.partitions else 0
        self.left_bytes = min(request.max_bytes, RESPONSE_BYTES_MAX)
        self.found_bytes = 0
        self._has_error = False
        self.reads: list[_Read] = []

    def bounds(self, wanted: FetchPartition) -> _Bounds:
        """Of what is read next."""
        return _Bounds(min(self.left_bytes, wanted.partition_max_bytes), self.found_bytes == 0)

    def add(self, read: _Read) -> None:
        result = read.result
        size_bytes = len(result.records)
        self.found_bytes += size_bytes
        self.left_bytes = max(self.left_bytes - size_bytes, 0)
        self._has_error = self._has_error or result.error_code is not ErrorCode.NONE
        self.reads.append(read)

    @property
    def is_enough(self) -> bool:
        """There is nothing to wait for: enough records, or an error to tell."""
        return self._has_error or self.found_bytes >= self._bytes_min or self._is_cut()

    def _is_cut(self) -> bool:
        """Some read ended at so many batches as it may give, small ones, and behind them there may be more."""
        return any(
            len(split(read.result.records)) >= READ_BATCHES_MAX
            for read in self.reads
            if len(read.result.records) >= READ_BATCHES_MAX * HEADER_BYTES
        )

    def response(self) -> FetchResponse:
        return FetchResponse(request_id=self._request_id, partitions=[read.result for read in self.reads])


class FetchHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def begin(self, request: FetchRequest) -> Awaitable[FetchResponse] | FetchResponse:
        """As `handle`, and the answer itself when it is there without waiting."""
        reading = _Reading(request)
        is_whole = self._read_on(request, reading)
        if is_whole and (reading.is_enough or request.max_wait_ms <= 0):
            return reading.response()
        return self._handle(request, reading)

    async def handle(self, request: FetchRequest) -> FetchResponse:
        """Waits for `min_bytes`, unless some partition has an error to tell or the wait is over."""
        return await self._handle(request, _Reading(request))

    async def _handle(self, request: FetchRequest, reading: _Reading) -> FetchResponse:
        """`reading` has begun. What changes meanwhile is read again before it is waited for more, and nothing else."""
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1_000
        await self._read_rest(request, reading)
        if reading.is_enough:
            return reading.response()
        with Watch(self._watched(request)) as watch:
            while True:
                watch.again()
                reading = await self._read_again(request, reading)
                if reading.is_enough or not await watch.wait(deadline - asyncio.get_running_loop().time()):
                    return reading.response()

    def _watched(self, request: FetchRequest) -> list[Notifier]:
        found = (self._partitions.find_by_name(wanted.topic, wanted.partition) for wanted in request.partitions)
        return [partition.committed for partition in found if partition is not None]

    async def _read_again(self, request: FetchRequest, before: _Reading) -> _Reading:
        """A new reading, which keeps what `before` has found where a read would give the same."""
        reading = _Reading(request)
        await self._read_rest(request, reading, before.reads)
        return reading

    async def _read_rest(self, request: FetchRequest, reading: _Reading, before: Sequence[_Read] = ()) -> None:
        while True:
            if self._read_on(request, reading, before):
                return
            await asyncio.sleep(0)

    def _read_on(self, request: FetchRequest, reading: _Reading, before: Sequence[_Read] = ()) -> bool:
        """True when all partitions are read; False when it is the turn of others."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TURN_S_MAX
        begin = len(reading.reads)
        for at, wanted in enumerate(request.partitions[begin : begin + PARTITIONS_AT_ONCE], begin):
            bounds = reading.bounds(wanted)
            is_known = bool(before) and self._is_current(wanted, before[at], bounds)
            reading.add(before[at] if is_known else self._read(wanted, bounds))
            if loop.time() >= until_s:
                break
        return len(reading.reads) == len(request.partitions)

    def _is_current(self, wanted: FetchPartition, read: _Read, bounds: _Bounds) -> bool:
        """A read within `bounds` would give the same: nothing has changed in the partition that a read tells of."""
        partition, result = self._partitions.find_by_name(wanted.topic, wanted.partition), read.result
        return (
            partition is not None
            and partition is read.partition
            and partition.leader is not None
            and partition.leader_epoch == result.leader_epoch
            and partition.high_watermark == result.high_watermark
            and partition.log.log_start_offset == result.log_start_offset
            # At the high watermark there is nothing to read, however much may be read.
            and (read.is_cut_alike(bounds) or wanted.fetch_offset >= result.high_watermark)
        )

    def _read(self, wanted: FetchPartition, bounds: _Bounds) -> _Read:
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
            records = partition.read(
                Offset(wanted.fetch_offset), bounds.bytes_max, partition.high_watermark, bounds.at_least_one
            )
        except Refusal as refusal:
            return _Read(self._refused(wanted, refusal), None, bounds)
        result = FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            records=records,
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
        )
        return _Read(result, partition, bounds)

    def _refused(self, wanted: FetchPartition, refusal: Refusal) -> FetchPartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(wanted.topic, wanted.partition)
        held = self._partitions.find_by_name(wanted.topic, wanted.partition)
        return FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )

    def served(self) -> list[Served]:
        return [FETCH.served_by(self.handle)]
