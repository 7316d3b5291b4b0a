"""Elections that the active controller holds regularly on its own.

Preferred leaders are elected again if too many partitions moved away from them. Leaderless partitions get an unclean
leader if their topic allows it. Eligible leader replicas that are no longer needed are cleared.
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
    """Holds the regular elections. Intervals restart with each term: a new controller does not move leaders at once."""

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
        self.restart()

    def restart(self) -> None:
        """Restart the intervals: this node became the active controller."""
        now_ms = self._clock.monotonic_ms()
        self._balance_at_ms = now_ms + self._config.imbalance_check_interval_s * 1_000
        self._unclean_at_ms = now_ms + self._config.unclean_interval_ms
        # This node's configuration file may set another min.insync.replicas than that of the previous controller.
        self._settled_under = None

    async def run(self) -> None:
        """Hold elections when they are due. Runs until cancelled."""
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
        # Decide once without submitting, so that nothing is committed if there is nothing to do.
        if not decide(self._host.image).records:
            return
        elected = await self._host.submit(decide)
        log.info(event, partitions=elected)

    async def _settle(self) -> None:
        """Clear eligible replicas after a change of broker configs: a lower min.insync.replicas lets leaders commit.

        A change of a topic's own configs clears them in its own decision.
        """
        configs = self._host.image.broker_configs
        await self._hold(self._settled, "eligible leader replicas cleared")
        if not self._settled(self._host.image).records:
            self._settled_under = configs

    def _settled(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.settle_eligible_replicas(image, defaults=self._topic_defaults(image))

    def _balanced(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.balance_leaders(
            image,
            imbalance_percentage=self._config.imbalance_per_broker_percentage,
            defaults=self._topic_defaults(image),
        )

    def _led_uncleanly(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.elect_unclean_leaders(image, defaults=self._topic_defaults(image))
