"""A look at a listener that ended a connection before it said anything: whether it has TLS, and speaks gRPC.

gRPC tells a client only that the connection was closed, which a node that is stopping does, too.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import Final

from msgspec import Struct

from kraft.wire.errors import ProtocolError
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse

LOOK_S_MAX: Final = 1.0

_FLIGHT_BYTES_MAX: Final = 64 * 1024
_GRPC: Final = "h2"
_HANDSHAKE_RECORD: Final = 22
_CERTIFICATE_REQUEST: Final = 13
_SERVER_HELLO_DONE: Final = 14
_RECORD: Final = struct.Struct(">BHH")
_SIZE: Final = struct.Struct(">i")
_RESPONSE_BYTES_MAX: Final = 64 * 1024


class Looked(Struct, frozen=True, kw_only=True):
    """What is certain about a listener."""

    has_tls: bool
    speaks_grpc: bool | None = None
    """None if unknown."""

    asks_for_certificate: bool = False


async def look(address: str) -> Looked | None:
    """Return what can be seen from here; None if that is nothing, as while a node starts or stops."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            seen = await _look_for_tls(host.strip("[]"), int(port))
            if seen is None and await _speaks_kafka(host.strip("[]"), int(port)):
                seen = Looked(has_tls=False, speaks_grpc=False)
            return seen
    except (OSError, TimeoutError, ValueError):
        return None


async def _look_for_tls(host: str, port: int) -> Looked | None:
    """Begin a handshake. In TLS 1.2, which gRPC offers always, everybody sees whether it asks for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([_GRPC])
    to_us, from_us = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = context.wrap_bio(to_us, from_us)
    reader, writer = await asyncio.open_connection(host, port)
    received = b""
    try:
        while True:
            try:
                handshake.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(from_us.read())
            data = await _read(reader)
            if not data or len(received) > _FLIGHT_BYTES_MAX:
                break
            received += data
            to_us.write(data)
    except ssl.SSLError:
        # An alert is one of TLS; anything else is another protocol's, such as the first frame of gRPC without TLS.
        return Looked(has_tls=is_tls(received))
    finally:
        writer.close()
    if not is_tls(received):
        return None
    kinds = handshake_messages(received)
    return Looked(
        has_tls=True,
        # A connection that ended earlier does not tell which protocol would have been chosen.
        speaks_grpc=handshake.selected_alpn_protocol() == _GRPC if _SERVER_HELLO_DONE in kinds else None,
        asks_for_certificate=_CERTIFICATE_REQUEST in kinds,
    )


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_FLIGHT_BYTES_MAX)
    except ConnectionError:
        return b""


def is_tls(received: bytes) -> bool:
    """Return whether a server's first bytes are a handshake or an alert of TLS."""
    return received[:1] in (b"\x16", b"\x15") and received[1:2] == b"\x03"


def handshake_messages(flight: bytes) -> set[int]:
    """Return the kinds of the messages in a server's first flight of TLS 1.2, which is not encrypted."""
    messages = b""
    position = 0
    while position + _RECORD.size <= len(flight):
        kind, _, size = _RECORD.unpack_from(flight, position)
        if kind != _HANDSHAKE_RECORD:
            break
        position += _RECORD.size
        messages += flight[position : position + size]
        position += size
    kinds = set()
    while len(messages) >= 4:
        kinds.add(messages[0])
        messages = messages[4 + int.from_bytes(messages[1:4], "big") :]
    return kinds


async def _speaks_kafka(host: str, port: int) -> bool:
    """Ask for the versions of the APIs, which listeners of Kafka's protocol answer before a login, too."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        request = ApiVersionsRequest(client_software_name="", client_software_version="")
        writer.write(b"".join(encode_request(request, 0, 1, "")))
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not 0 < size <= _RESPONSE_BYTES_MAX:
            return False
        number, _ = decode_response(ApiVersionsResponse, 0, await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError, ProtocolError):
        return False
    finally:
        writer.close()
    return number == 1
