from __future__ import annotations

import os

import pytest

from kraft.model.errors import Refusal
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import Buffer
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import (
    SIZE_BYTES,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def frame_of(buffers: list[Buffer]) -> bytes:
    """Without its size, after a look at it."""
    data = b"".join(buffers)
    assert int.from_bytes(data[:SIZE_BYTES], "big") == len(data) - SIZE_BYTES
    return data[SIZE_BYTES:]


@pytest.mark.parametrize(("version", "tagged_fields"), [(3, b""), (4, b"\0")])
def test_a_request_header_is_the_call_and_the_caller(version: int, tagged_fields: bytes) -> None:
    frame = frame_of(encode_request(HEARTBEAT, version, 7, "ab"))
    head = bytes.fromhex("000c 00") + bytes([version]) + bytes.fromhex("00000007 0002 6162") + tagged_fields
    assert frame.startswith(head)
    expected = RequestHeader(ApiKey.HEARTBEAT, version, 7, "ab")
    assert decode_request_header(frame) == (expected, len(head))


def test_a_client_may_have_no_name() -> None:
    header, _ = decode_request_header(frame_of(encode_request(HEARTBEAT, 4, 7, None)))
    assert header.client_id is None


def test_a_text_without_utf_8_is_refused() -> None:
    with pytest.raises(Refusal, match=r"'a\\udcff' is not valid Unicode at character 2: give it as UTF-8$"):
        encode_request(HEARTBEAT, 4, 7, os.fsdecode(b"a\xff"))


def test_a_name_that_is_no_text_does_not_keep_a_client_out() -> None:
    header, position = decode_request_header(bytes.fromhex("000c 0003 00000007 0002 61ff"))
    assert (header.client_id, position) == ("a\N{REPLACEMENT CHARACTER}", 12)


def test_the_header_of_an_unknown_api_is_read() -> None:
    frame = bytes.fromhex("7ffe 0063 00000007 ffff")
    assert decode_request_header(frame) == (RequestHeader(0x7FFE, 99, 7, None), len(frame))


@pytest.mark.parametrize("tagged_fields", ["", "01 05 02 aabb", "ffffffffff"])
def test_a_version_that_is_still_to_come_is_known_by_its_header_whatever_follows(tagged_fields: str) -> None:
    header, _ = decode_request_header(bytes.fromhex("0012 0063 00000007 ffff" + tagged_fields) + b"body")
    assert (header.api_version, header.correlation_id) == (99, 7)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "000c0004000000",
        "000c 0004 00000007 0003 6162",
        "000c 0004 00000007 ffff",
        "000c 0004 00000007 ffff ffffffff7f",
        "000c 0004 00000007 ffff 01 00 09",
    ],
)
def test_an_invalid_request_header_is_a_protocol_error(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize(("version", "tagged_fields"), [(3, b""), (4, b"\0")])
def test_a_response_header_is_the_correlation_id(version: int, tagged_fields: bytes) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = frame_of(encode_response(response, version, 7))
    assert frame == b"\0\0\0\7" + tagged_fields + bytes(4) + b"\0\x1b" + tagged_fields
    assert decode_response(HeartbeatResponse, version, frame) == (7, response)


def test_the_answer_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    response = ApiVersionsResponse(error_code=0, api_keys=())
    frame = frame_of(encode_response(response, 3, 7))
    assert frame == b"\0\0\0\7" + b"\0\0" + b"\1" + bytes(4) + b"\0"
    assert decode_response(ApiVersionsResponse, 3, frame) == (7, response)
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    assert decode_request_header(frame_of(encode_request(request, 3, 7, "c")))[1] == 12


@pytest.mark.parametrize("frame", ["", "000000", "00000007", "00000007 01 00 09"])
def test_an_invalid_response_is_a_protocol_error(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode_response(HeartbeatResponse, 4, bytes.fromhex(frame))


def test_the_size_counts_records_that_are_not_copied() -> None:
    records = memoryview(bytes(70_000))
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=records
    )
    response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition, partition)),))
    buffers = encode_response(response, 12, 7)
    assert [buffer is records for buffer in buffers] == [False, True, False, True, False]
    assert decode_response(FetchResponse, 12, frame_of(buffers)) == (7, response)
