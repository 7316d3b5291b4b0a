"""Fuzz target: what a stranger sends to a listener with TLS, before its handshake, in it, and behind it.

The first byte of an input says where the others arrive, the second how many of them come at a time.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from kraft.tls.handshakes import HANDSHAKE_BYTES_MAX
from kraft.tls.transport import TlsTransport
from tests.support.tls_wire import Client, Listener, Received, TcpTransport, arrive, client_context, turns

BEFORE: Final = 0
IN_HANDSHAKE: Final = 1
"""Behind a ClientHello that is in order."""
AFTER: Final = 2


def tls_bytes(data: bytes) -> None:
    if len(data) > 2:
        asyncio.run(_receive(data[0] % 3, data[1] or 256, data[2:]))


async def _receive(place: int, at_once: int, data: bytes) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    listener, served = Listener(), Received()
    tcp, _ = listener.accept(served)
    honest, honest_served = listener.accept(Received())
    if place >= IN_HANDSHAKE:
        await _shake(Client(tcp), rounds=place)
    for begin in range(0, len(data), at_once):
        arrive(tcp, data[begin : begin + at_once])
        if tcp.is_closing():
            break
        await turns(1)
    await turns()
    assert not errors, errors
    assert len(listener.refusals) <= 1, listener.refusals
    assert not served.data, "nobody can forge a record"
    _check_memory(tcp)
    # Whatever it was: the next client is served, over the memory that all share.
    client = Client(honest)
    await _shake(client, rounds=AFTER)
    arrive(honest, client.write(b"request"))
    await turns()
    assert honest_served.data == b"request"


async def _shake(client: Client, rounds: int) -> None:
    for _ in range(rounds):
        client.shake()
        await turns()


def _check_memory(tcp: TcpTransport) -> None:
    protocol = tcp.protocol
    if not tcp.is_closing():
        kept = vars(protocol)["_rest" if isinstance(protocol, TlsTransport) else "_received"]
        assert len(kept) <= HANDSHAKE_BYTES_MAX


def tls_conversations() -> tuple[bytes, ...]:
    hello = _first_flight()
    finished = b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x35" + bytes(53)
    alert = b"\x15\x03\x03\x00\x02\x02\x28"
    return (
        bytes((BEFORE, 0)) + hello,
        bytes((BEFORE, 7)) + hello,
        bytes((BEFORE, 0)) + b"\x16\x03\x01\x00\x04\x01\x00\xff\xff" + b"\x16\x03\x01\x00\x01\x00" * 80,
        bytes((BEFORE, 0)) + b"\x80\x2e\x01\x03\x01" + bytes(46),
        bytes((IN_HANDSHAKE, 0)) + finished,
        bytes((IN_HANDSHAKE, 0)) + alert,
        bytes((IN_HANDSHAKE, 0)) + hello,
        bytes((AFTER, 0)) + b"\x17\x03\x03\x00\x20" + bytes(32),
        bytes((AFTER, 3)) + b"\x17\x03\x03\x40\x00" + bytes(300),
        bytes((AFTER, 0)) + hello,
        bytes((AFTER, 0)) + alert,
    )


def _first_flight() -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
