"""A broker's life in the eyes of the active controller: it registers, keeps its session alive, and takes its leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

import structlog

from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.metadata.image import MetadataImage
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import HeartbeatRequest, HeartbeatResult
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId
from kraft.model.liveness import LivenessRequest
from kraft.model.register_broker import RegisterBrokerRequest
from kraft.rpc.cluster_calls import HEARTBEAT, LIVENESS_STREAM, REGISTER_BROKER
from kraft.rpc.peers import Unreachable
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration

log = structlog.get_logger()

REGISTRATION_ATTEMPT_S: Final = 5.0
REGISTRATION_PAUSE_S: Final = 0.1
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
_REPLACED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class BrokerRefused(Exception):
    """The controller will not have this broker: one line, with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Who registers. The incarnation is drawn anew by each process.

    `may_have_lost_records`: what the process before this one acknowledged may not all have reached the disk.
    """

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str
    directory_ids: tuple[DirectoryId, ...]
    may_have_lost_records: bool = False


class FollowedMetadata(Protocol):
    """The metadata as this broker follows it."""

    @property
    def image(self) -> MetadataImage:
        """What this broker acts on."""

    @property
    def published_index(self) -> int:
        """The metadata entry up to which this broker has acted."""

    def committed_elsewhere(self, index: int, /) -> None:
        """The active controller told that it has committed this entry."""

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float, /) -> bool:
        """Waits until this broker acts on an image for which `holds`; False when that took too long."""


class BrokerLifecycle:
    def __init__(
        self,
        identity: BrokerIdentity,
        controllers: ControllerClient,
        *,
        heartbeat_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        self._identity = identity
        self._controllers = controllers
        self._heartbeat_interval_s = heartbeat_interval_s
        self._session_timeout_s = session_timeout_s
        self.registration = OwnRegistration(broker_id=identity.broker_id)
        self.is_fenced = True

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self.registration.broker_epoch

    async def register(self) -> None:
        """Registers, however long it takes a controller to become active. Raises BrokerRefused.

        An earlier life of this broker may still have a session: that is waited for, since a process that was killed
        cannot end it. Another process that lives under the same id keeps its session, and this one is refused.
        """
        request = RegisterBrokerRequest(
            cluster_id=self._identity.cluster_id,
            broker_id=self._identity.broker_id,
            incarnation_id=self._identity.incarnation_id,
            endpoints=list(self._identity.endpoints),
            rack=self._identity.rack,
            directory_ids=list(self._identity.directory_ids),
            features=list(SUPPORTED_FEATURES.values()),
            may_have_lost_records=self._identity.may_have_lost_records,
        )
        loop = asyncio.get_running_loop()
        refused_since: float | None = None
        while True:
            try:
                result = await self._controllers.call(REGISTER_BROKER, request, REGISTRATION_ATTEMPT_S)
            except NoController as error:
                log.info("registration waiting for controller", reason=str(error))
                continue
            if result.error_code is ErrorCode.NONE:
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
            log.info("registration retried", reason=f"{result.error_code.name}: {result.error_message}")
            await asyncio.sleep(REGISTRATION_PAUSE_S)

    def is_registered_in(self, image: MetadataImage) -> bool:
        """Whether the image holds the registration of this very process: only then may the broker apply it.

        Raises BrokerRefused when another process has registered under this broker's id since. Images hold committed
        records only, and broker epochs never go down, so this process is replaced for good: it must stop, even before
        its next heartbeat says so.
        """
        registration = image.broker(self._identity.broker_id)
        if registration is None or registration.broker_epoch < self.broker_epoch:
            return False
        if registration.broker_epoch > self.broker_epoch:
            raise BrokerRefused(
                f"broker {self._identity.broker_id} is registered under epoch {registration.broker_epoch}, not"
                f" {self.broker_epoch}: another process registered as this broker"
            )
        return True

    async def keep_alive(self, metadata: FollowedMetadata) -> None:
        """Sends heartbeats until cancelled. Raises BrokerRefused when another process took this broker's id.

        While the broker is fenced it beats faster: each beat may be the one that shows it caught up. Not so while an
        operator keeps it fenced; then it beats at once when the metadata says that the operator takes that back.
        """
        while True:
            result = await self._beat(
                metadata.published_index, wants_shutdown=False, deadline_s=self._session_timeout_s / 2
            )
            if result is not None:
                metadata.committed_elsewhere(result.committed_index)
            if not self.is_fenced:
                await asyncio.sleep(self._heartbeat_interval_s)
            elif self._is_kept_fenced(metadata.image):
                await metadata.until(lambda image: not self._is_kept_fenced(image), self._heartbeat_interval_s)
            else:
                await asyncio.sleep(min(self._heartbeat_interval_s, FENCED_HEARTBEAT_INTERVAL_S))

    def _is_kept_fenced(self, image: MetadataImage) -> bool:
        registration = image.broker(self._identity.broker_id)
        return registration is not None and registration.fenced_by_operator

    async def hold_liveness_stream(self) -> None:
        """Holds a call to the active controller open, which the kernel ends with this process. Until cancelled.

        Nothing depends on it but how soon a death is noticed; what is wrong with the broker its heartbeats tell.
        """
        request = LivenessRequest(broker_id=self._identity.broker_id, broker_epoch=self.broker_epoch)
        while True:
            peer = self._controllers.active_peer()
            try:
                async with aclosing(peer.follow(LIVENESS_STREAM, request)) as responses:
                    async for _ in responses:
                        log.info("liveness stream opened", controller=peer.address)
            except (Unreachable, Refusal) as error:
                log.debug("liveness stream failed", controller=peer.address, reason=str(error))
            # Heartbeats find the next active controller.
            await asyncio.sleep(LIVENESS_PAUSE_S)

    async def shut_down(self, metadata_index: Callable[[], int]) -> None:
        """Asks the controller to move this broker's leaderships away; returns when that is done or hopeless."""
        loop = asyncio.get_running_loop()
        began = heard = loop.time()
        while loop.time() - began < CONTROLLED_SHUTDOWN_MAX_S:
            result = await self._beat(
                metadata_index(), wants_shutdown=True, deadline_s=CONTROLLED_SHUTDOWN_SILENCE_MAX_S
            )
            if result is not None:
                heard = loop.time()
                if result.may_stop:
                    log.info("controlled shutdown completed", took_ms=round((loop.time() - began) * 1_000))
                    return
            elif loop.time() - heard >= CONTROLLED_SHUTDOWN_SILENCE_MAX_S:
                break
            await asyncio.sleep(CONTROLLED_SHUTDOWN_INTERVAL_S)
        log.warning("controlled shutdown not completed", reason="no controller moved every leadership in time")

    async def _beat(self, metadata_index: int, *, wants_shutdown: bool, deadline_s: float) -> HeartbeatResult | None:
        """The controller's answer; None when none answered."""
        request = HeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_index=metadata_index,
            wants_shutdown=wants_shutdown,
        )
        try:
            result = await self._controllers.call(HEARTBEAT, request, deadline_s)
        except NoController as error:
            log.warning("heartbeat failed", reason=str(error))
            return None
        if result.error_code in _REPLACED:
            raise BrokerRefused(f"{result.error_message}: another process registered as this broker")
        if result.error_code is not ErrorCode.NONE:
            log.warning("heartbeat refused", reason=f"{result.error_code.name}: {result.error_message}")
            return None
        if result.is_fenced != self.is_fenced:
            self.is_fenced = result.is_fenced
            log.info("broker fenced" if self.is_fenced else "broker unfenced", broker=request.broker_id)
        return result
