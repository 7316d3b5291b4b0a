"""ProduceRecords and FetchRecords: plain records, for languages without a record batch codec.

Translates to the batches of Produce and Fetch, which do the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.log.record_batch import build_batch, iter_records
from kraft.log.record_codec import Record
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.requests import (
    FetchPartition,
    FetchRecordsRequest,
    FetchRecordsResponse,
    FetchRequest,
    PlainHeader,
    PlainRecord,
    ProducePartition,
    ProducePartitionResult,
    ProduceRecordsRequest,
    ProduceRequest,
)
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.produce import ProduceHandler

NOW: Final = -1


class PlainRecordsHandler:
    def __init__(self, produce: ProduceHandler, fetch: FetchHandler, wall_ms: Callable[[], int]) -> None:
        self._produce = produce
        self._fetch = fetch
        self._wall_ms = wall_ms

    async def produce(self, request: ProduceRecordsRequest) -> ProducePartitionResult:
        if not request.records:
            return _refused(request, ErrorCode.INVALID_REQUEST, "a produce request holds at least one record")
        if any(record.timestamp_ms < NOW for record in request.records):
            return _refused(request, ErrorCode.INVALID_TIMESTAMP, "a timestamp is at least 0, or -1 for now")
        response = await self._produce.handle(
            ProduceRequest(
                request_id=0,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                partitions=[
                    ProducePartition(topic=request.topic, partition=request.partition, records=self._batch(request))
                ],
            )
        )
        if response is None:
            return ProducePartitionResult(topic=request.topic, partition=request.partition, error_code=ErrorCode.NONE)
        return response.partitions[0]

    async def fetch(self, request: FetchRecordsRequest) -> FetchRecordsResponse:
        response = await self._fetch.handle(
            FetchRequest(
                request_id=0,
                max_wait_ms=request.max_wait_ms,
                min_bytes=1,
                max_bytes=request.max_bytes,
                partitions=[
                    FetchPartition(
                        topic=request.topic,
                        partition=request.partition,
                        fetch_offset=request.fetch_offset,
                        partition_max_bytes=request.max_bytes,
                    )
                ],
            )
        )
        (result,) = response.partitions
        code, message, records = result.error_code, result.error_message, list[PlainRecord]()
        try:
            records = [_plain(each) for each in iter_records(result.records) if each.offset >= request.fetch_offset]
        except InvalidBatch as error:
            # Its checksum fits, so this is what a producer sent: whoever takes plain records cannot have it.
            code, message = error.error_code, error.message
        return FetchRecordsResponse(
            error_code=code,
            error_message=message,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            records=records,
        )

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
