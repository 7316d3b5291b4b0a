"""A minimal Kafka broker for librdkafka: it keeps the batches that it receives, and serves a given one.

One topic with one partition, on a free port of this machine, one thread a connection. Each request is answered in the
one version of it that is offered here. Field layouts: Kafka protocol guide.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.golden.frame_server import frame_server

TOPIC: Final = "golden"
PRODUCER_ID: Final = 4000
PRODUCER_EPOCH: Final = 3

_VERSION_OF: Final = {
    (_PRODUCE := 0): 7,
    (_FETCH := 1): 10,
    (_METADATA := 3): 4,
    # Nobody needs a coordinator here, but librdkafka uses lz4 only with brokers that have this call.
    (_FIND_COORDINATOR := 10): 0,
    (_API_VERSIONS := 18): 0,
    (_INIT_PRODUCER_ID := 22): 1,
}
_COORDINATOR_NOT_AVAILABLE: Final = 15
_UNSUPPORTED_VERSION: Final = 35


class FakeBroker:
    """The state that connections share."""

    def __init__(self, served: bytes, high_watermark: int) -> None:
        self.served = served
        self.high_watermark = high_watermark
        self.received: list[bytes] = []
        """The records field of every produce request."""
        self.port = 0

    def answer(self, frame: bytes) -> bytes | None:
        """See `frame_server.Answer`."""
        request = _Reader(frame)
        api_key, api_version, correlation_id = request.unpack(">hhi")
        request.string()
        body = self._body(api_key, api_version, request)
        return None if body is None else struct.pack(">ii", 4 + len(body), correlation_id) + body

    def _body(self, api_key: int, api_version: int, request: _Reader) -> bytes | None:
        if api_key == _API_VERSIONS:
            # A newer version is refused in the oldest one, which the client then uses.
            return self._api_versions(0 if api_version == 0 else _UNSUPPORTED_VERSION)
        if api_version != _VERSION_OF.get(api_key):
            raise ValueError(f"api {api_key} was asked for in version {api_version}")
        if api_key == _PRODUCE:
            return self._produce(request)
        if api_key == _FETCH:
            return self._fetch(request)
        if api_key == _METADATA:
            return self._metadata()
        if api_key == _FIND_COORDINATOR:
            return struct.pack(">hi", _COORDINATOR_NOT_AVAILABLE, -1) + _string("") + struct.pack(">i", -1)
        return struct.pack(">ihqh", 0, 0, PRODUCER_ID, PRODUCER_EPOCH)

    def _api_versions(self, error_code: int) -> bytes:
        # The lowest versions are 0, because clients look for the oldest ones that they know.
        offered = b"".join(struct.pack(">hhh", key, 0, version) for key, version in _VERSION_OF.items())
        return struct.pack(">hi", error_code, len(_VERSION_OF)) + offered

    def _metadata(self) -> bytes:
        broker = struct.pack(">i", 1) + _string("127.0.0.1") + struct.pack(">ih", self.port, -1)
        partition = struct.pack(">hiiiiii", 0, 0, 1, 1, 1, 1, 1)
        topic = struct.pack(">h", 0) + _string(TOPIC) + struct.pack(">bi", 0, 1) + partition
        return struct.pack(">ii", 0, 1) + broker + _string("golden-cluster") + struct.pack(">ii", 1, 1) + topic

    def _produce(self, request: _Reader) -> bytes | None:
        request.string()
        acks, _, _ = request.unpack(">hii")
        request.string()
        request.unpack(">ii")
        (size,) = request.unpack(">i")
        self.received.append(request.take(size))
        if acks == 0:
            return None
        partition = struct.pack(">iihqqq", 1, 0, 0, 0, -1, 0)
        return struct.pack(">i", 1) + _string(TOPIC) + partition + struct.pack(">i", 0)

    def _fetch(self, request: _Reader) -> bytes:
        request.unpack(">iiiibii")
        (topics,) = request.unpack(">i")
        offset = self.high_watermark
        if topics:
            request.string()
            *_, offset, _, _ = request.unpack(">iiiqqi")
        records = self.served if offset < self.high_watermark else b""
        partition = struct.pack(">iihqqqii", 1, 0, 0, self.high_watermark, self.high_watermark, 0, -1, len(records))
        return struct.pack(">ihii", 0, 0, 0, 1) + _string(TOPIC) + partition + records


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) != size:
            raise ValueError("a request ends in the middle")
        self._position += size
        return taken

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def string(self) -> bytes | None:
        (size,) = self.unpack(">h")
        return None if size < 0 else self.take(size)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@contextmanager
def fake_broker(served: bytes = b"", high_watermark: int = 0) -> Iterator[FakeBroker]:
    """Listen until the block ends. A fetch below `high_watermark` gets `served`."""
    broker = FakeBroker(served, high_watermark)
    with frame_server(broker.answer) as broker.port:
        yield broker
