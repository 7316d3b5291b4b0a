"""Fuzz targets: what nodes read on connections of their own: introductions, and frames of ReplicaFetch."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final
from uuid import UUID

from kraft.log.format.record_batch import split
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_connection import FrameConnection
from kraft.rpc.frame_exchange import admitting, hello, read_hello, refusal_in, refusing
from kraft.rpc.introductions import NONCE_BYTES
from kraft.rpc.replica_fetch_frames import BadFetchFrame, unpack_request, unpack_response

pack_request, pack_response = REPLICA_FETCH.request.to_message, REPLICA_FETCH.response.to_message
TOPIC = UUID(int=7)
PROOF_BYTES: Final = 32


def replica_fetch_request(data: bytes) -> None:
    try:
        request = unpack_request(data)
    except BadFetchFrame:
        return
    assert pack_request(request) == data, "a frame is not written as it was read"


def replica_fetch_response(data: bytes) -> None:
    try:
        response = unpack_response(data)
    except BadFetchFrame:
        return
    assert unpack_response(pack_response(response)) == response
    for result in response.partitions:
        try:
            split(result.records)
        except InvalidBatch:
            continue


def node_connection(data: bytes) -> None:
    """The bytes are a first frame, an answer to one, and what arrives on a connection."""
    with suppress(ValueError):
        nonce, introduction = read_hello(data)
        assert len(nonce) == NONCE_BYTES
        assert isinstance(introduction, str)
    refusal_in(data, bytes(PROOF_BYTES))
    frames: list[bytes] = []
    connection = FrameConnection(
        frame_bytes_max=1 << 16,
        received=lambda frame: frames.append(bytes(frame)),
        ended=lambda _: None,
        may_write=lambda: None,
    )
    connection.connection_made(_Nowhere())
    left = memoryview(data)
    while left and not connection.is_over:
        room = connection.get_buffer(-1)
        count = min(len(room), len(left))
        room[:count] = left[:count]
        connection.buffer_updated(count)
        left = left[count:]
    assert sum(map(len, frames)) <= len(data)


class _Nowhere(asyncio.Transport):
    def abort(self) -> None:
        pass


def node_connections() -> tuple[bytes, ...]:
    return (
        hello(bytes(NONCE_BYTES), "1 00 cluster 7 00 1 00"),
        admitting(bytes(PROOF_BYTES)),
        refusing("no"),
        b"\0\0\0\3abc\0\0\0\0\0\0\0\1d",
    )


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
