"""Produce and fetch, whose requests are values of the client's own: as Kafka's messages, and back."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from kraft.log.format.record_batch import whole_batches
from kraft.model import fetch, produce
from kraft.model.errors import ErrorCode, RecordError, error_code
from kraft.model.ids import TopicPartition
from kraft.wire.schema.fetch import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kraft.wire.schema.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_BY_TOPIC = attrgetter("topic")


def produce_message(request: produce.ProduceRequest) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=request.transactional_id or None,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=tuple(
            TopicProduceData(
                name=topic,
                partition_data=tuple(
                    PartitionProduceData(index=each.partition, records=each.records) for each in group
                ),
            )
            for topic, group in groupby(sorted(request.partitions, key=_BY_TOPIC), _BY_TOPIC)
        ),
    )


def produce_result(request: produce.ProduceRequest, response: ProduceResponse) -> produce.ProduceResponse:
    """Return the results in the order of the request. Raises ValueError if one is missing."""
    found = {
        TopicPartition(topic.name, each.index): _produced(topic.name, each)
        for topic in response.responses
        for each in topic.partition_responses
    }
    asked = [TopicPartition(each.topic, each.partition) for each in request.partitions]
    if missing := [each for each in asked if each not in found]:
        raise ValueError(f"its response lacks {missing[0]}")
    return produce.ProduceResponse(
        request_id=request.request_id,
        partitions=[found[each] for each in asked],
        throttle_time_ms=response.throttle_time_ms,
    )


def fetch_message(request: fetch.FetchRequest) -> FetchRequest:
    return FetchRequest(
        # Up to version 12, after which topics have no names.
        replica_id=DEBUGGING_CONSUMER if request.of_replica else CONSUMER,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=int(request.reads_committed),
        topics=tuple(
            FetchTopic(
                topic=topic,
                partitions=tuple(
                    FetchPartition(
                        partition=each.partition,
                        current_leader_epoch=each.current_leader_epoch,
                        fetch_offset=each.fetch_offset,
                        partition_max_bytes=each.partition_max_bytes,
                    )
                    for each in group
                ),
            )
            # A broker fills the response in this order: that of the request has to last.
            for topic, group in groupby(request.partitions, _BY_TOPIC)
        ),
    )


def fetch_result(request: fetch.FetchRequest, response: FetchResponse) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        request_id=request.request_id,
        partitions=[_fetched(topic.topic, each) for topic in response.responses for each in topic.partitions],
        throttle_time_ms=response.throttle_time_ms,
    )


def _produced(topic: str, result: PartitionProduceResponse) -> produce.ProducePartitionResult:
    return produce.ProducePartitionResult(
        topic=topic,
        partition=result.index,
        error_code=error_code(result.error_code),
        error_message=result.error_message or "",
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        leader_id=result.current_leader.leader_id,
        leader_epoch=result.current_leader.leader_epoch,
        record_errors=[
            RecordError(batch_index=each.batch_index, error_message=each.batch_index_error_message or "")
            for each in result.record_errors
        ],
    )


def _fetched(topic: str, result: PartitionData) -> fetch.FetchPartitionResult:
    code = error_code(result.error_code)
    return fetch.FetchPartitionResult(
        topic=topic,
        partition=result.partition_index,
        error_code=code,
        error_message="" if code is ErrorCode.NONE else code.name,
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        records=whole_batches(bytes(result.records or b"")),
        leader_id=result.current_leader.leader_id,
        leader_epoch=result.current_leader.leader_epoch,
        last_stable_offset=result.last_stable_offset,
        aborted=[
            fetch.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in result.aborted_transactions or ()
        ],
    )
