"""A broker's life in the eyes of the active controller: it registers, keeps its session alive, and takes its leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from kraft.metadata.commands import HeartbeatRequest, HeartbeatResult, RegisterBrokerRequest
from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.metadata.records import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId
from kraft.server.controller_client import ControllerClient, NoController

log = structlog.get_logger()

REGISTRATION_ATTEMPT_S: Final = 5.0
REGISTRATION_PAUSE_S: Final = 0.1
CONTROLLED_SHUTDOWN_MAX_S: Final = 10.0
CONTROLLED_SHUTDOWN_INTERVAL_S: Final = 0.05
CONTROLLED_SHUTDOWN_SILENCE_MAX_S: Final = 2.0

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
    """Who registers. The incarnation is drawn anew by each process."""

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str
    directory_ids: tuple[DirectoryId, ...]


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
        self.broker_epoch = BrokerEpoch(-1)
        self.is_fenced = True

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
        )
        loop = asyncio.get_running_loop()
        refused_since: float | None = None
        while True:
            try:
                result = await self._controllers.call(
                    lambda peer, timeout_s: peer.register_broker(request, timeout_s), REGISTRATION_ATTEMPT_S
                )
            except NoController as error:
                log.info("waiting for a controller to register with", reason=str(error))
                continue
            if result.error_code is ErrorCode.NONE:
                self.broker_epoch = result.broker_epoch
                log.info("registered", broker=self._identity.broker_id, broker_epoch=self.broker_epoch)
                return
            if result.error_code in _FATAL_AT_REGISTRATION:
                raise BrokerRefused(result.error_message)
            if result.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                refused_since = refused_since or loop.time()
                if loop.time() - refused_since > 2 * self._session_timeout_s:
                    raise BrokerRefused(result.error_message)
            log.info("registration is tried again", reason=f"{result.error_code.name}: {result.error_message}")
            await asyncio.sleep(REGISTRATION_PAUSE_S)

    async def keep_alive(self, metadata_index: Callable[[], int], committed_elsewhere: Callable[[int], None]) -> None:
        """Sends heartbeats until cancelled. Raises BrokerRefused when another process took this broker's id.

        While the broker is fenced it beats faster: each beat may be the one that shows it caught up.
        """
        while True:
            result = await self._beat(metadata_index(), wants_shutdown=False)
            if result is not None:
                committed_elsewhere(result.committed_index)
            await asyncio.sleep(min(self._heartbeat_interval_s, 0.05) if self.is_fenced else self._heartbeat_interval_s)

    async def shut_down(self, metadata_index: Callable[[], int]) -> None:
        """Asks the controller to move this broker's leaderships away; returns when that is done or hopeless."""
        loop = asyncio.get_running_loop()
        began = heard = loop.time()
        while loop.time() - began < CONTROLLED_SHUTDOWN_MAX_S:
            result = await self._beat(metadata_index(), wants_shutdown=True)
            if result is not None:
                heard = loop.time()
                if result.may_stop:
                    log.info("leaderships are handed on", took_ms=round((loop.time() - began) * 1_000))
                    return
            elif loop.time() - heard > CONTROLLED_SHUTDOWN_SILENCE_MAX_S:
                break
            await asyncio.sleep(CONTROLLED_SHUTDOWN_INTERVAL_S)
        log.warning("stopping without having handed on every leadership: no controller saw to it in time")

    async def _beat(self, metadata_index: int, *, wants_shutdown: bool) -> HeartbeatResult | None:
        """The controller's answer; None when none answered."""
        request = HeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_index=metadata_index,
            wants_shutdown=wants_shutdown,
        )
        try:
            result = await self._controllers.call(
                lambda peer, timeout_s: peer.heartbeat(request, timeout_s), self._session_timeout_s / 2
            )
        except NoController as error:
            log.warning("no heartbeat", reason=str(error))
            return None
        if result.error_code in _REPLACED:
            raise BrokerRefused(f"{result.error_message}: another process registered as this broker")
        if result.error_code is not ErrorCode.NONE:
            log.warning("heartbeat is refused", reason=f"{result.error_code.name}: {result.error_message}")
            return None
        if result.is_fenced != self.is_fenced:
            self.is_fenced = result.is_fenced
            log.info("broker is fenced" if self.is_fenced else "broker is in service", broker=request.broker_id)
        return result
