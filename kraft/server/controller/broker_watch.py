"""Watch of the active controller over the brokers: fences those whose session expired or whose process is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import structlog

from kraft.metadata import broker_decisions
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.broker_presence import CONFIRM_AFTER_MS, BrokerPresence
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.broker_sessions import BrokerSessions
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.service_times import Newcomers
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.liveness import LivenessRequest, LivenessResponse
from kraft.runtime.clock import Clock
from kraft.server.controller.dialling import NobodyListens, nobody_listens
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.loop.periods import period_left_s

log = structlog.get_logger()

LOOK_INTERVAL_S: Final = 0.25


class BrokerWatch:
    def __init__(
        self,
        host: StateMachineHost,
        clock: Clock,
        *,
        session_timeout_ms: int,
        topic_defaults: TopicDefaultsInEffect,
        newcomers: Newcomers,
        nobody_listens: NobodyListens = nobody_listens,
    ) -> None:
        """`nobody_listens` returns whether every one of a broker's addresses refuses connections; `newcomers` returns
        the brokers that came into service a short time ago.
        """
        self._host = host
        self._clock = clock
        self._topic_defaults = topic_defaults
        self._newcomers = newcomers
        self._nobody_listens = nobody_listens
        self._sessions = BrokerSessions(timeout_ms=session_timeout_ms)
        self._presence = BrokerPresence()
        self._look_now = asyncio.Event()
        self._term_over = asyncio.Event()

    # --- the term ---

    def leadership_changed(self, active: bool) -> None:
        self._term_over.set()
        self._term_over = asyncio.Event()
        self._presence.reset()
        if active:
            # Sessions begin again: heartbeats of the previous term went to another controller.
            self._sessions.activate(self._host.image, self._clock.monotonic_ms())
            self._look_now.set()

    async def run(self) -> None:
        """Dial brokers whose process may be gone. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if self._host.active:
                    now_ms = self._clock.monotonic_ms()
                    self._sessions.tick(now_ms)
                    for absentee in self._presence.to_dial(self._host.image, now_ms):
                        tasks.create_task(self._dial(absentee))
                self._look_now.clear()
                # `asyncio.wait_for` may lose a cancellation that comes together with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(period_left_s(LOOK_INTERVAL_S) if self._host.active else None):
                        await self._look_now.wait()

    async def fence_expired(self) -> None:
        """Fence brokers whose session expired. Raises Refusal unless this controller is the active one."""
        now_ms = self._clock.monotonic_ms()
        # Called in both loops: the first to run after a pause of this process must notice the pause.
        self._sessions.tick(now_ms)
        for broker_id in self._sessions.expired(now_ms):
            await self._fence(broker_id, "no heartbeat within broker.session.timeout.ms")

    async def _dial(self, absentee: BrokerRegistration) -> None:
        is_refused = await self._nobody_listens(absentee.endpoints)
        if not self._presence.dialled(absentee, nobody_listens=is_refused, now_ms=self._clock.monotonic_ms()):
            if is_refused:
                await asyncio.sleep(CONFIRM_AFTER_MS / 1_000)
                self._look_now.set()
            return
        registration = self._host.image.broker(absentee.broker_id)
        if not self._host.active or registration is None or registration.broker_epoch != absentee.broker_epoch:
            return
        try:
            await self._fence(absentee.broker_id, "its addresses refuse connections")
        except Refusal as refusal:
            log.info("leadership lost before the dead broker was fenced", reason=refusal.message)

    async def _fence(self, broker_id: BrokerId, reason: str) -> None:
        registration = self._host.image.broker(broker_id)
        heard_ms = self._sessions.last_contact_ms(broker_id)
        if registration is not None and not registration.fenced:
            epoch, changes, newcomers = registration.broker_epoch, ChangeCounts(), self._newcomers()

            def fence(image: MetadataImage) -> Decision[None]:
                fencing = broker_decisions.fence_broker(
                    image, broker_id, epoch, self._topic_defaults(image), newcomers=newcomers
                )
                return changes.of(image, fencing)

            await self._host.submit(fence)
            log.warning("broker fenced", broker=broker_id, reason=reason, **changes.facts())
        if self._sessions.last_contact_ms(broker_id) == heard_ms:
            # A broker that sent a heartbeat meanwhile may be in service again, so its session must continue.
            self._sessions.end(broker_id)

    # --- the brokers ---

    def has_live_session(self, broker_id: BrokerId) -> bool:
        return self._sessions.is_alive(broker_id, self._clock.monotonic_ms())

    def registered(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        self._sessions.touch(broker_id, broker_epoch, self._clock.monotonic_ms())

    def heartbeat_received(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Record a heartbeat. A broker that may stop gets no session again: it registers again if it is started."""
        registration = self._host.image.broker(broker_id)
        if registration is None or not registration.may_stop:
            self._sessions.touch(broker_id, broker_epoch, self._clock.monotonic_ms())
        self._presence.heard(broker_id, broker_epoch)

    def stops(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """End the session of a broker that shuts down, so that it may be unregistered, or registered, at once.

        The process may have been restarted, and registered, while its last heartbeat was answered.
        """
        self._sessions.end(broker_id, broker_epoch)

    async def liveness_stream(self, request: LivenessRequest) -> AsyncGenerator[LivenessResponse, None]:
        """Send one response at once, and end the stream with this controller's term. Raises Refusal.

        If the stream ends earlier, the broker ended it, or the kernel did when the broker's process ended.
        """
        self._host.check_active()
        registration = self._host.image.broker(request.broker_id)
        if registration is None or registration.broker_epoch != request.broker_epoch:
            raise Refusal(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {request.broker_id} is not registered under broker epoch {request.broker_epoch}",
            )
        term_over = self._term_over
        self._presence.liveness_stream_opened(request.broker_id, request.broker_epoch)
        try:
            yield LivenessResponse()
            await term_over.wait()
        finally:
            if not term_over.is_set():
                self._presence.liveness_stream_closed(request.broker_id, request.broker_epoch)
                self._look_now.set()
