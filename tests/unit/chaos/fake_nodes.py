"""Nodes that note what is done to them, and a cluster of them whose leaders a test chooses."""

from __future__ import annotations

from typing import cast

from chaos.nemesis.targets import Targets
from kraft.testing import NodeProcess


class FakeNode:
    """Stands where a NodeProcess is expected."""

    def __init__(self, node_id: int, done: list[str]) -> None:
        self.node_id = node_id
        self._done = done

    def __getattr__(self, name: str) -> object:
        if name not in {"kill", "pause", "resume", "start", "terminate"}:
            raise AttributeError(name)
        return lambda: self._done.append(f"{name} {self.node_id}")


class FakeTargets:
    """Node 1 leads, node 2 follows, node 3 is the controller."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._nodes = [FakeNode(node_id, self.done) for node_id in (1, 2, 3)]

    def as_targets(self) -> Targets:
        return cast(Targets, self)

    def leader(self) -> NodeProcess:
        return cast(NodeProcess, self._nodes[0])

    def follower(self) -> NodeProcess:
        return cast(NodeProcess, self._nodes[1])

    def controller(self) -> NodeProcess:
        return cast(NodeProcess, self._nodes[2])

    def anybody(self) -> NodeProcess:
        return self.follower()

    def everybody(self) -> list[NodeProcess]:
        return cast(list[NodeProcess], self._nodes)
