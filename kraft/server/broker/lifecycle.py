"""A broker's session with the active controller: registration, heartbeats, controlled shutdown."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final, Protocol

import structlog

from kraft.metadata.image import CurrentIndex, ImageCondition, MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.ids import BrokerEpoch
from kraft.model.liveness import LivenessRequest
from kraft.model.register_broker import RegisterBrokerRequest
from kraft.rpc.cluster_calls import HEARTBEAT, LIVENESS_STREAM, REGISTER_BROKER
from kraft.rpc.peers import Unreachable
from kraft.server.broker.heartbeat_log import HeartbeatLog
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop.periods import loop_time_s, period_end

log = structlog.get_logger()

REGISTRATION_ATTEMPT_S: Final = 5.0
REGISTRATION_PAUSE_S: Final = 0.1
WAITING: Final = "registration waiting for controller"
WAITING_AGAIN_AFTER_S: Final = 60.0
"""The same reason for waiting is logged once in this time."""

CONTROLLED_SHUTDOWN_MAX_S: Final = 10.0
CONTROLLED_SHUTDOWN_INTERVAL_S: Final = 0.05
CONTROLLED_SHUTDOWN_SILENCE_MAX_S: Final = 2.0

FENCED_HEARTBEAT_INTERVAL_S: Final = 0.05
LIVENESS_PAUSE_S: Final = 0.2

_FATAL_AT_REGISTRATION = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
)
_REPLACED = "another process registered as this broker; run only one with this node.id"
_ENDED_REGISTRATION = {
    ErrorCode.STALE_BROKER_EPOCH: _REPLACED,
    ErrorCode.BROKER_ID_NOT_REGISTERED: "it was unregistered; restart the node to register it again",
}
"""Errors of a heartbeat after which this process is no longer the broker, with cause and remedy."""


class BrokerRefused(Exception):
    """The controller refused this broker for good: one line, with the remedy."""


class FollowedMetadata(Protocol):
    """The metadata of this broker."""

    @property
    def image(self) -> MetadataImage:
        """The image that this broker has applied."""

    @property
    def published_index(self) -> int:
        """Index of the last metadata entry that this broker has applied."""

    def note_committed(self, index: int, /) -> None:
        """Note that the active controller has committed this entry."""

    async def until(self, holds: ImageCondition, timeout_s: float, /) -> bool:
        """Wait until this broker has applied an image for which `holds`. Return False after `timeout_s`."""


class BrokerLifecycle:
    """Registers this broker, and keeps its session with the active controller alive."""

    def __init__(
        self,
        identity: RegisterBrokerRequest,
        controllers: ControllerClient,
        *,
        heartbeat_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        """`identity` is what this process registers as."""
        self._identity = identity
        self._controllers = controllers
        self._heartbeat_interval_s = heartbeat_interval_s
        self._session_timeout_s = session_timeout_s
        self.registration = OwnRegistration(broker_id=identity.broker_id)
        self.registration_problem = ""
        """Why the last attempt to register failed; empty before the first and after the last."""

        self.is_fenced = True
        self._answered_s = 0.0
        self._heartbeat_log = HeartbeatLog()
        self._controller_lost_at_s: float | None = None
        """When the last liveness stream to an active controller ended; None before the first, and while one is open."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self.registration.broker_epoch

    async def register(self) -> None:
        """Register; wait for an active controller as long as it takes. Raises BrokerRefused.

        The session of an earlier, killed process of this broker may not have ended yet: the broker waits for that. If
        another live process has the same id, its session does not end, and this process is refused.
        """
        loop = asyncio.get_running_loop()
        refused_since: float | None = None
        logged_s = 0.0
        while True:
            try:
                result = await self._controllers.call(REGISTER_BROKER, self._identity, REGISTRATION_ATTEMPT_S)
            except NoController as error:
                # An attempt takes seconds: who waits for so long should hear of it, but not with every attempt.
                if str(error) != self.registration_problem or loop.time() - logged_s > WAITING_AGAIN_AFTER_S:
                    logged_s = loop.time()
                    log.warning(WAITING, reason=str(error))
                self.registration_problem = str(error)
                continue
            if result.error_code is ErrorCode.NONE:
                self.registration_problem, self._answered_s = "", loop_time_s()
                self.registration.broker_epoch = result.broker_epoch
                log.info(
                    "broker registered",
                    broker=self._identity.broker_id,
                    broker_epoch=self.broker_epoch,
                    advertised=[str(endpoint) for endpoint in self._identity.endpoints],
                )
                return
            if result.error_code in _FATAL_AT_REGISTRATION:
                raise BrokerRefused(result.error_message)
            if result.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                refused_since = refused_since or loop.time()
                if loop.time() - refused_since > 2 * self._session_timeout_s:
                    raise BrokerRefused(result.error_message)
            self.registration_problem = f"{result.error_code.name}: {result.error_message}"
            log.info("registration retried", reason=self.registration_problem)
            await asyncio.sleep(REGISTRATION_PAUSE_S)

    def is_registered_in(self, image: MetadataImage) -> bool:
        """Return whether the image has the registration of this process: only then may the broker apply it.

        Raises BrokerRefused if another process has registered under this broker's id since. Images have committed
        records only, and broker epochs never go down, so this process is replaced for good and must stop, even before
        its next heartbeat is refused.
        """
        registration = image.broker(self._identity.broker_id)
        if registration is None or registration.broker_epoch < self.broker_epoch:
            return False
        if registration.broker_epoch > self.broker_epoch:
            raise BrokerRefused(
                f"broker {self._identity.broker_id} is registered with broker epoch {registration.broker_epoch}, not"
                f" {self.broker_epoch}: {_REPLACED}"
            )
        return True

    async def keep_alive(self, metadata: FollowedMetadata) -> None:
        """Send heartbeats until cancelled. Raises BrokerRefused once this process is no longer the registered broker.

        While the broker is fenced it sends them faster, to be unfenced as soon as it has caught up. With an operator
        fence it does not; then it sends one at once when the metadata shows that the operator fence was removed.
        """
        while True:
            was_fenced = self.is_fenced
            result = await self._heartbeat(
                metadata.published_index, wants_shutdown=False, deadline_s=self._session_timeout_s / 2
            )
            if result is not None:
                metadata.note_committed(result.committed_index)
            if self.is_fenced and not was_fenced:
                await self._log_fenced(metadata)
            if not self.is_fenced:
                await period_end(self._heartbeat_interval_s)
            elif self._has_operator_fence(metadata.image):
                await metadata.until(lambda image: not self._has_operator_fence(image), self._heartbeat_interval_s)
            else:
                await asyncio.sleep(min(self._heartbeat_interval_s, FENCED_HEARTBEAT_INTERVAL_S))

    async def _log_fenced(self, metadata: FollowedMetadata) -> None:
        """Log that this broker was fenced, once the metadata shows whether an operator did it."""
        await metadata.until(self._is_fenced_in, self._heartbeat_interval_s)
        cause = {"reason": "operator fence"} if self._has_operator_fence(metadata.image) else {}
        log.warning("broker fenced", broker=self._identity.broker_id, **cause)

    def _is_fenced_in(self, image: MetadataImage) -> bool:
        registration = image.broker(self._identity.broker_id)
        return registration is not None and registration.fenced

    def _has_operator_fence(self, image: MetadataImage) -> bool:
        registration = image.broker(self._identity.broker_id)
        return registration is not None and registration.fenced_by_operator

    async def hold_liveness_stream(self) -> None:
        """Hold a call to the active controller open until cancelled; the kernel ends it with this process.

        It only makes the end of the process noticed sooner; heartbeats show everything else.
        """
        request = LivenessRequest(broker_id=self._identity.broker_id, broker_epoch=self.broker_epoch)
        while True:
            peer = self._controllers.active_peer()
            try:
                async with aclosing(peer.follow(LIVENESS_STREAM, request)) as responses:
                    async for _ in responses:
                        self._controller_lost_at_s = None
                        log.info("liveness stream opened", controller=peer.address)
            except (Unreachable, Refusal) as error:
                log.debug("liveness stream failed", controller=peer.address, reason=str(error))
            if self._controller_lost_at_s is None:
                self._controller_lost_at_s = loop_time_s()
            # Heartbeats find the next active controller.
            await asyncio.sleep(LIVENESS_PAUSE_S)

    def without_controller_ms(self) -> int:
        """Return for how long there has been no liveness stream to an active controller; 0 while there is one."""
        if self._controller_lost_at_s is None:
            return 0
        return round(1_000 * (loop_time_s() - self._controller_lost_at_s))

    def silent_s(self) -> float:
        """Return the time since a controller has answered, after the registration."""
        return loop_time_s() - self._answered_s

    async def shut_down(self, metadata_index: CurrentIndex) -> None:
        """Ask the controller to move this broker's leaderships away; return when that is done or has failed."""
        loop = asyncio.get_running_loop()
        began = answered = loop.time()
        while loop.time() - began < CONTROLLED_SHUTDOWN_MAX_S:
            result = await self._heartbeat(
                metadata_index(), wants_shutdown=True, deadline_s=CONTROLLED_SHUTDOWN_SILENCE_MAX_S
            )
            if result is not None:
                answered = loop.time()
                if result.may_stop:
                    log.info("controlled shutdown completed", took_ms=round((loop.time() - began) * 1_000))
                    return
            elif loop.time() - answered >= CONTROLLED_SHUTDOWN_SILENCE_MAX_S:
                break
            await asyncio.sleep(CONTROLLED_SHUTDOWN_INTERVAL_S)
        log.warning("controlled shutdown not completed", reason="no controller moved every leadership in time")

    async def _heartbeat(
        self, metadata_index: int, *, wants_shutdown: bool, deadline_s: float
    ) -> BrokerHeartbeatResult | None:
        """Send one heartbeat. Return the controller's response; None if there is none or it is a refusal."""
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_index=metadata_index,
            wants_shutdown=wants_shutdown,
        )
        try:
            result = await self._controllers.call(HEARTBEAT, request, deadline_s)
        except NoController as error:
            self._heartbeat_log.failed("heartbeat failed", str(error))
            return None
        if result.error_code in _ENDED_REGISTRATION:
            raise BrokerRefused(f"{result.error_message}: {_ENDED_REGISTRATION[result.error_code]}")
        if result.error_code is not ErrorCode.NONE:
            self._heartbeat_log.failed("heartbeat refused", f"{result.error_code.name}: {result.error_message}")
            return None
        self._answered_s = loop_time_s()
        self._heartbeat_log.answered()
        if result.is_fenced != self.is_fenced:
            self.is_fenced = result.is_fenced
            if not self.is_fenced:
                log.info("broker unfenced", broker=request.broker_id)
            elif wants_shutdown:
                log.info("broker fenced", broker=request.broker_id, reason="controlled shutdown")
        return result
