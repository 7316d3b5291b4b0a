"""Clients that break no rule but cost resources: idle, slow to send, not reading, or with the largest requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Self
from uuid import UUID

from kraft.local.cluster_files import HOST
from kraft.wire.declaration import Message
from kraft.wire.frame import encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.soak.loads.kafka_garbage_work import LARGE, TOPIC

REQUEST_BYTES_CLAIMED: Final = 16 * 1024 * 1024
ALL_RECORDS: Final = 55 * 1024 * 1024
PARTITIONS: Final = 16_000
"""The most partitions that one request may name."""

HEAVY_ROUNDS: Final = 5
_CONNECTING_AT_ONCE: Final = 200
_DEADLINE_S: Final = 60.0
_AGAIN_AFTER_S: Final = 1.0


class Line(asyncio.Protocol):
    """One connection; only their order identifies its responses."""

    def __init__(self) -> None:
        self.answer = b""
        """The last whole response, without its size."""
        self._received = bytearray()
        self._outcome: asyncio.Future[str] | None = None
        self.over = asyncio.Event()
        self._transport: asyncio.Transport

    @classmethod
    async def open(cls, port: int) -> Line:
        _, line = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return line

    async def ask(self, frame: bytes, deadline_s: float) -> str:
        """`answered`, `closed`, or `silent` after the deadline."""
        if self.is_over:
            return "closed"
        self._outcome = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        done, _ = await asyncio.wait([self._outcome], timeout=deadline_s)
        return self._outcome.result() if done else "silent"

    def send(self, frame: bytes) -> None:
        self._transport.write(frame)

    @property
    def is_over(self) -> bool:
        return self.over.is_set()

    def read_nothing(self) -> None:
        self._transport.pause_reading()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= (
            size := 4 + int.from_bytes(self._received[:4], "big")
        ):
            self.answer = bytes(self._received[4:size])
            del self._received[:size]
            self._end("answered")

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
        self._end("closed")

    def _end(self, how: str) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(how)


class Crowd:
    """A context manager: all clients connect at its beginning, and again after a disconnection."""

    def __init__(
        self, port: int, large_end: int, *, idle: int, unread: int, slow: int, unfinished: int, heavy: int
    ) -> None:
        self._port = port
        self._large_end = large_end
        self._counts = {"idle": idle, "unread": unread, "slow": slow, "unfinished": unfinished, "heavy": heavy}
        self._idle: list[Line] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._heavy: list[asyncio.Task[None]] = []
        self.cut_off = {"unread": 0, "slow": 0, "unfinished": 0}
        self.heavy_sent = 0

    @property
    def idle_count(self) -> int:
        return self._counts["idle"]

    def __str__(self) -> str:
        return (
            f"{self._counts['slow']} slow senders were cut off {self.cut_off['slow']} times, "
            f"{self._counts['unread']} that read nothing {self.cut_off['unread']} times, "
            f"{self._counts['unfinished']} that do not finish {self.cut_off['unfinished']} times, "
            f"{self.heavy_sent} requests of {PARTITIONS:,} partitions"
        )

    async def connect_idle(self) -> None:
        """Connect the idle clients first, so that their memory is measured without the others."""
        numbers = iter(range(self._counts["idle"]))
        while batch := list(islice(numbers, _CONNECTING_AT_ONCE)):
            self._idle += await asyncio.gather(*(Line.open(self._port) for _ in batch))

    async def __aenter__(self) -> Self:
        self._tasks += [asyncio.create_task(self._again(self._read_nothing)) for _ in range(self._counts["unread"])]
        self._tasks += [asyncio.create_task(self._again(self._send_slowly)) for _ in range(self._counts["slow"])]
        unfinished = range(self._counts["unfinished"])
        self._tasks += [asyncio.create_task(self._again(self._never_finish)) for _ in unfinished]
        worst = [_framed(message, version) for message, version in heavy_requests(self._large_end)]
        self._heavy = [asyncio.create_task(self._send_the_worst(worst)) for _ in range(self._counts["heavy"])]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._tasks, *self._heavy):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._heavy, return_exceptions=True)
        for line in self._idle:
            line.close()

    async def rounds_done(self) -> None:
        """Wait until the largest requests were all sent. Raises their error, if there was one."""
        await asyncio.gather(*self._heavy)

    async def idle_that_answer(self) -> int:
        """Send a request on each idle connection; return how many get a response."""
        request = _framed(ApiVersionsRequest(), 0)
        ends = [await line.ask(request, _DEADLINE_S) for line in self._idle]
        return ends.count("answered")

    async def _again(self, client: Any) -> None:
        while True:
            with suppress(OSError):
                await client()
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _read_nothing(self) -> None:
        line = await Line.open(self._port)
        try:
            line.read_nothing()
            fetch = _framed(_fetch_all(LARGE), 12)
            for _ in range(20):
                line.send(fetch)
            # The end of a connection that nobody reads is noticed by the next write.
            while not line.is_over:
                await asyncio.sleep(_AGAIN_AFTER_S)
                line.send(fetch)
            self.cut_off["unread"] += 1
        finally:
            line.close()

    async def _send_slowly(self) -> None:
        line = await Line.open(self._port)
        try:
            line.send(REQUEST_BYTES_CLAIMED.to_bytes(4, "big") + b"\x00\x00\x00\x09")
            while not line.is_over:
                await asyncio.sleep(_AGAIN_AFTER_S)
                line.send(b"x")
            self.cut_off["slow"] += 1
        finally:
            line.close()

    async def _never_finish(self) -> None:
        """Send the largest request, except its end."""
        line = await Line.open(self._port)
        try:
            line.send(REQUEST_BYTES_CLAIMED.to_bytes(4, "big") + b"\x00\x00\x00\x09")
            line.send(bytes(REQUEST_BYTES_CLAIMED - 5))
            await line.over.wait()
            self.cut_off["unfinished"] += 1
        finally:
            line.close()

    async def _send_the_worst(self, frames: list[bytes]) -> None:
        lines = [await Line.open(self._port) for _ in frames]
        for _ in range(HEAVY_ROUNDS):
            asking: list[Coroutine[Any, Any, str]] = [
                line.ask(frame, _DEADLINE_S) for line, frame in zip(lines, frames, strict=True)
            ]
            for end in await asyncio.gather(*asking):
                assert end == "answered", f"a large and valid request was {end}"
                self.heavy_sent += 1
        for line in lines:
            line.close()


def heavy_requests(large_end: int) -> list[tuple[Message, int]]:
    """Return valid requests of the largest size. The fetch finds nothing, and so waits as long as it allows."""
    at_the_end = FetchPartition(partition=0, fetch_offset=large_end, partition_max_bytes=1)
    listed = tuple(ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(PARTITIONS))
    topics = tuple(MetadataRequestTopic(topic_id=UUID(int=1 + number), name=None) for number in range(PARTITIONS))
    return [
        (_fetch(FetchTopic(topic=LARGE, partitions=(at_the_end,) * PARTITIONS), wait_ms=2_000), 12),
        (ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=listed),)), 5),
        (MetadataRequest(topics=topics), 12),
    ]


def _fetch_all(topic: str) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=ALL_RECORDS)
    return _fetch(FetchTopic(topic=topic, partitions=(wanted,)), wait_ms=0)


def _fetch(*topics: FetchTopic, wait_ms: int) -> FetchRequest:
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=ALL_RECORDS, topics=topics)


def _framed(message: Message, version: int) -> bytes:
    return b"".join(encode_request(message, version, 1, "crowd"))
