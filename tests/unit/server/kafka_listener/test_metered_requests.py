"""What a client uses is counted, its response says how long it has to wait, and meanwhile nothing is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.produce import ProducePartitionResult
from kraft.server.kafka_listener.apis.produced import ProducedTopic, encode_produced
from kraft.server.kafka_listener.metered_requests import MeteredRequests
from kraft.server.kafka_listener.request_times import RequestTimes
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage, KafkaRequests
from kraft.server.kafka_listener.throttled_responses import encode_throttled, throttle_ms_of
from kraft.server.loop.throttling import Throttling
from kraft.wire.api_keys import ApiKey
from kraft.wire.codec import encode
from kraft.wire.declaration import ZERO_UUID, Message
from kraft.wire.frame import RequestHeader, decode_response, encode_request
from kraft.wire.schema.create_topics import CreateTopicsResponse
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.offset_delete import OffsetDeleteResponse
from kraft.wire.schema.produce import ProduceRequest, ProduceResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeResponse
from tests.support.quotas import subject

LOADER = subject({"client-id": "loader"})
PRODUCE = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=())


def frame(request: Message, version: int, client_id: str = "loader") -> memoryview:
    return memoryview(b"".join(encode_request(request, version, 5, client_id)))[4:]


class Connection:
    """One client, and a broker whose fetches return `records`."""

    def __init__(self, **quotas: float) -> None:
        self.throttling = Throttling(lambda: round(asyncio.get_running_loop().time() * 1_000))
        self.throttling.reconfigure({LOADER: quotas})
        self.times = RequestTimes()
        self.records = b"r" * 500
        self.calls: list[ConnectionContext] = []
        self.went_on = 0
        apis: dict[ApiKey, Any] = {
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.HEARTBEAT: self._heartbeat,
        }
        self.requests = KafkaRequests(apis, "10.0.0.7:5100", meter=MeteredRequests(self.throttling, self.times))
        self.requests.when_ready(self._go_on)

    def _go_on(self) -> None:
        self.went_on += 1

    def is_muted(self) -> bool:
        return self.requests.is_muted

    def _produce(self, request: ProduceRequest, call: ConnectionContext) -> Message | None:
        return ProduceResponse(responses=()) if request.acks else None

    def _fetch(self, _: FetchRequest, call: ConnectionContext) -> Message:
        self.calls.append(call)
        data = PartitionData(
            partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=self.records
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", topic_id=ZERO_UUID, partitions=(data,)),))

    async def _heartbeat(self, request: HeartbeatRequest, call: ConnectionContext) -> Message:
        for _ in range(3):
            sum(range(200_000))
            await asyncio.sleep(0.3)
        return HeartbeatResponse(error_code=ErrorCode.NONE)

    async def ask(self, request: Message, version: int, kind: type[Any], client_id: str = "loader") -> Any:
        begun = self.requests.begin(frame(request, version, client_id))
        pieces = await begun if isinstance(begun, Awaitable) else begun
        return decode_response(kind, version, b"".join(pieces)[4:])[1] if pieces else None


def fetch() -> FetchRequest:
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=())


async def test_what_is_produced_beyond_the_quota_is_answered_at_once_and_mutes_the_connection() -> None:
    size = len(frame(PRODUCE, 9))
    client = Connection(producer_byte_rate=float(size))
    for _ in range(10):
        assert (await client.ask(PRODUCE, 9, ProduceResponse)).throttle_time_ms == 0
    assert not client.is_muted()
    assert (await client.ask(PRODUCE, 9, ProduceResponse)).throttle_time_ms == 1_000
    assert client.is_muted()
    # What had arrived already is counted as well. A part of the wait is told: the client notices if it is no longer.
    assert (await client.ask(PRODUCE, 9, ProduceResponse)).throttle_time_ms == 1_000
    await asyncio.sleep(1.9)
    assert (client.is_muted(), client.went_on) == (True, 0)
    await asyncio.sleep(0.2)
    assert (client.is_muted(), client.went_on) == (False, 1)
    # Another client of the same broker has no quota.
    other = await client.ask(PRODUCE, 9, ProduceResponse, client_id="other")
    assert (other.throttle_time_ms, client.is_muted()) == (0, False)


async def test_a_producer_that_waits_for_a_short_time_only_is_told_more_of_its_wait() -> None:
    impatient = ProduceRequest(acks=1, timeout_ms=1_500, topic_data=())
    client = Connection(producer_byte_rate=len(frame(impatient, 9)) / 10)
    assert (await client.ask(impatient, 9, ProduceResponse)).throttle_time_ms == 0
    # A third of what its next request may take.
    assert (await client.ask(impatient, 9, ProduceResponse)).throttle_time_ms == 9_500
    await asyncio.sleep(9.9)
    assert client.is_muted()
    await asyncio.sleep(0.2)
    assert not client.is_muted()


async def test_without_an_answer_the_connection_is_muted_all_the_same() -> None:
    unanswered = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=())
    client = Connection(producer_byte_rate=1.0)
    assert await client.ask(unanswered, 9, ProduceResponse) is None
    assert client.is_muted()


async def test_a_fetch_is_counted_when_it_is_answered_and_the_next_one_gets_no_records() -> None:
    client = Connection(consumer_byte_rate=60.0)
    first = await client.ask(fetch(), 12, FetchResponse)
    assert first.throttle_time_ms == 0
    second = await client.ask(fetch(), 12, FetchResponse)
    assert second.responses
    assert second.throttle_time_ms == 1_000
    assert [call.fetch_quota for call in client.calls] == [(60, 0), (60, 0)]
    # It has to wait for eight seconds, and is told one at a time.
    for _ in range(7):
        await asyncio.sleep(1)
        assert not client.is_muted()
        assert (await client.ask(fetch(), 12, FetchResponse)).throttle_time_ms > 0
    quota = client.calls[-1].fetch_quota
    assert quota is not None
    assert 0 < quota.wait_ms <= 1_000
    assert (quota.at_most(1_000), quota.at_most(10)) == (60, 10)


async def test_a_quota_that_is_removed_ends_the_wait() -> None:
    client = Connection(producer_byte_rate=1.0)
    await client.ask(PRODUCE, 9, ProduceResponse)
    assert client.is_muted()
    client.throttling.reconfigure({})
    assert (client.is_muted(), client.went_on) == (False, 1)
    assert (await client.ask(PRODUCE, 9, ProduceResponse)).throttle_time_ms == 0


async def test_a_connection_that_has_ended_is_called_no_more() -> None:
    client = Connection(producer_byte_rate=1.0)
    await client.ask(PRODUCE, 9, ProduceResponse)
    client.requests.close()
    await asyncio.sleep(1_000)
    client.throttling.reconfigure({})
    assert client.went_on == 0


@pytest.mark.real_time
async def test_processor_time_is_counted_and_waiting_is_not() -> None:
    client = Connection(request_percentage=0.0001)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    answer = await client.ask(heartbeat, 4, HeartbeatResponse)
    assert answer.throttle_time_ms == 1_000
    assert client.is_muted()
    # Nearly a second of waiting is no tenth of a second of work.
    idle = Connection(request_percentage=3.0)
    assert (await idle.ask(heartbeat, 4, HeartbeatResponse)).throttle_time_ms == 0


HEADER = RequestHeader(api_key=0, api_version=0, correlation_id=5, client_id=None)


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (CreateTopicsResponse(topics=()), 7),
        (OffsetDeleteResponse(error_code=16, topics=()), 0),
        (FetchResponse(responses=(), session_id=7), 12),
    ],
)
def test_the_wait_is_written_into_a_response_that_is_encoded_already(response: Message, version: int) -> None:
    body = b"".join(encode(response, version))
    encoded = EncodedMessage(type(response), body)
    header = HEADER._replace(api_version=version)
    told = decode_response(type(response), version, b"".join(encode_throttled(encoded, header, 1_234))[4:])[1]
    plain = decode_response(type(response), version, b"".join(encode_throttled(response, header, 1_234))[4:])[1]
    assert told == plain
    assert told.throttle_time_ms == 1_234  # type: ignore[attr-defined]
    assert encoded.body == body
    assert throttle_ms_of(told, version) == 1_234
    assert throttle_ms_of(EncodedMessage(type(response), b"".join(encode(told, version))), version) == 1_234
    assert throttle_ms_of(encoded, version) == throttle_ms_of(None, version) == 0


@pytest.mark.parametrize("version", list(ProduceResponse.versions))
def test_the_wait_is_written_into_the_usual_answer_to_a_produce(version: int) -> None:
    topic = ProducedTopic("t", ZERO_UUID, "t", [0])
    result = ProducePartitionResult(topic="t", partition=0, error_code=ErrorCode.NONE, base_offset=7)
    body = encode_produced([topic], [result], version)
    assert body is not None
    header = HEADER._replace(api_version=version)
    out = b"".join(encode_throttled(EncodedMessage(ProduceResponse, body), header, 1_234))
    told = decode_response(ProduceResponse, version, out[4:])[1]
    assert told.throttle_time_ms == 1_234
    assert told.responses[0].partition_responses[0].base_offset == 7


def test_a_response_without_the_field_stays_as_it_is() -> None:
    response = SaslHandshakeResponse(error_code=0, mechanisms=())
    header = HEADER._replace(api_version=1)
    assert decode_response(SaslHandshakeResponse, 1, b"".join(encode_throttled(response, header, 9))[4:])[1] == response
    old = HeartbeatResponse(error_code=ErrorCode.NONE)
    assert decode_response(HeartbeatResponse, 0, b"".join(encode_throttled(old, HEADER, 9))[4:])[1] == old
    encoded = EncodedMessage(HeartbeatResponse, b"".join(encode(old, 0)))
    assert decode_response(HeartbeatResponse, 0, b"".join(encode_throttled(encoded, HEADER, 9))[4:])[1] == old
