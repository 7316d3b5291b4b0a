"""A transaction coordinator that fails at random: what the simulated worlds around it have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Any

from kraft.coordinator.shard import DecisionContext
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.metadata.image import MetadataImage
from tests.simulation.transactions_host import Host, compacted, replayed


class FaultyCoordinator(ABC):
    """Its heirs set image, shard, host and network."""

    image: MetadataImage
    shard: TransactionShard
    host: Host
    network: list[Any]

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.now_ms = 1_000_000
        self.high_watermark = 0
        self.crashes = 0
        self.faults = True

    def context(self) -> DecisionContext:
        return DecisionContext(now_ms=self.now_ms, image=self.image, random_id="id")

    def has_state_of_log(self) -> bool:
        """Return whether the state is the replay of the log, also of a compacted one, once everything is committed."""
        host = self.host
        if not host.hosted.is_settled or host.hosted.wants_flush:
            return True
        return host.hosted.latest == replayed(host.log) == replayed(compacted(host.log)) == host.hosted.committed

    def end_faults(self, step_ms: int, steps: int) -> None:
        """Let everything that is under way come to its end."""
        self.faults = False
        for _ in range(steps):
            self.host.load()
            self.send_markers()
            while self.network:
                self.deliver()
            self.host.flush()
            self.host.append()
            self.commit_all()
            self.now_ms += step_ms
            self.host.end_timers(self.now_ms)
            self.check_state()

    @abstractmethod
    def send_markers(self) -> None:
        """Send some of the markers that are pending."""

    @abstractmethod
    def deliver(self) -> None:
        """Deliver one message of the network."""

    @abstractmethod
    def check_state(self) -> None:
        """Raise a violation unless the state is the log."""

    # --- events ------------------------------------------------------------------------------------------------------

    def works(self) -> None:
        """Let the coordinator do what it does at once if nothing is in its way."""
        self.host.load()
        self.host.flush()
        if self.chance.random() < 0.5:
            self.append()
            self.commit_all()

    def append(self) -> None:
        if self.faults and self.chance.random() < 0.04:
            self.host.fail_append()
        else:
            self.host.append()

    def commit(self) -> None:
        self.high_watermark = self.chance.randint(self.high_watermark, len(self.host.log))
        self.host.commit(self.high_watermark)

    def commit_all(self) -> None:
        self.high_watermark = len(self.host.log)
        self.host.commit(self.high_watermark)

    def crash(self) -> None:
        """Let another broker take over: what was not committed stays, or is lost."""
        if self.chance.random() < 0.3:
            self.host.append()
        kept = self.chance.randint(self.high_watermark, len(self.host.log))
        log = self.host.log[:kept]
        self.crashes += 1
        self.host = Host(
            self.shard, self.context, self.host.leader_epoch + 1, compacted(log) if self.chance.random() < 0.3 else log
        )
        self.commit_all()

    def time_passes(self) -> None:
        self.now_ms += self.chance.choice([0, 1, 10, 100, 600])
        self.host.end_timers(self.now_ms)
