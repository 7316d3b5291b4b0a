"""Elections that the active controller holds regularly on its own.

Preferred leaders are elected again if too many partitions moved away from them. Leaderless partitions get an unclean
leader if their topic allows it. Eligible leader replicas that are no longer needed are cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import structlog

from kraft.log.topic_config import TopicConfig
from kraft.metadata import election_decisions
from kraft.metadata.decision import Decide, Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.service_times import SETTLED_AFTER_MS, Newcomers
from kraft.model.errors import Refusal
from kraft.runtime.clock import Clock
from kraft.server.config.components import LeaderElections
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.loop.periods import period_end

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
        newcomers: Newcomers,
    ) -> None:
        self._host = host
        self._clock = clock
        self._config = config
        self._topic_defaults = topic_defaults
        self._newcomers = newcomers
        self._balance_at_ms = self._unclean_at_ms = 0
        self._cleared_for_configs: object = None
        self.restart()

    def restart(self) -> None:
        """Restart the intervals: this node became the active controller."""
        now_ms = self._clock.monotonic_ms()
        self._balance_at_ms = now_ms + self._config.imbalance_check_interval_s * 1_000
        self._unclean_at_ms = now_ms + self._config.unclean_interval_ms
        # This node's configuration file may set another min.insync.replicas than that of the previous controller.
        self._cleared_for_configs = None

    async def run(self) -> None:
        """Hold elections when they are due. Runs until cancelled."""
        while True:
            await period_end(LOOK_INTERVAL_S)
            # A controller that becomes the active one has to know them.
            self._newcomers()
            if self._host.active:
                await self._hold_due()

    async def _hold_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        try:
            if self._config.rebalance_enabled and now_ms >= self._balance_at_ms:
                self._balance_at_ms = now_ms + self._config.imbalance_check_interval_s * 1_000
                if self._newcomers():
                    # Their leaderships are due once clients are back, not an interval later.
                    self._balance_at_ms = min(self._balance_at_ms, now_ms + SETTLED_AFTER_MS)
                await self._submit_if_any(self._elect_preferred, "preferred leaders elected")
            if now_ms >= self._unclean_at_ms:
                self._unclean_at_ms = now_ms + self._config.unclean_interval_ms
                await self._submit_if_any(self._elect_unclean, "unclean leaders elected", logging.WARNING)
            if self._host.image.broker_configs is not self._cleared_for_configs:
                await self._clear_after_config_change()
        except Refusal as refusal:
            log.info("leadership lost before leaders were elected", reason=refusal.message)

    async def _submit_if_any(self, decide: Decide[int], event: str, level: int = logging.INFO) -> None:
        # Decide once without submitting, so that nothing is committed if there is nothing to do.
        if not decide(self._host.image).records:
            return
        changed = await self._host.submit(decide)
        log.log(level, event, partitions=changed)

    async def _clear_after_config_change(self) -> None:
        """Clear eligible replicas after a change of broker configs: a lower min.insync.replicas lets leaders commit.

        A change of a topic's own configs clears them in its own decision.
        """
        configs = self._host.image.broker_configs
        await self._submit_if_any(self._clear_eligible_replicas, "eligible leader replicas cleared")
        if not self._clear_eligible_replicas(self._host.image).records:
            self._cleared_for_configs = configs

    def _clear_eligible_replicas(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.clear_stale_elrs(image, defaults=self._topic_defaults(image))

    def _elect_preferred(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.balance_leaders(
            image,
            imbalance_percentage=self._config.imbalance_per_broker_percentage,
            defaults=self._topic_defaults(image),
            newcomers=self._newcomers(),
        )

    def _elect_unclean(self, image: MetadataImage) -> Decision[int]:
        return election_decisions.elect_unclean_leaders(image, defaults=self._topic_defaults(image))
