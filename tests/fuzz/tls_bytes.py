"""Fuzz target: what a stranger sends to a listener with TLS, before its handshake, in it, and behind it.

The first byte of an input says where the others arrive, the second how many of them come at a time.
"""

from __future__ import annotations

import asyncio

from kraft.tls.handshakes import HANDSHAKE_BYTES_MAX
from kraft.tls.transport import TlsTransport
from tests.support.handshake_bytes import AFTER, IN_HANDSHAKE, tls_conversations
from tests.support.tls_wire import Client, Listener, Received, TcpTransport, arrive, turns

__all__ = ["tls_bytes", "tls_conversations"]


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
