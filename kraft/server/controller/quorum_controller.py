"""The controller of one voter of the metadata quorum: while the voter leads, it decides for the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

import structlog
from msgspec import Struct, field

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.broker_decisions import initialise_cluster
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.records import MetadataRecord
from kraft.metadata.service_times import ServiceTimes
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.quorum.port import Quorum
from kraft.runtime.clock import Clock
from kraft.server.config.components import LeaderElections
from kraft.server.controller.broker_watch import BrokerWatch
from kraft.server.controller.cluster_calls import ClusterCalls
from kraft.server.controller.dialling import NobodyListens, nobody_listens
from kraft.server.controller.leader_balance import LeaderBalance
from kraft.server.controller.quorum_view import QuorumView
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.loop.periods import period_end

log = structlog.get_logger()

LOOK_INTERVAL_S: Final = 0.25

FINISH_S_MAX: Final = 2.0
"""Time for which a controller that stops waits for brokers that stop too."""


class ControllerConfig(Struct, frozen=True, kw_only=True):
    """Settings of the controller."""

    cluster_id: str
    node_id: int
    broker_session_timeout_ms: int
    """`broker.session.timeout.ms`"""

    topic_defaults: TopicDefaultsInEffect
    elections: LeaderElections = field(default_factory=LeaderElections)


class QuorumController:
    def __init__(
        self, config: ControllerConfig, clock: Clock, *, nobody_listens: NobodyListens = nobody_listens
    ) -> None:
        """`nobody_listens` returns whether every one of a broker's addresses refuses connections."""
        self._config = config
        self._clock = clock
        self.topic_defaults = config.topic_defaults
        self.first_records: Sequence[MetadataRecord] = ()
        """What a new cluster gets with its id, from the controller that becomes active first."""
        self._service_times = ServiceTimes()
        self._view = QuorumView(config.cluster_id, clock)
        self._quorum: Quorum | None = None
        self._activated = asyncio.Event()
        self.host = StateMachineHost(self._on_leadership)
        self.watch = BrokerWatch(
            self.host,
            clock,
            session_timeout_ms=config.broker_session_timeout_ms,
            topic_defaults=self.topic_defaults,
            newcomers=self._newcomers,
            nobody_listens=nobody_listens,
        )
        self.cluster_calls = ClusterCalls(
            config.cluster_id,
            self.host,
            self.watch,
            self._view,
            topic_defaults=self.topic_defaults,
            newcomers=self._newcomers,
        )
        self._leader_balance = LeaderBalance(
            self.host, clock, config.elections, topic_defaults=self.topic_defaults, newcomers=self._newcomers
        )

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self.host.attach(quorum)

    async def run(self) -> None:
        """Decide, and watch the brokers' sessions. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.host.run())
            tasks.create_task(self._check_regularly())
            tasks.create_task(self.watch.run())
            tasks.create_task(self._leader_balance.run())

    # --- leadership ---

    def _on_leadership(self, active: bool) -> None:
        log.info("controller activated" if active else "controller deactivated", node=self._config.node_id)
        self._view.reset()
        self.watch.leadership_changed(active)
        if active:
            self._activated.set()
            self._leader_balance.restart()
        else:
            self._activated.clear()

    async def _check_regularly(self) -> None:
        while True:
            await self._activated.wait()
            assert self._quorum is not None
            self._view.update(self._quorum.describe(), self.host.committed_index, self.host.image.brokers)
            await self._initialise_and_fence()
            await period_end(LOOK_INTERVAL_S)

    async def _initialise_and_fence(self) -> None:
        try:
            if not self.host.image.cluster_id:
                first = self.first_records
                await self.host.submit(lambda image: initialise_cluster(image, self._config.cluster_id, first))
            await self.watch.fence_expired()
        except Refusal as refusal:
            log.info("leadership lost before expired brokers were fenced", reason=refusal.message)

    async def finish_shutdowns(self) -> None:
        """Wait while this controller is active and a broker is in its controlled shutdown, at most FINISH_S_MAX."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S_MAX):
                while self.host.active and any(map(_is_shutting_down, self.host.image.brokers.values())):
                    await self.host.progress(LOOK_INTERVAL_S)

    def _newcomers(self) -> Collection[BrokerId]:
        now_ms = self._clock.monotonic_ms()
        self._service_times.note(self.host.image, now_ms)
        return self._service_times.newcomers(now_ms)

    # --- requests from operators ---

    async def describe_quorum(self, request: QuorumDescriptionRequest) -> QuorumDescription:
        assert self._quorum is not None
        status = self._quorum.describe()
        if request.from_any_voter and not self.host.active:
            return self._view.describe_without_leader(status)
        self.host.check_active()
        if status.leader_id != self._config.node_id:
            raise Refusal(ErrorCode.NOT_CONTROLLER, "this controller has just lost its leadership")
        return self._view.describe(status, self.host.committed_index, self.host.image.brokers)


def _is_shutting_down(broker: BrokerRegistration) -> bool:
    return broker.in_controlled_shutdown and not broker.fenced
