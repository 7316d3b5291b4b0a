from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.model.errors import ErrorCode
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.replica_fetch_frames import BadFetchFrame, unpack_request, unpack_response

pack_request, pack_response = REPLICA_FETCH.request.to_message, REPLICA_FETCH.response.to_message
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
WANTED = st.builds(
    ReplicaFetchPartition,
    topic_id=st.uuids(),
    partition=INT32,
    fetch_offset=INT64,
    last_fetched_epoch=INT32,
    current_leader_epoch=INT32,
    log_start_offset=INT64,
    high_watermark=INT64,
    partition_max_bytes=INT32,
)
REQUESTS = st.builds(
    ReplicaFetchRequest,
    number=INT64,
    replica_id=INT32,
    broker_epoch=INT64,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    partitions=st.lists(WANTED, max_size=4),
)
RESULTS = st.builds(
    ReplicaFetchResult,
    topic_id=st.uuids(),
    partition=INT32,
    error_code=st.sampled_from(ErrorCode),
    error_message=st.text(),
    leader_epoch=INT32,
    high_watermark=INT64,
    log_start_offset=INT64,
    records=st.binary(max_size=100),
    diverging_epoch=INT32,
    diverging_end_offset=INT64,
)
RESPONSES = st.builds(ReplicaFetchResponse, number=INT64, partitions=st.lists(RESULTS, max_size=4))

ONE = ReplicaFetchRequest(
    number=5,
    replica_id=2,
    broker_epoch=7,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=10,
    partitions=[
        ReplicaFetchPartition(
            topic_id=UUID(int=1),
            partition=3,
            fetch_offset=100,
            last_fetched_epoch=-1,
            current_leader_epoch=4,
            log_start_offset=0,
            high_watermark=99,
            partition_max_bytes=8,
        )
    ],
)
ANSWER = ReplicaFetchResponse(
    number=5,
    partitions=[
        ReplicaFetchResult(
            topic_id=UUID(int=1),
            partition=3,
            error_code=ErrorCode.NONE,
            leader_epoch=4,
            high_watermark=99,
            log_start_offset=0,
            records=b"records",
        ),
        ReplicaFetchResult(
            topic_id=UUID(int=2), partition=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID, error_message="größer"
        ),
    ],
)


@given(REQUESTS)
def test_a_request_is_read_as_it_was_written(request: ReplicaFetchRequest) -> None:
    assert unpack_request(pack_request(request)) == request


@given(RESPONSES)
def test_a_response_is_read_as_it_was_written(response: ReplicaFetchResponse) -> None:
    assert unpack_response(pack_response(response)) == response


def test_the_bytes_of_a_frame_are_those_of_its_first_version() -> None:
    assert pack_request(ONE).hex() == (
        "4b527131 0000000000000005 00000002 0000000000000007 000001f4 00000001 0000000a 00000001"
        "00000000000000000000000000000001 00000003 0000000000000064 ffffffff 00000004"
        "0000000000000000 0000000000000063 00000008"
    ).replace(" ", "")
    assert pack_response(ANSWER).hex() == (
        "4b527331 0000000000000005 00000002"
        "00000000000000000000000000000001 00000003 00000000 00000004 0000000000000063"
        "0000000000000000 ffffffff ffffffffffffffff 00000000 00000007"
        "7265636f726473"
        "00000000000000000000000000000002 00000000 00000064 ffffffff ffffffffffffffff"
        "ffffffffffffffff ffffffff ffffffffffffffff 00000008 00000000"
        "6772c3b6c39f6572"
    ).replace(" ", "")


def test_records_are_not_copied_out_of_their_frame() -> None:
    frame = pack_response(ANSWER)
    records = unpack_response(frame).partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


@pytest.mark.parametrize(
    ("unpack", "frame"), [(unpack_request, pack_request(ONE)), (unpack_response, pack_response(ANSWER))]
)
def test_a_frame_that_is_cut_off_or_too_long_is_refused(unpack: object, frame: bytes) -> None:
    assert callable(unpack)
    for size in range(len(frame)):
        with pytest.raises(BadFetchFrame):
            unpack(frame[:size])
    with pytest.raises(BadFetchFrame):
        unpack(frame + b"\0")


def test_a_count_that_no_frame_can_hold_is_refused_at_once() -> None:
    many = b"\xff\xff\xff\xff"
    request, response = bytearray(pack_request(ONE)), bytearray(pack_response(ANSWER))
    request[36:40] = response[12:16] = many
    with pytest.raises(BadFetchFrame, match="4294967295 partitions"):
        unpack_request(bytes(request))
    with pytest.raises(BadFetchFrame, match="cut off"):
        unpack_response(bytes(response))


def test_an_error_message_that_is_no_text_is_refused() -> None:
    frame = pack_response(ANSWER).replace("größer".encode(), b"gr\xff\xff\xff\xffer")
    with pytest.raises(BadFetchFrame, match="not UTF-8"):
        unpack_response(frame)


@pytest.mark.parametrize(
    "frame", [pack_response(ANSWER), b"\x08\x02\x10\x07\x18\xf4\x03" * 8, b"KRq2" + pack_request(ONE)[4:]]
)
def test_a_frame_of_another_kind_or_version_or_of_protobuf_is_named_as_one(frame: bytes) -> None:
    with pytest.raises(BadFetchFrame, match="another version"):
        unpack_request(frame)
