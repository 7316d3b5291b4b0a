"""Cases of the APIs that append and read records."""

from __future__ import annotations

from typing import Final

from kraft.model import fetch as fetching
from kraft.model import produce as producing
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, ProduceRecordsRequest
from tests.unit.server.access.needs import NONE, READ, TOPIC, TRANSACTION, WRITE, Case, on_id, on_topic

PLAIN_BATCH: Final = bytes(61)
TRANSACTIONAL_BATCH: Final = bytes(22) + b"\x10" + bytes(38)


def _produced(request: producing.ProduceRequest) -> producing.ProduceResponse:
    results = [
        producing.ProducePartitionResult(topic=each.topic, partition=each.partition, error_code=NONE, base_offset=3)
        for each in request.partitions
    ]
    return producing.ProduceResponse(request_id=request.request_id, partitions=results)


def _fetched(request: fetching.FetchRequest) -> fetching.FetchResponse:
    results = [
        fetching.FetchPartitionResult(topic=each.topic, partition=each.partition, error_code=NONE, records=b"records")
        for each in request.partitions
    ]
    return fetching.FetchResponse(request_id=request.request_id, partitions=results)


RECORD_CASES: Final[dict[str, Case]] = {
    "Produce": Case(
        producing.ProduceRequest(
            request_id=1,
            acks=-1,
            timeout_ms=100,
            partitions=[producing.ProducePartition(topic=TOPIC, partition=0, records=TRANSACTIONAL_BATCH)],
            transactional_id=TRANSACTION,
        ),
        _produced,
        ((on_topic(WRITE),), (on_id(WRITE),)),
        "the transactional id is asked for records of a transaction, and then nothing is appended without it",
    ),
    "Fetch": Case(
        fetching.FetchRequest(
            request_id=1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=100,
            partitions=[fetching.FetchPartition(topic=TOPIC, partition=0, fetch_offset=0, partition_max_bytes=100)],
        ),
        _fetched,
        ((on_topic(READ),),),
    ),
    "ProduceRecords": Case(
        ProduceRecordsRequest(topic=TOPIC, partition=0, acks=-1, timeout_ms=1, records=[]),
        lambda request: producing.ProducePartitionResult(topic=request.topic, partition=0, error_code=NONE),
        ((on_topic(WRITE),),),
    ),
    "FetchRecords": Case(
        FetchRecordsRequest(topic=TOPIC, partition=0, fetch_offset=0, max_wait_ms=0, max_bytes=1),
        lambda _: FetchRecordsResponse(error_code=NONE, high_watermark=5),
        ((on_topic(READ),),),
    ),
}
