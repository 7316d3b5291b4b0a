"""One blocking connection to a broker's listener of Kafka's protocol, for the fetches of one partition at a time.

A response is received by one system call, straight into the object that the codec reads: a reader of a gigabyte spends
a quarter of the CPU time that the same bytes take through gRPC and an event loop.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Final, TypeVar

from msgspec import Struct

from kraft.client.bulk.closed_listeners import encrypted, log_in
from kraft.client.model.security import OPEN, ClientSecurity
from kraft.model.errors import ErrorCode, error_code
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import MESSAGE_BYTES_MAX
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

FETCH_VERSION: Final = 11
"""The last version in which the records end the message, if it has one partition: they are found without a copy."""

RESPONSE_BYTES_MAX: Final = 2 << 20
"""Bytes of records requested at once, and read ahead; what a broker sends at most, except for a single larger batch."""

M = TypeVar("M", bound=Message)

_SIZE: Final = struct.Struct(">i")
_READ_COMMITTED: Final = 1
_QUIET_S_MAX: Final = 5.0
"""A broker that sends nothing for this long, beyond the wait that was requested, is given up."""


class Fetch(Struct, frozen=True, kw_only=True):
    """A request for the records of a partition from `offset` on."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    max_wait_ms: int
    bytes_max: int
    reads_committed: bool


class FetchAnswer(Struct, frozen=True, kw_only=True):
    """Response to a `Fetch`: the record batches are `frame[begin:]`."""

    error_code: ErrorCode
    frame: bytes
    begin: int
    aborted: tuple[AbortedTransaction, ...]


class FetchSocket:
    """A connection. After any error it must be closed."""

    def __init__(self, address: str, client_id: str, timeout_s: float, security: ClientSecurity = OPEN) -> None:
        """Connect, and log in as the security says. Raises OSError, and ProtocolError."""
        host, _, port = address.rpartition(":")
        self.address = address
        self._client_id = client_id
        self._requests = 0
        self._wait_s = 0.0
        self._throttle_s = 0.0
        """The broker reads the next request after this time."""
        self.is_awaited = False
        """A response is on its way."""
        self.has_answered = False
        self._expires_s: float | None = None
        connected = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        try:
            self._prepare(connected, host.strip("[]"), security, timeout_s)
        except BaseException:
            connected.close()
            raise

    def _prepare(self, connected: socket.socket, host: str, security: ClientSecurity, timeout_s: float) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is not None:
            connected = encrypted(connected, security.tls, host)
        else:
            # With a timeout of Python's own, every call would return what has arrived, and not wait for the whole.
            connected.settimeout(None)
            _set_receive_timeout(connected, _QUIET_S_MAX)
        self._socket = connected
        self._flags = socket.MSG_WAITALL if security.tls is None else 0
        if security.sasl is not None:
            lifetime_s = log_in(security.sasl, self, timeout_s)
            self._expires_s = None if lifetime_s is None else time.monotonic() + lifetime_s

    @property
    def is_expired(self) -> bool:
        """Whether the session is nearly over, so that the next fetch needs another connection."""
        return self._expires_s is not None and time.monotonic() >= self._expires_s

    def close(self) -> None:
        self._socket.close()

    def ask(self, fetch: Fetch) -> None:
        """Send a request; its response must be received before the next one is sent. Raises OSError."""
        assert not self.is_awaited, "one request at a time"
        wanted = FetchPartition(
            partition=fetch.partition.partition,
            current_leader_epoch=fetch.leader_epoch,
            fetch_offset=fetch.offset,
            partition_max_bytes=fetch.bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=fetch.max_wait_ms,
            min_bytes=1,
            max_bytes=fetch.bytes_max,
            isolation_level=_READ_COMMITTED if fetch.reads_committed else 0,
            topics=(FetchTopic(topic=fetch.partition.topic, partitions=(wanted,)),),
        )
        self._send(request, FETCH_VERSION)
        self._wait_s = fetch.max_wait_ms / 1000 + self._throttle_s
        self.is_awaited = True

    def answer(self, timeout_s: float) -> FetchAnswer:
        """Return the response. Raises OSError, or ProtocolError for what is none."""
        response, frame = self._response(FetchResponse, FETCH_VERSION, timeout_s)
        self.is_awaited = False
        self.has_answered = True
        self._throttle_s = response.throttle_time_ms / 1000
        return _answer(self.address, response, frame)

    def exchange(self, request: Message, kind: type[M], version: int, timeout_s: float) -> M:
        """Send a request and return its response. Raises OSError, and ProtocolError."""
        self._send(request, version)
        return self._response(kind, version, timeout_s)[0]

    def _send(self, request: Message, version: int) -> None:
        self._requests += 1
        self._socket.sendall(b"".join(encode_request(request, version, self._requests, self._client_id)))

    def _response(self, kind: type[M], version: int, timeout_s: float) -> tuple[M, bytes]:
        """Return the response, and its frame."""
        deadline_s = time.monotonic() + self._wait_s + timeout_s
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline_s))
        if not 0 < size <= MESSAGE_BYTES_MAX:
            raise ProtocolError(f"{self.address} sent a response of {size} bytes")
        frame = self._receive(size, deadline_s)
        correlation_id, response = decode_response(kind, version, frame)
        if correlation_id != self._requests:
            raise ProtocolError(f"{self.address} sent response {correlation_id}, expected {self._requests}")
        return response, frame

    def _receive(self, size: int, deadline_s: float) -> bytes:
        pieces: list[bytes] = []
        quiet_until_s = min(deadline_s, time.monotonic() + self._wait_s + _QUIET_S_MAX)
        while size:
            try:
                piece = self._socket.recv(size, self._flags)
            except (BlockingIOError, TimeoutError):
                # The receive timeout passed, and nothing came.
                piece = None
            if piece == b"":
                raise ConnectionError(f"{self.address} closed the connection")
            now_s = time.monotonic()
            if piece is not None:
                pieces.append(piece)
                size -= len(piece)
                quiet_until_s = min(deadline_s, now_s + _QUIET_S_MAX)
            if size and now_s >= quiet_until_s:
                raise TimeoutError(f"{self.address} did not send a response in time")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _answer(address: str, response: FetchResponse, frame: bytes) -> FetchAnswer:
    if response.error_code != ErrorCode.NONE:
        return FetchAnswer(error_code=error_code(response.error_code), frame=frame, begin=len(frame), aborted=())
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    if response.throttle_time_ms and not partitions:
        # This client is over its quota: there may be records next time.
        return FetchAnswer(error_code=ErrorCode.NONE, frame=frame, begin=len(frame), aborted=())
    if len(partitions) != 1:
        raise ProtocolError(f"{address} sent {len(partitions)} partitions, one was requested")
    [found] = partitions
    return FetchAnswer(
        error_code=error_code(found.error_code),
        frame=frame,
        begin=_begin_of_records(address, found, frame),
        aborted=tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in found.aborted_transactions or ()
        ),
    )


def _begin_of_records(address: str, found: PartitionData, frame: bytes) -> int:
    size = len(found.records or b"")
    begin = len(frame) - size
    if size and _SIZE.unpack_from(frame, begin - _SIZE.size) != (size,):
        raise ProtocolError(f"{address} sent a response that does not end with the records")
    return begin


def _set_receive_timeout(connection: socket.socket, seconds: float) -> None:
    """Set the time after which a blocking receive returns what has arrived."""
    whole, fraction = divmod(seconds, 1)
    is_windows = sys.platform == "win32"
    packed = struct.pack("L", int(seconds * 1e3)) if is_windows else struct.pack("ll", int(whole), int(fraction * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
