"""Connections that are refused count by the reason. On real sockets, as in test_connection."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kraft.model.refused_for import RefusedFor
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.listener import KafkaListener, ListenerLimits, TlsAnswering
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import encode_request
from kraft.wire.schema.heartbeat import HeartbeatRequest
from tests.support.tls_wire import context
from tests.unit.server.kafka_listener.served import PATIENT, Requests, Served, framed, run

HASTY = replace(
    PATIENT,
    connection=replace(PATIENT.connection, request_s_max=0.1, login_s_max=0.1),
    counts=replace(PATIENT.counts, strangers_max=10),
)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"".join(framed(b"shut the door")), RefusedFor.REQUEST),
        (b"".join(framed(b"fail later")), RefusedFor.REQUEST),
        (b"GET / HTTP/1.1\r\n\r\n", RefusedFor.REQUEST),
        (b"".join(framed(b"bug of ours")), RefusedFor.INTERNAL),
        (b"".join(framed(b"now, the end does not come"))[:-1], RefusedFor.SLOW),
    ],
)
def test_what_a_client_sends_ends_its_connection_for_a_reason(sent: bytes, expected: RefusedFor) -> None:
    assert refused(sent, HASTY) == {expected: 1}


def test_a_client_that_does_not_log_in_and_one_that_must_not_go_on() -> None:
    assert refused(b"", HASTY, is_trusted=False) == {RefusedFor.LOGIN_TIMEOUT: 1}
    assert refused(b"", HASTY, objects="its user is gone") == {RefusedFor.LOGIN: 1}


def test_connections_beyond_a_limit() -> None:
    assert refused(b"", replace(PATIENT, counts=replace(PATIENT.counts, clients_max=0))) == {RefusedFor.LIMIT: 1}
    assert refused(b"", replace(PATIENT, counts=replace(PATIENT.counts, address_max=0))) == {RefusedFor.LIMIT: 1}


def refused(sent: bytes, limits: ListenerLimits, **state: object) -> dict[RefusedFor, int]:
    """Return for what a client is refused that sends this."""
    found: dict[RefusedFor, int] = {}

    async def test(served: Served) -> None:
        for name, value in state.items():
            setattr(served.requests, name, value)
        client = await served.client()
        client.writer.write(sent)
        while not await client.is_closed():
            pass
        counts = served.listener._refusals.counts
        await served.until(lambda: sum(counts.values()) > 0)
        found.update({reason: count for reason, count in counts.items() if count})

    run(test, limits)
    return found


@pytest.mark.real_time
async def test_a_handshake_that_fails() -> None:
    refusals = RefusalLog(lambda: 0)
    listener = KafkaListener(replace(PATIENT, counts=HASTY.counts), refusals, ListenerMemory(1_000_000))
    await listener.listen("127.0.0.1", 0, TlsAnswering(context, lambda _: lambda _: Requests()))
    port = listener._servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    while await reader.read(100):
        pass
    writer.close()
    await listener.stop(0)
    assert {reason: count for reason, count in refusals.counts.items() if count} == {RefusedFor.TLS: 1}


def test_an_api_or_a_version_that_is_not_served() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for version, apis in ((4, {}), (99, {ApiKey.HEARTBEAT: None})):
        frame = bytearray(b"".join(encode_request(request, 4, correlation_id=7, client_id="c"))[4:])
        frame[2:4] = version.to_bytes(2, "big")
        with pytest.raises(CloseConnection) as closed:
            KafkaRequests(apis, "10.0.0.7:5100").begin(memoryview(frame))  # type: ignore[arg-type]  # None is called.
        assert closed.value.refused_for is RefusedFor.VERSION


def test_bytes_of_strangers_are_counted_until_they_log_in() -> None:
    async def test(served: Served) -> None:
        served.requests.is_trusted = False
        client = await served.client()
        client.send(b"hello, it is me")
        await served.until(lambda: bool(served.requests.waiting))
        assert served.listener.stranger_bytes == 0
        served.requests.waiting[b"hello, it is me"].set_result(b"welcome")
        assert await client.answer() == b"welcome"
        await served.until(lambda: served.listener.stranger_bytes == 4 + len(b"hello, it is me"))
        client.send(b"now, a client")
        await client.answer()
        assert served.listener.stranger_bytes == 4 + len(b"hello, it is me")

    run(test, replace(HASTY, connection=PATIENT.connection))


def test_bytes_of_strangers_that_never_log_in_are_counted_when_they_leave() -> None:
    async def test(served: Served) -> None:
        served.requests.is_trusted = False
        client = await served.client()
        client.writer.write(b"\0\0\0\x64 the rest does not come")
        await client.writer.drain()
        await served.until(lambda: served.listener.memory.strangers.held_bytes > 0)
        client.writer.close()
        await served.until(lambda: served.listener.stranger_bytes == len(b"\0\0\0\x64 the rest does not come"))

    run(test, replace(HASTY, connection=PATIENT.connection))
