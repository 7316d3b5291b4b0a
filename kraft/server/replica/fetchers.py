"""Keeps one fetcher for each broker that leads partitions which this broker follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kraft.model.callbacks import Fatal
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.server.loop import background
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.partitions import Partitions

MakeFetcher = Callable[[BrokerId], ReplicaFetcher]
"""Makes the fetcher from a leader."""


class ReplicaFetchers:
    def __init__(self, partitions: Partitions, make_fetcher: MakeFetcher, fatal: Fatal) -> None:
        self._partitions = partitions
        self._make_fetcher = make_fetcher
        self._fatal = fatal
        self._running: dict[BrokerId, tuple[ReplicaFetcher, asyncio.Task[None]]] = {}

    def update(self) -> None:
        """Start and stop fetchers as the leaders of the followed partitions require; each finds its partitions."""
        leaders = {partition.followed for partition in self._partitions} - {NO_BROKER}
        for gone in self._running.keys() - leaders:
            _, task = self._running.pop(gone)
            task.cancel()
        for leader_id in leaders:
            if leader_id in self._running:
                self._running[leader_id][0].assignment_changed()
            else:
                fetcher = self._make_fetcher(leader_id)
                task = background.start(fetcher.run(), f"fetcher from broker {leader_id}", self._fatal)
                self._running[leader_id] = fetcher, task

    def look_at_held_back(self) -> None:
        """Look at the partitions that wait for the throttle again: it, or what it is for, may have changed."""
        for fetcher, _ in self._running.values():
            fetcher.look_at_held_back()

    def look_at_unlimited(self) -> None:
        """Look at those of them again that are in the ISR now."""
        for fetcher, _ in self._running.values():
            fetcher.look_at_unlimited()

    def silences_s(self) -> dict[BrokerId, float]:
        """Return for how long each leader has not answered; 0 if nothing is wrong."""
        return {leader_id: fetcher.silence.seconds for leader_id, (fetcher, _) in self._running.items()}

    async def close(self) -> None:
        """End all fetching."""
        await background.cancelled(task for _, task in self._running.values())
