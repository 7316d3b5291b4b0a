"""Exchanges over connections of their own: a node connects to another one's Kafka listener and introduces itself there.

The first frame has the head of a request of Kafka's protocol, with a key that Kafka does not use, then a nonce and the
introduction that a call over gRPC has in its metadata (`introductions`), for a session that the same process opened.
The answer proves with the cluster's secret that this connection ends there too. From then on frames are requests and
responses of the exchange. Like the introduction of a call, this does not protect against someone who can change bytes
on the network, unless the listener has TLS: then the introduction is bound to the certificate, and no CA is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import deque
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from kraft.log.format.record_batch import Buffer
from kraft.model.endpoint import Endpoint
from kraft.rpc.call import Exchange
from kraft.rpc.frame_connection import FrameConnection
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import NONCE_BYTES
from kraft.rpc.peers import MESSAGE_BYTES_MAX, CallStream, Peer, Unreachable
from kraft.tls.dialling import TlsDialling, TlsFailed, connect_with_tls

Request = TypeVar("Request")
Response = TypeVar("Response")

HELLO_KEY: Final = 0x4B52
"""API key of the first frame. Kafka's own are below 1,000."""

HELLO_VERSION: Final = 1
CONNECT_DEADLINE_S: Final = 1.0
FRAMES_WAITING_MAX: Final = 8
"""Received frames that are not taken yet; beyond it the connection is not read."""

HELLO_BYTES_MAX: Final = 4 * 1024
"""Limit on the first frame, which strangers send too; that of a node takes less than 500 bytes."""

_HELLO: Final = Struct(">hhih")
_ANSWER: Final = Struct(">i?")
_CORRELATION_ID: Final = 1
_NO_CLIENT_ID: Final = -1


class NotConnected(Exception):
    """There is no connection for exchanges with the other node. The text is one line."""


class FrameStream(Generic[Request, Response]):
    """The asking end of an exchange over a connection of its own."""

    def __init__(self, address: str, exchange: Exchange[Request, Response]) -> None:
        self.address = address
        self._exchange = exchange
        self._frames: deque[Buffer] = deque()
        self._is_reading = True
        self._reason: str | None = None
        """Why the connection has ended."""
        self._changed: asyncio.Future[None] | None = None
        self._may_write = asyncio.Event()
        self.connection = FrameConnection(
            frame_bytes_max=MESSAGE_BYTES_MAX,
            received=self._received,
            ended=self._ended,
            may_write=self._may_write.set,
        )

    async def send(self, request: Request) -> None:
        while self._reason is None and self.connection.is_full:
            self._may_write.clear()
            await self._may_write.wait()
        if self._reason is not None:
            raise Unreachable(self.address, self._reason)
        self.connection.send(self._exchange.request.pieces(request))

    async def receive(self) -> Response:
        frame = await self.frame()
        try:
            return self._exchange.response.to_value(frame)
        except ValueError as error:
            raise Unreachable(self.address, f"its response is not valid: {error}") from error

    async def frame(self) -> Buffer:
        """Return the next frame. Raises Unreachable."""
        while not self._frames:
            if self._reason is not None:
                raise Unreachable(self.address, self._reason)
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        frame = self._frames.popleft()
        if not self._is_reading and len(self._frames) < FRAMES_WAITING_MAX:
            self._is_reading = True
            self.connection.resume_reading()
        return frame

    async def close(self) -> None:
        self.connection.abort("the stream is closed")

    def _received(self, frame: Buffer) -> None:
        self._frames.append(frame)
        if len(self._frames) >= FRAMES_WAITING_MAX and self._is_reading:
            self._is_reading = False
            self.connection.pause_reading()
        self._wake()

    def _ended(self, reason: str) -> None:
        self._reason = reason
        self._may_write.set()
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


async def connect(
    endpoint: Endpoint, channel: Any, exchange: Exchange[Request, Response], tls: TlsDialling | None = None
) -> FrameStream[Request, Response]:
    """Connect to a node's Kafka listener. `channel` leads to its GRPC listener. Raises NotConnected."""
    if not isinstance(channel, IntroducedChannel):
        raise NotConnected("nodes of this cluster do not introduce themselves")
    address = f"{endpoint.host}:{endpoint.port}"
    try:
        async with asyncio.timeout(CONNECT_DEADLINE_S):
            try:
                return await _connected(endpoint, address, channel, exchange, tls)
            except _SessionForgotten:
                return await _connected(endpoint, address, channel, exchange, tls)
    except TimeoutError:
        raise NotConnected(f"{address} did not answer in time") from None
    except (OSError, UnicodeError, Unreachable, _SessionForgotten) as error:
        # UnicodeError: an advertised host that is no name at all, such as one with an empty label.
        reason = f"{address}: {error}" if isinstance(error, TlsFailed) else str(error)
        raise NotConnected(reason or f"{address} cannot be reached") from error


