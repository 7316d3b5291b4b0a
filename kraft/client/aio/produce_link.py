"""Stream of produce requests to one leader."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kraft.client.cluster.connections import ProduceStream
from kraft.client.model.errors import AuthenticationFailed
from kraft.client.model.settings import ProducerSettings
from kraft.client.sans_io.send_buffer import Attempt
from kraft.model.callbacks import AsyncCallback, Callback
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock

FINISH_MAX_S: Final = 5.0
"""Maximum wait of `close` until the broker has read requests that get no response (acks=0)."""


log = logging.getLogger("kraft.client")


class _InFlight(Struct, frozen=True):
    request: ProduceRequest
    attempts: list[Attempt]
    since_ms: int


class LinkEvents(Struct, frozen=True, kw_only=True):
    """Callbacks of a link; each attempt ends in exactly one of `answered`, `sent` and `lost`."""

    answered: Callable[[Attempt, ProducePartitionResult], None]
    sent: Callable[[Attempt], None]
    lost: Callable[[Attempt, str], None]
    refused: Callable[[str, AuthenticationFailed], None]
    """Called with the address after the attempts of a link are lost because the broker does not accept the client."""

    has_room: Callback


class ProduceLink:
    """Produce stream to one leader. Requests are sent and answered in order. A broken link is not used again.

    A broker that refuses an append with acks=0 ends the stream with the Refusal, which breaks the link.
    """

    def __init__(
        self, address: str, stream: ProduceStream, settings: ProducerSettings, clock: Clock, events: LinkEvents
    ) -> None:
        self.address = address
        self.is_broken = False
        self._stream = stream
        self._settings = settings
        self._clock = clock
        self._events = events
        self._requests = 0
        self._in_flight: deque[_InFlight] = deque()
        self._throttled: asyncio.TimerHandle | None = None
        """Until when nothing more is sent, because this client used more than its quota of the broker."""
        self._outbox: asyncio.Queue[_InFlight] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._receiving = loop.create_task(self._watched(self._receive_all), name=f"produce answers of {address}")
        sending = loop.create_task(self._watched(self._send_all), name=f"produce to {address}")
        self._tasks = [sending, self._receiving]

    @property
    def has_room(self) -> bool:
        return self._throttled is None and len(self._in_flight) < self._settings.max_in_flight_requests_per_connection

    def oldest_age_ms(self, now_ms: int) -> int:
        """Return the age of the oldest request in flight; 0 if there is none."""
        return now_ms - self._in_flight[0].since_ms if self._in_flight else 0

    def oldest_partitions(self) -> list[TopicPartition]:
        """Return the partitions of the oldest request in flight."""
        return [attempt.batch.partition for attempt in self._in_flight[0].attempts] if self._in_flight else []

    @property
    def is_idle(self) -> bool:
        return not self._in_flight

    def submit(self, attempts: list[Attempt], now_ms: int) -> None:
        """Send the attempts as one request."""
        self._requests += 1
        request = ProduceRequest(
            request_id=self._requests,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            partitions=[
                ProducePartition(
                    topic=attempt.batch.partition.topic,
                    partition=attempt.batch.partition.partition,
                    records=attempt.batch.encoded or b"",
                )
                for attempt in attempts
            ],
            transactional_id=self._settings.transactional_id or "",
        )
        in_flight = _InFlight(request, attempts, now_ms)
        self._in_flight.append(in_flight)
        self._outbox.put_nowait(in_flight)

    def fail(self, reason: str) -> None:
        """Break the link: every request in flight is lost."""
        if self.is_broken:
            return
        self.is_broken = True
        if self._throttled is not None:
            self._throttled.cancel()
        lost, self._in_flight = self._in_flight, deque()
        for in_flight in lost:
            for attempt in in_flight.attempts:
                self._events.lost(attempt, reason)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._events.has_room()

    async def close(self) -> None:
        """Close the stream. With acks=0, wait until the broker has read the requests."""
        if self._settings.acks == 0 and not self.is_broken and not self._in_flight:
            await self._finish()
        self.fail("the producer is closing")
        await asyncio.wait(self._tasks)
        await self._stream.close()

    async def _finish(self) -> None:
        """Wait for the end of the stream: with acks=0 only that shows that the requests reached the broker."""
        try:
            async with asyncio.timeout(FINISH_MAX_S):
                await self._stream.finish()
                await asyncio.wait([self._receiving])
        except (Unreachable, Refusal, TimeoutError):
            return

    async def _watched(self, work: AsyncCallback) -> None:
        """Break the link if one of its tasks fails: what is in flight would otherwise wait until it is too old."""
        try:
            await work()
        except Exception as error:
            log.exception("produce stream failed: broker=%s", self.address)
            self.fail(f"internal error: {error!r}")

    def _ended(self, error: Unreachable | Refusal) -> None:
        """Break the link after its stream has ended."""
        was_broken = self.is_broken
        self.fail(str(error))
        if isinstance(error, AuthenticationFailed) and not was_broken:
            self._events.refused(self.address, error)

    async def _send_all(self) -> None:
        while not self.is_broken:
            in_flight = await self._outbox.get()
            try:
                await self._stream.send(in_flight.request)
            except (Unreachable, Refusal) as error:
                self._ended(error)
                return
            if self._settings.acks == 0 and not self.is_broken:
                # It gets no response, so it counts as sent once it is in the stream.
                self._in_flight.remove(in_flight)
                for attempt in in_flight.attempts:
                    self._events.sent(attempt)
                self._events.has_room()

    async def _receive_all(self) -> None:
        while not self.is_broken:
            try:
                response = await self._stream.receive()
            except (Unreachable, Refusal) as error:
                self._ended(error)
                return
            self._take(response)

    def _take(self, response: ProduceResponse) -> None:
        if not self._in_flight or self._in_flight[0].request.request_id != response.request_id:
            self.fail(f"{self.address} sent a response with an unexpected request id")
            return
        in_flight = self._in_flight[0]
        if len(response.partitions) != len(in_flight.attempts):
            self.fail(f"{self.address} answered {len(response.partitions)} of {len(in_flight.attempts)} partitions")
            return
        for attempt, result in zip(in_flight.attempts, response.partitions, strict=True):
            self._events.answered(attempt, result)
        # Only now, so that the rest is lost, and sent again, if one of the answers cannot be taken.
        self._in_flight.popleft()
        if response.throttle_time_ms:
            self._throttle(response.throttle_time_ms / 1_000)
        self._events.has_room()

    def _throttle(self, wait_s: float) -> None:
        """Send nothing for so long: the broker would not read it, and it would count as late."""
        if self._throttled is not None:
            self._throttled.cancel()
        self._throttled = asyncio.get_running_loop().call_later(wait_s, self._throttle_over)

    def _throttle_over(self) -> None:
        self._throttled = None
        self._events.has_room()
