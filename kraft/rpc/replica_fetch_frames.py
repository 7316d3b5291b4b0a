"""Frames of ReplicaFetch: fixed fields, and among them the records as they are in the leader's log.

All numbers are big-endian. A frame begins with four bytes that name its kind and the version of its layout, which no
protobuf message of this call ever began with. The records of a decoded response are views of its frame.

Request: kind, number (8), replica id (4), broker epoch (8), max wait ms (4), min bytes (4), max bytes (4), count (4);
for each partition its topic id (16), index (4), fetch offset (8), last fetched epoch (4), current leader epoch (4),
log start offset (8), high watermark (8), max bytes (4).

Response: kind, number (8), count (4); for each partition its topic id (16), index (4), error code (4), leader epoch
(4), high watermark (8), log start offset (8), diverging epoch (4), its end offset (8), the sizes (4, 4) of the error
message and of the records, and these two.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final
from uuid import UUID

from kraft.log.format.record_batch import Buffer
from kraft.model.errors import error_code
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

REQUEST_KIND: Final = b"KRq1"
RESPONSE_KIND: Final = b"KRs1"

_REQUEST: Final = Struct(">4sqiqiiiI")
_WANTED: Final = Struct(">16siqiiqqi")
_RESPONSE: Final = Struct(">4sqI")
_RESULT: Final = Struct(">16siiiqqiqII")


class BadFetchFrame(ValueError):
    """The bytes are not a frame of this kind and version. The text is one line."""


def request_pieces(request: ReplicaFetchRequest) -> list[Buffer]:
    """Return the bytes of a request, in order."""
    pack = _WANTED.pack
    head = _REQUEST.pack(
        REQUEST_KIND,
        request.number,
        request.replica_id,
        request.broker_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        len(request.partitions),
    )
    wanted_bytes = [
        pack(
            wanted.topic_id.bytes,
            wanted.partition,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.current_leader_epoch,
            wanted.log_start_offset,
            wanted.high_watermark,
            wanted.partition_max_bytes,
        )
        for wanted in request.partitions
    ]
    return [head, *wanted_bytes]


def unpack_request(frame: Buffer) -> ReplicaFetchRequest:
    """Return the request. Raises BadFetchFrame."""
    try:
        kind, number, replica_id, broker_epoch, max_wait_ms, min_bytes, max_bytes, count = _REQUEST.unpack_from(frame)
    except error:
        raise _cut_off(frame) from None
    _check_kind(kind, REQUEST_KIND)
    expected = _REQUEST.size + count * _WANTED.size
    if len(frame) != expected:
        raise BadFetchFrame(f"a request for {count} partitions has {expected} bytes, not {len(frame)}")
    partitions = [
        ReplicaFetchPartition(
            topic_id=UUID(bytes=topic_id),
            partition=partition,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            current_leader_epoch=current_leader_epoch,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            partition_max_bytes=partition_max_bytes,
        )
        for (
            topic_id,
            partition,
            fetch_offset,
            last_fetched_epoch,
            current_leader_epoch,
            log_start_offset,
            high_watermark,
            partition_max_bytes,
        ) in _WANTED.iter_unpack(memoryview(frame)[_REQUEST.size :])
    ]
    return ReplicaFetchRequest(
        number=number,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        partitions=partitions,
    )


def response_pieces(response: ReplicaFetchResponse) -> list[Buffer]:
    """Return the bytes of a response, in order; the records are not copied."""
    pieces: list[Buffer] = [_RESPONSE.pack(RESPONSE_KIND, response.number, len(response.partitions))]
    for result in response.partitions:
        message = result.error_message.encode("utf-8", "backslashreplace")
        records = result.records
        pieces.append(
            _RESULT.pack(
                result.topic_id.bytes,
                result.partition,
                result.error_code,
                result.leader_epoch,
                result.high_watermark,
                result.log_start_offset,
                result.diverging_epoch,
                result.diverging_end_offset,
                len(message),
                len(records),
            )
        )
        if message:
            pieces.append(message)
        if records:
            pieces.append(records)
    return pieces


def unpack_response(frame: Buffer) -> ReplicaFetchResponse:
    """Return the response, whose records are views of `frame`. Raises BadFetchFrame."""
    try:
        kind, number, count = _RESPONSE.unpack_from(frame)
        _check_kind(kind, RESPONSE_KIND)
        position, partitions = _RESPONSE.size, []
        # A count that the frame cannot hold ends in an error before anything is allocated for it.
        for _ in range(count):
            result, position = _unpack_result(frame, position)
            partitions.append(result)
    except error:
        raise _cut_off(frame) from None
    if position != len(frame):
        raise BadFetchFrame(f"a response for {count} partitions has {position} bytes, not {len(frame)}")
    return ReplicaFetchResponse(number=number, partitions=partitions)


def _unpack_result(frame: Buffer, position: int) -> tuple[ReplicaFetchResult, int]:
    (
        topic_id,
        partition,
        code,
        leader_epoch,
        high_watermark,
        log_start_offset,
        diverging_epoch,
        diverging_end_offset,
        message_bytes,
        records_bytes,
    ) = _RESULT.unpack_from(frame, position)
    message_at = position + _RESULT.size
    records_at = message_at + message_bytes
    end = records_at + records_bytes
    if end > len(frame):
        raise _cut_off(frame)
    try:
        message = str(frame[message_at:records_at], "utf-8") if message_bytes else ""
    except UnicodeDecodeError:
        raise BadFetchFrame("an error message is not UTF-8") from None
    result = ReplicaFetchResult(
        topic_id=UUID(bytes=topic_id),
        partition=partition,
        error_code=error_code(code),
        error_message=message,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=memoryview(frame)[records_at:end] if records_bytes else b"",
        diverging_epoch=diverging_epoch,
        diverging_end_offset=diverging_end_offset,
    )
    return result, end


def _check_kind(kind: bytes, expected: bytes) -> None:
    if kind != expected:
        raise BadFetchFrame(f"a frame of kind {kind!r}, not {expected!r}: the other broker runs another version")


def _cut_off(frame: Buffer) -> BadFetchFrame:
    return BadFetchFrame(f"a frame is cut off after {len(frame)} bytes")
