"""ProduceRecords and FetchRecords: produce and fetch plain records, for languages without a record batch codec.

Converts records to and from the batches of Produce and Fetch, which do the work.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

from msgspec.structs import replace

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.format.record_stream import UnpackedRecords, unpack_records
from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest
from kraft.model.plain_records import (
    FetchRecordsRequest,
    FetchRecordsResponse,
    PlainHeader,
    PlainRecord,
    ProduceRecordsRequest,
)
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.loop.slow_reads import RequestReads, SlowReads
from kraft.server.loop.turns import Turns

NOW: Final = -1

FETCHED_RECORDS_MAX: Final = 2_000
"""Maximum number of records and headers in one response: each becomes an object on the event loop."""

RECORDS_AT_ONCE: Final = 200
"""Records converted before other tasks have their turn."""

PACKED_ON_LOOP_MAX: Final = 1_000
"""More records are packed into a batch in a thread."""

FETCHED_BYTES_MAX: Final = 4 << 20
"""Maximum bytes of unpacked records in one response, unless the first is larger; also of batches read for it."""

UNPACKED_AT_ONCE_MAX: Final = 16
"""Requests that hold batches and records in memory at a time; others wait for their turn."""

UNPACK_S_MAX: Final = 20.0
"""Time that one request may take to read and unpack, besides its wait for records."""


class PlainRecordsHandler:
    def __init__(self, produce: ProduceHandler, fetch: FetchHandler, slow_reads: SlowReads, wall_ms: NowMs) -> None:
        self._produce = produce
        self._fetch = fetch
        self._slow_reads = slow_reads
        self._wall_ms = wall_ms
        self._unpacking = asyncio.Semaphore(UNPACKED_AT_ONCE_MAX)

    async def produce(self, request: ProduceRecordsRequest) -> ProducePartitionResult:
        if not request.records:
            return _refused(request, ErrorCode.INVALID_REQUEST, "produce request without records: send at least one")
        if any(record.timestamp_ms < NOW for record in request.records):
            return _refused(
                request, ErrorCode.INVALID_TIMESTAMP, "negative timestamp: must be at least 0, or -1 for now"
            )
        is_long = len(request.records) > PACKED_ON_LOOP_MAX
        batch = await asyncio.to_thread(self._batch, request) if is_long else self._batch(request)
        response = await self._produce.handle(
            ProduceRequest(
                request_id=0,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                partitions=[ProducePartition(topic=request.topic, partition=request.partition, records=batch)],
            )
        )
        if response is None:
            return ProducePartitionResult(topic=request.topic, partition=request.partition, error_code=ErrorCode.NONE)
        return response.partitions[0]

    async def fetch(self, request: FetchRecordsRequest) -> FetchRecordsResponse:
        """Read, and if there is no record wait and read again: a waiting request holds no batches in memory."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.max_wait_ms / 1_000
        reads = self._slow_reads.of_request(max(request.max_wait_ms, 0) / 1_000 + UNPACK_S_MAX)
        while True:
            async with self._unpacking:
                response, next_offset = await self._read_once(request, reads)
            wait_ms = math.ceil((deadline_s - loop.time()) * 1_000)
            if response.records or response.error_code is not ErrorCode.NONE:
                return response
            if next_offset > request.fetch_offset:
                # These batches have no records for consumers, such as those that compaction leaves empty.
                request = replace(request, fetch_offset=next_offset)
            elif wait_ms > 0:
                await self._fetch_batches(request, max_bytes=1, max_wait_ms=wait_ms)
            else:
                return response

    async def _read_once(self, request: FetchRecordsRequest, reads: RequestReads) -> tuple[FetchRecordsResponse, int]:
        """Return the current response and the offset to continue from."""
        bytes_max = max(min(request.max_bytes, FETCHED_BYTES_MAX), 1)
        result = await self._fetch_batches(request, max_bytes=bytes_max, max_wait_ms=0)
        code, message = result.error_code, result.error_message
        unpacked = UnpackedRecords(records=[], next_offset=request.fetch_offset)
        try:
            if result.records:
                steps = unpack_records(result.records, request.fetch_offset, FETCHED_RECORDS_MAX, bytes_max)
                unpacked = await reads.run(steps)
        except TimeoutError:
            code, message = (
                ErrorCode.REQUEST_TIMED_OUT,
                f"unpacking records took longer than {UNPACK_S_MAX:g} s: fetch fewer bytes",
            )
        if unpacked.error is not None:
            # The checksum is right, so a producer sent it like this; it cannot be returned as plain records.
            code, message = unpacked.error.error_code, unpacked.error.message
        turns, records = Turns(RECORDS_AT_ONCE), list[PlainRecord]()
        for record in unpacked.records:
            records.append(_plain(record))
            await turns.done(1 + len(record.headers))
        response = FetchRecordsResponse(
            error_code=code,
            error_message=message,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            records=records,
        )
        return response, unpacked.next_offset

    async def _fetch_batches(
        self, request: FetchRecordsRequest, max_bytes: int, max_wait_ms: int
    ) -> FetchPartitionResult:
        response = await self._fetch.handle(
            FetchRequest(
                request_id=0,
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                partitions=[
                    FetchPartition(
                        topic=request.topic,
                        partition=request.partition,
                        fetch_offset=request.fetch_offset,
                        partition_max_bytes=max_bytes,
                    )
                ],
            )
        )
        (result,) = response.partitions
        return result

    def _batch(self, request: ProduceRecordsRequest) -> bytes:
        now_ms = self._wall_ms()
        return build_batch(
            [
                Record(
                    offset=at,
                    timestamp_ms=now_ms if record.timestamp_ms == NOW else record.timestamp_ms,
                    key=record.key,
                    value=record.value,
                    headers=tuple((header.key, header.value) for header in record.headers),
                )
                for at, record in enumerate(request.records)
            ]
        )


def _refused(request: ProduceRecordsRequest, code: ErrorCode, message: str) -> ProducePartitionResult:
    return ProducePartitionResult(
        topic=request.topic, partition=request.partition, error_code=code, error_message=message
    )


def _plain(record: Record) -> PlainRecord:
    return PlainRecord(
        key=record.key,
        value=record.value,
        headers=[PlainHeader(key=key, value=value) for key, value in record.headers],
        timestamp_ms=record.timestamp_ms,
        offset=record.offset,
    )
