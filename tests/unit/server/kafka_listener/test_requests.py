from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.requests import LONG_FRAME_BYTES, Api, ConnectionContext, KafkaRequests
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.wire.schema.produce import ProduceRequest
from tests.support.turn_counter import TurnCounter

CORRELATION_ID = 77


def frame(request: Message, version: int, client_id: str | None = "tester") -> memoryview:
    return memoryview(b"".join(encode_request(request, version, CORRELATION_ID, client_id)))[4:]


def begin(apis: Mapping[ApiKey, Api], request: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
    return KafkaRequests(apis, "10.0.0.7:5100").begin(request)


def answered(begun: Awaitable[ResponseBytes] | ResponseBytes) -> memoryview:
    """Return the frame of the response, without its size."""

    async def awaited() -> ResponseBytes:
        return await begun if isinstance(begun, Awaitable) else begun

    return memoryview(b"".join(asyncio.run(awaited())))[4:]


async def give_producer_id(request: InitProducerIdRequest, call: ConnectionContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=request.transaction_timeout_ms, producer_epoch=3
    )


INIT_PRODUCER_ID: Mapping[ApiKey, Api] = {ApiKey.INIT_PRODUCER_ID: give_producer_id}
REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=5)


@pytest.mark.parametrize("version", range(6))
def test_a_request_is_answered_in_its_version_and_under_its_number(version: int) -> None:
    answer = answered(begin(INIT_PRODUCER_ID, frame(REQUEST, version)))
    correlation_id, response = decode_response(InitProducerIdResponse, version, answer)
    assert (correlation_id, response.producer_id, response.producer_epoch) == (CORRELATION_ID, 5, 3)


def test_an_api_gets_the_context_of_the_request() -> None:
    calls = []

    def note(request: Any, call: ConnectionContext) -> None:
        calls.append(call)

    apis: Mapping[ApiKey, Api] = {ApiKey.INIT_PRODUCER_ID: note}
    assert begin(apis, frame(REQUEST, 4)) == [], "nothing is sent where there is no response"
    begin(apis, frame(REQUEST, 2, client_id=None))
    assert [(call.version, call.client_id, call.peer, call.frame_bytes) for call in calls] == [
        (4, "tester", "10.0.0.7:5100", len(frame(REQUEST, 4))),
        (2, "", "10.0.0.7:5100", len(frame(REQUEST, 2, client_id=None))),
    ]


def test_a_request_has_no_more_elements_than_its_listener_takes() -> None:
    asked: list[int] = []
    apis: Mapping[ApiKey, Api] = {ApiKey.DELETE_TOPICS: lambda request, call: asked.append(len(request.topic_names))}
    requests = KafkaRequests(apis, "", elements_max=10)
    requests.begin(frame(DeleteTopicsRequest(topic_names=("orders",) * 10, timeout_ms=0), 5))
    with pytest.raises(CloseConnection, match="more elements than one message may have"):
        requests.begin(frame(DeleteTopicsRequest(topic_names=("orders",) * 11, timeout_ms=0), 5))
    assert asked == [10]


def test_only_produce_requests_overlap() -> None:
    requests = KafkaRequests({}, "")
    produce = ProduceRequest(acks=1, timeout_ms=0, topic_data=())
    assert requests.is_pipelined(frame(produce, 9))
    assert not requests.is_pipelined(frame(REQUEST, 1))


@pytest.mark.parametrize(
    ("request_frame", "reason"),
    [
        (frame(ProduceRequest(acks=1, timeout_ms=0, topic_data=()), 9), "PRODUCE is not supported"),
        (memoryview(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff"), "API key 32767 is not supported"),
        (frame(REQUEST, 5)[:-3], "InitProducerIdRequest"),
        (memoryview(b"\x00\x16\x00\x04"), "request header"),
        (memoryview(b"\x00\x16\x00\x63\x00\x00\x00\x01\xff\xff"), "version 99 of INIT_PRODUCER_ID is not supported"),
    ],
)
def test_what_cannot_be_answered_ends_the_connection_with_a_reason(request_frame: memoryview, reason: str) -> None:
    with pytest.raises(CloseConnection, match=reason):
        begin(INIT_PRODUCER_ID, request_frame)


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest() -> None:
    def never(request: Any, call: ConnectionContext) -> None:
        raise AssertionError("not in a version that nobody knows")

    apis: Mapping[ApiKey, Api] = {**INIT_PRODUCER_ID, ApiKey.API_VERSIONS: never}
    known = frame(ApiVersionsRequest(), 0)
    unknown = memoryview(bytes(known[:2]) + b"\x00\x63" + bytes(known[4:]))
    _, response = decode_response(ApiVersionsResponse, 0, answered(begin(apis, unknown)))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [each.api_key for each in response.api_keys] == [ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID]


def test_produce_requests_are_pipelined_again_when_nothing_of_the_client_waits_to_be_appended() -> None:
    waiting: list[ConnectionContext] = []
    went_on: list[bool] = []

    def wait(request: Any, call: ConnectionContext) -> None:
        assert call.waiting is not None
        call.waiting.began()
        waiting.append(call)

    requests = KafkaRequests({ApiKey.PRODUCE: wait}, "10.0.0.7:5100")
    produce = frame(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=()), 9)
    requests.when_ready(lambda: went_on.append(requests.is_pipelined(produce)))
    assert requests.is_pipelined(produce)
    assert not requests.is_pipelined(frame(REQUEST, 4))
    requests.begin(produce)
    requests.begin(produce)
    assert not requests.is_pipelined(produce)
    for call in waiting:
        assert call.waiting is not None
        call.waiting.ended()
    assert went_on == [True]


async def test_a_long_request_is_carried_out_and_encoded_in_turns_of_their_own() -> None:
    steps: list[str] = []

    async def delete(request: DeleteTopicsRequest, call: ConnectionContext) -> DeleteTopicsResponse:
        steps.append("carried out")
        return DeleteTopicsResponse(responses=())

    names = tuple(f"topic {number}".ljust(100) for number in range(1_000))
    long = frame(DeleteTopicsRequest(topic_names=names, timeout_ms=5), 1)
    assert len(long) > LONG_FRAME_BYTES
    begun = begin({ApiKey.DELETE_TOPICS: delete}, long)
    assert steps == []
    assert isinstance(begun, Awaitable)
    async with TurnCounter() as others:
        assert await begun
    assert steps == ["carried out"]
    assert others.turns >= 2
