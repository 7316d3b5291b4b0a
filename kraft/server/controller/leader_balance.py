"""Elections that the active controller holds now and then, unasked.

Preferred leaders get back what moved away from them, if it is much; where nobody leads and the topic may lose records
for it, a replica that is not in sync leads; and eligible replicas are given up that nothing is waited for any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from kraft.metadata import election_decisions
from kraft.metadata.configs import TopicConfig
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal
from kraft.runtime.clock import Clock
from kraft.server.config.components import LeaderElections
from kraft.server.controller.state_machine_host import StateMachineHost

log = structlog.get_logger()

LOOK_INTERVAL_S: Final = 0.25


class LeaderBalance:
    """The intervals begin anew with each term: a new controller does not move leaders at once."""

    def __init__(
        self,
        host: StateMachineHost,
        clock: Clock,
        config: LeaderElections,
        *,
        topic_defaults: Callable[[MetadataImage], TopicConfig],
    ) -> None:
        self._host = host
        self._clock = clock
        self._config = config
        self._topic_defaults = topic_defaults
        self._balance_at_ms = self._unclean_at_ms = 0
        self._settled_under: object = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """This node became the active controller."""
        now_ms = self._clock.monotonic_ms()
        self._balance_at_ms = now_ms + self._config.imbalance_check_interval_s * 1_000
        self._unclean_at_ms = now_ms + self._config.unclean_interval_ms
        # Another file may be in effect now, with another min.insync.replicas.
        self._settled_under = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            if self._host.active:
                await self._look()

    async def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        try:
            if self._config.rebalance_enabled and now_ms >= self._balance_at_ms:
                self._balance_at_ms = now_ms + self._config.imbalance_check_interval_s * 1_000
                await self._hold(self._balanced, "preferred leaders elected")
            if now_ms >= self._unclean_at_ms:
                self._unclean_at_ms = now_ms + self._config.unclean_interval_ms
                await self._hold(self._led_uncleanly, "unclean leaders elected")
            if self._host.image.broker_configs is not self._settled_under:
                await self._settle()
        except Refusal as refusal:
            log.info("leadership lost before leaders were elected", reason=refusal.message)

    async def _hold(self, decide: Callable[[MetadataImage], Decision[int]], event: str) -> None:
        # Looked at first, so that a cluster in which there is nothing to do is not asked to commit nothing.
        if not decide(self._host.image).records:
            return
        elected = await self._host.submit(decide)
        log.info(event, partitions=elected)

    async def _settle(self) -> None:
        """A lowered min.insync.replicas lets leaders commit that waited; what is set on a topic does so by itself."""
        configs = self._host.image.broker_configs
        await self._hold(self._settled, "eligible leader replicas cleared")
        if not self._settled(self._host.image).records:
            self._settled_under = configs

    def _settled(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.clear_stale_elrs(image, defaults=self._topic_defaults(image))

    def _balanced(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.balance_leaders(
            image,
            imbalance_percentage=self._config.imbalance_per_broker_percentage,
            defaults=self._topic_defaults(image),
        )

    def _led_uncleanly(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.elect_unclean_leaders(image, defaults=self._topic_defaults(image))
