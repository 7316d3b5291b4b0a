"""A listener with TLS on real sockets: what it does with clients that are still in their handshakes."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.local.free_ports import ReservedPorts
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener import listener as listener_module
from kraft.server.kafka_listener.listener import KafkaListener, TlsAnswering
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.tls import handshakes
from tests.support.tls_wire import client_context, context
from tests.unit.server.kafka_listener.served import DEADLINE_S, PATIENT, Requests

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def _listening(
    strangers_max: int = 100, refused: Callable[[str, str], None] | None = None
) -> AsyncIterator[tuple[KafkaListener, int]]:
    limits = replace(PATIENT, counts=replace(PATIENT.counts, strangers_max=strangers_max))
    listener = KafkaListener(limits, RefusalLog(lambda: 0), ListenerMemory(1_000_000))
    answering = TlsAnswering(context, lambda _: lambda _: Requests())
    with ReservedPorts(1) as ports:
        (port,) = ports
        await listener.listen("127.0.0.1", port, answering, refused=refused)
        try:
            async with asyncio.timeout(DEADLINE_S):
                yield listener, port
        finally:
            await listener.stop(0)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _silent(port: int) -> Streams:
    """Connect, and begin no handshake."""
    return await asyncio.open_connection("127.0.0.1", port)


async def test_a_stop_ends_handshakes_too() -> None:
    async with _listening() as (listener, port):
        stranger = await _silent(port)
        await _until(lambda: len(listener._handshakes) == 1)
        await listener.stop(0)
        assert await _ends(stranger)


async def test_a_handshake_that_takes_too_long_ends_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CHECK_PERIOD_S", 0.05)
    monkeypatch.setattr(handshakes, "DEADLINE_S", 0.1)
    with capture_logs() as lines:
        async with _listening() as (_, port):
            assert await _ends(await _silent(port))
    assert [line["reason"] for line in lines] == ["its TLS handshake was not complete after 0.1 s"]


async def test_whoever_wants_to_know_is_told_who_is_refused_before_a_login_and_why() -> None:
    told: list[tuple[str, str]] = []
    async with _listening(strangers_max=4, refused=lambda address, reason: told.append((address, reason))) as (_, port):
        plain = await _silent(port)
        assert await _ends(await _silent(port))
        plain[1].write(b"GET / HTTP/1.1\r\n\r\n")
        assert await _ends(plain)
    (first, too_many), (second, not_tls) = told
    assert (first, second) == ("127.0.0.1", "127.0.0.1")
    assert "connections" in too_many
    assert "TLS" in not_tls


async def test_clients_in_their_handshakes_count_as_strangers() -> None:
    # One address has a quarter of the places.
    async with _listening(strangers_max=4) as (listener, port):
        first = await _silent(port)
        await _until(lambda: len(listener._handshakes) == 1)
        assert await _ends(await _silent(port))
        assert not first[0].at_eof()
        first[1].close()
        await _until(lambda: len(listener._handshakes) == 0)
        request = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
        request[1].close()


async def test_one_address_opens_only_so_many_connections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as lines:
        async with _listening(strangers_max=1 << 20) as (listener, port):
            monkeypatch.setattr(listener._rates, "take", lambda address, now_s: False)
            assert await _ends(await _silent(port))
    assert [line["reason"] for line in lines] == ["127.0.0.1 opens connections too fast"]


async def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    async with _listening() as (listener, port):
        tls = client_context()
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        await _until(lambda: listener.connection_count == 1)
        (connection,) = listener._connections
        transport: Any = connection._transport
        left = [weakref.ref(each) for each in (connection, transport, transport._tcp)]
        del connection, transport
        gc.disable()
        try:
            writer.close()
            await _until(lambda: listener.connection_count == 0)
            await asyncio.sleep(0.05)
            assert [each() for each in left] == [None] * 3
        finally:
            gc.enable()


async def test_what_a_client_asks_is_answered_through_tls() -> None:
    async with _listening() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
        request = b"now, a request"
        writer.write(len(request).to_bytes(4, "big") + request)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert answer == b"answer to " + request
        assert isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)
        writer.close()


async def _ends(stranger: Streams) -> bool:
    try:
        return await stranger[0].read() == b""
    except ConnectionResetError:
        return True


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  What is waited for happens on the other side of a socket.
        await asyncio.sleep(0.005)
