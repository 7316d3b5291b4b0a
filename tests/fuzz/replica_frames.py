"""Fuzz targets: frames of ReplicaFetch, as the leader and as the follower read them."""

from __future__ import annotations

from uuid import UUID

from kraft.log.format.record_batch import split
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.rpc.replica_fetch_frames import BadFrame, pack_request, pack_response, unpack_request, unpack_response

TOPIC = UUID(int=7)


def replica_fetch_request(data: bytes) -> None:
    try:
        request = unpack_request(data)
    except BadFrame:
        return
    assert pack_request(request) == data, "a frame is not written as it was read"


def replica_fetch_response(data: bytes) -> None:
    try:
        response = unpack_response(data)
    except BadFrame:
        return
    assert unpack_response(pack_response(response)) == response
    for result in response.partitions:
        try:
            split(result.records)
        except InvalidBatch:
            continue


def replica_fetch_requests() -> tuple[bytes, ...]:
    wanted = ReplicaFetchPartition(
        topic_id=TOPIC,
        partition=1,
        fetch_offset=9,
        last_fetched_epoch=2,
        current_leader_epoch=3,
        log_start_offset=0,
        high_watermark=8,
        partition_max_bytes=1 << 20,
    )
    return tuple(
        pack_request(
            ReplicaFetchRequest(
                number=4,
                replica_id=1,
                broker_epoch=7,
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=10 << 20,
                partitions=[wanted] * count,
            )
        )
        for count in (0, 1, 3)
    )


def replica_fetch_responses() -> tuple[bytes, ...]:
    refused = ReplicaFetchResult(
        topic_id=TOPIC, partition=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="does not lead"
    )
    read = ReplicaFetchResult(topic_id=TOPIC, partition=1, error_code=ErrorCode.NONE, leader_epoch=3, records=b"x" * 80)
    return tuple(
        pack_response(ReplicaFetchResponse(number=4, partitions=partitions))
        for partitions in ([], [refused], [read, refused, read])
    )
