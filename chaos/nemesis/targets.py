"""Current leaders and followers, from the cluster's own metadata."""

from __future__ import annotations

import time
from random import Random
from typing import Final

from chaos.nemesis.faults import NothingToBreak
from kraft.client import Admin, KraftError, Unreachable
from kraft.testing import Cluster, NodeProcess

_ANSWER_DEADLINE_S: Final = 10.0
_ATTEMPT_MS: Final = 2_000
_PAUSE_S: Final = 0.1


class Targets:
    """Picks nodes by what they are. Nodes are asked directly, not through links that may be cut."""

    def __init__(self, cluster: Cluster, topic: str, chance: Random) -> None:
        self._cluster = cluster
        self._topic = topic
        self._chance = chance

    def leader(self) -> NodeProcess:
        """Return the leader of some partition."""
        return self._cluster.node(self._partition()[0])

    def follower(self) -> NodeProcess:
        """Return an in-sync follower of some partition."""
        leader, isr = self._partition()
        followers = sorted(set(isr) - {leader})
        if not followers:
            raise NothingToBreak("the leader is alone in sync")
        return self._cluster.node(self._chance.choice(followers))

    def controller(self) -> NodeProcess:
        """The active one."""
        deadline = time.monotonic() + _ANSWER_DEADLINE_S
        while time.monotonic() < deadline:
            try:
                with Admin(self._running_addresses(), **self._cluster.client_settings) as admin:
                    leader_id = admin.describe_quorum(timeout_ms=_ATTEMPT_MS).leader_id
                if leader_id >= 0 and self._cluster.node(leader_id).is_running:
                    return self._cluster.node(leader_id)
            except (KraftError, Unreachable):
                pass  # Asked again below: an election may be on.
            time.sleep(_PAUSE_S)
        raise NothingToBreak("the quorum has no leader")

    def anybody(self) -> NodeProcess:
        return self._cluster.node(self._chance.choice(self._running_ids()))

    def everybody(self) -> list[NodeProcess]:
        return [self._cluster.node(node_id) for node_id in self._running_ids()]

    def _partition(self) -> tuple[int, list[int]]:
        """Leader and in-sync replicas of some partition whose leader runs."""
        deadline = time.monotonic() + _ANSWER_DEADLINE_S
        running = set(self._running_ids())
        while time.monotonic() < deadline:
            try:
                with Admin(self._running_addresses(), **self._cluster.client_settings) as admin:
                    described = admin.describe_topics([self._topic], timeout_ms=_ATTEMPT_MS)
                partitions = [each for each in described[0].metadata.partitions if each.leader_id in running]
                if partitions:
                    chosen = self._chance.choice(partitions)
                    return chosen.leader_id, list(chosen.isr_nodes)
            except (KraftError, Unreachable):
                pass  # Asked again below: the next node may know.
            time.sleep(_PAUSE_S)
        raise NothingToBreak("no partition has a leader")

    def _running_ids(self) -> list[int]:
        return [node.node_id for node in self._cluster.nodes if node.is_running]

    def _running_addresses(self) -> str:
        addresses = [node.address for node in self._cluster.nodes if node.is_running and node.address is not None]
        # Their own addresses, since the one that is asked first may be the one that hangs.
        self._chance.shuffle(addresses)
        return ",".join(addresses)
