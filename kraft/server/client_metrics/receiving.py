"""Client metrics of a broker: what is asked for, of whom, and what arrives. Source: KIP-714.

Metrics are asked for only where somebody can read them: at a node with a metrics address. Elsewhere clients are told
that none are wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final
from uuid import UUID

import structlog

from kraft.metadata.client_metrics import Subscription, Wanted, subscriptions_of, takes_long, wanted
from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.client_metrics.instances import Instance, Instances
from kraft.server.client_metrics.payload import Payload, read
from kraft.server.client_metrics.pushing_client import PushingClient
from kraft.server.client_metrics.received import ReceivedMetrics
from kraft.server.loop.threads import in_thread
from kraft.wire.schema.push_telemetry import PushTelemetryRequest

log = structlog.get_logger()

WAITING_BYTES_MAX: Final = 8 << 20
"""Limit on pushes that wait for the thread: a client whose push has no room is told to try again later."""

CUT_LOGGED_AFTER_MS: Final = 300_000
"""Time between two warnings that something was left out."""


class ClientMetrics:
    def __init__(
        self, image: CurrentImage, thread: Executor, now_ms: Callable[[], int], bytes_max: int, *, is_received: bool
    ) -> None:
        """`thread` has one thread, for what takes long. `bytes_max` is telemetry.max.bytes."""
        self._image = image
        self.now_ms: Final = now_ms
        self.bytes_max: Final = bytes_max
        self._is_received: Final = is_received
        self._configs = image().client_metrics
        self._subscriptions: tuple[Subscription, ...] = ()
        self._read_configs()
        self._thread = thread
        self._waiting_bytes = 0
        self._cut_logged_ms = -CUT_LOGGED_AFTER_MS
        self.instances: Final = Instances()
        self.received: Final = ReceivedMetrics()
        self.pushes = 0
        """Those that were not refused."""

        self.refused: dict[int, int] = {}
        """Numbers of requests that were refused, by their error codes."""

    async def ask(self, instance_id: UUID, client: PushingClient) -> Instance:
        """Return what the client is asked for. Raises Refusal."""
        instance = await self._instance(instance_id, client)
        try:
            instance.ask(self.now_ms())
        except Refusal as refusal:
            self._count(refusal)
            raise
        return instance

    async def push(self, request: PushTelemetryRequest, client: PushingClient) -> None:
        """Take what the client pushed. Raises Refusal."""
        instance = await self._instance(request.client_instance_id, client)
        try:
            instance.push(request, self.now_ms(), self.bytes_max)
            if request.metrics and self._is_received:
                await _to_its_end(self._take(request, client, instance.wanted))
        except Refusal as refusal:
            self._count(refusal)
            instance.failed(refusal.error_code)
            raise
        instance.failed(ErrorCode.NONE)
        self.pushes += 1

    async def _take(self, request: PushTelemetryRequest, client: PushingClient, asked: Wanted) -> None:
        received, instance_id = self.received, request.client_instance_id
        received.check_owner(instance_id, client.principal, self.now_ms())
        payload = await self._read(request)
        cut_before = received.cut_pushes
        received.take(instance_id, client, asked.interval_ms, payload, self.now_ms())
        if received.cut_pushes > cut_before:
            self._say_cut(client)

    async def _read(self, request: PushTelemetryRequest) -> Payload:
        size = len(request.metrics)
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            problem = "the broker has more pushes of metrics to read than it can keep: push again later"
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, problem)
        self._waiting_bytes += size
        try:
            return await in_thread(self._thread, read, request.compression_type, bytes(request.metrics), self.bytes_max)
        finally:
            self._waiting_bytes -= size

    def _say_cut(self, client: PushingClient) -> None:
        if self.now_ms() - self._cut_logged_ms >= CUT_LOGGED_AFTER_MS:
            self._cut_logged_ms = self.now_ms()
            log.warning(
                "client metrics left out: too many, or of another kind than gauges and sums",
                client_id=client.client_id,
                cut_pushes=self.received.cut_pushes,
                series=self.received.series_count,
                clients=len(self.received),
            )

    async def _instance(self, instance_id: UUID, client: PushingClient) -> Instance:
        subscriptions = self._current()
        known = self.instances.find(instance_id, subscriptions, self.now_ms())
        if known is not None:
            return known
        is_new = instance_id not in self.instances
        matched = {"client_instance_id": str(instance_id), **client.matched()}
        if self._takes_long:
            asked = await in_thread(self._thread, wanted, subscriptions, matched)
            # Another request of the same client may have come meanwhile.
            known = self.instances.find(instance_id, subscriptions, self.now_ms())
            if known is not None:
                return known
        else:
            asked = wanted(subscriptions, matched)
        instance = Instance(instance_id, subscriptions, asked)
        self.instances.add(instance_id, instance, self.now_ms())
        if is_new:
            client.call_when_gone(lambda: self.instances.forget(instance_id))
        return instance

    def _current(self) -> tuple[Subscription, ...]:
        if self._image().client_metrics is not self._configs:
            self._read_configs()
        return self._subscriptions

    def _read_configs(self) -> None:
        self._configs = self._image().client_metrics
        self._subscriptions = subscriptions_of(self._configs) if self._is_received else ()
        self._takes_long = takes_long(self._subscriptions)

    def _count(self, refusal: Refusal) -> None:
        code = int(refusal.error_code)
        self.refused[code] = self.refused.get(code, 0) + 1


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await the work, which goes on when its client disconnects: after its last push one does so at once."""
    task = asyncio.ensure_future(work)
    # What it is refused with is then of interest to nobody.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.shield(task)