class ExchangeLink(Generic[Request, Response]):
    """The ways to one node for one exchange."""

    def __init__(
        self,
        peer: Peer,
        endpoint: Endpoint | None,
        exchange: Exchange[Request, Response],
        tls: TlsDialling | None = None,
    ) -> None:
        """`endpoint` is that of the node's Kafka listener; None if it has none. `tls`: it is one with TLS."""
        self._peer = peer
        self._tls = tls
        self._endpoint = endpoint
        self._exchange = exchange

    @property
    def may_connect(self) -> bool:
        return self._endpoint is not None

    async def connect(self) -> FrameStream[Request, Response]:
        """Raises NotConnected."""
        if self._endpoint is None:
            raise NotConnected("it has no listener for Kafka's protocol")
        return await connect(self._endpoint, self._peer.channel, self._exchange, self._tls)

    def over_grpc(self) -> CallStream[Request, Response]:
        return self._peer.open(self._exchange)


class _SessionForgotten(Exception):
    """The other process does not know the session, or its secret. The next attempt opens another one."""


async def _connected(
    endpoint: Endpoint,
    address: str,
    channel: IntroducedChannel,
    exchange: Exchange[Request, Response],
    tls: TlsDialling | None,
) -> FrameStream[Request, Response]:
    stream = FrameStream(address, exchange)
    certificate = await _open(stream.connection, endpoint, tls)
    try:
        nonce = secrets.token_bytes(NONCE_BYTES)
        introduction = await channel.introduce(connection_method(exchange, certificate), nonce)
        stream.connection.send([hello(nonce, introduction.header)])
        reason = refusal_in(await stream.frame(), introduction.proof)
        if reason is not None and introduction.needs_session(reason):
            introduction.forget()
            raise _SessionForgotten(reason)
        if reason is not None:
            raise NotConnected(f"{address}: {reason}")
    except BaseException:
        await stream.close()
        raise
    return stream


async def _open(connection: FrameConnection, endpoint: Endpoint, tls: TlsDialling | None) -> bytes | None:
    """Connect, and return the certificate that the other end shows; None without TLS."""
    if tls is None:
        await asyncio.get_running_loop().create_connection(lambda: connection, endpoint.host, endpoint.port)
        return None
    transport, _ = await connect_with_tls(lambda: connection, endpoint.host, endpoint.port, tls)
    certificate: bytes | None = transport.get_extra_info("peer_certificate")
    return certificate


def connection_method(exchange: Exchange[Any, Any], certificate: bytes | None) -> str:
    """Return what an introduction on a connection names in place of a method, so that it is of use for nothing else.

    With TLS it names the certificate of the end that answers, so it is of no use to somebody in between, who has
    another one.
    """
    method = f"{exchange.method} over a connection"
    return method if certificate is None else f"{method} to {hashlib.sha256(certificate).hexdigest()}"


# --- the first frames --------------------------------------------------------------------------------------------


def hello(nonce: bytes, introduction: str) -> bytes:
    return _HELLO.pack(HELLO_KEY, HELLO_VERSION, _CORRELATION_ID, _NO_CLIENT_ID) + nonce + introduction.encode()


def read_hello(frame: Buffer) -> tuple[bytes, str]:
    """Return nonce and introduction. Raises ValueError; the head was read before."""
    if len(frame) > HELLO_BYTES_MAX:
        raise ValueError(f"its introduction of {len(frame)} bytes is larger than {HELLO_BYTES_MAX}")
    content = bytes(frame[_HELLO.size :])
    if len(content) < NONCE_BYTES:
        raise ValueError("its introduction is cut off")
    return content[:NONCE_BYTES], content[NONCE_BYTES:].decode("utf-8", "replace")


def admitting(proof: bytes) -> bytes:
    return _ANSWER.pack(_CORRELATION_ID, True) + proof


def refusing(reason: str) -> bytes:
    return _ANSWER.pack(_CORRELATION_ID, False) + reason.encode()


def refusal_in(frame: Buffer, proof: bytes) -> str | None:
    """Return why the other end does not admit this node, or cannot be the one that opened the session."""
    content = bytes(frame)
    if len(content) < _ANSWER.size:
        return "its answer to an introduction is cut off"
    _, is_admitted = _ANSWER.unpack_from(content)
    rest = content[_ANSWER.size :]
    if not is_admitted:
        return rest.decode("utf-8", "replace")
    return None if hmac.compare_digest(rest, proof) else "another process answers there, or it does not know the secret"
