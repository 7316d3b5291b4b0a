"""Faults of processes: killed, paused, stopped in order, and started again."""

from __future__ import annotations

from collections.abc import Callable

from chaos.nemesis.faults import Broken, FaultKind
from chaos.nemesis.targets import Targets
from kraft.testing import NodeProcess

NAMES = (
    "kill-leader",
    "kill-follower",
    "kill-controller",
    "kill-random",
    "kill-all",
    "pause",
    "pause-controller",
    "restart",
)


def kinds(targets: Targets) -> list[FaultKind]:
    """All of them, by name."""
    return [
        _fault("kill-leader", "kill -9 the leader of a partition", _kill, targets.leader),
        _fault("kill-follower", "kill -9 an in-sync follower", _kill, targets.follower),
        _fault("kill-controller", "kill -9 the active controller", _kill, targets.controller),
        _fault("kill-random", "kill -9 any node", _kill, targets.anybody),
        FaultKind(
            name="kill-all", explanation="kill -9 every node at once", strike=lambda: _kill_all(targets.everybody())
        ),
        _fault("pause", "SIGSTOP the leader of a partition, later SIGCONT", _pause, targets.leader),
        _fault("pause-controller", "SIGSTOP the active controller, later SIGCONT", _pause, targets.controller),
        _fault("restart", "stop the leader of a partition in order, and start it again", _restart, targets.leader),
    ]


def _fault(
    name: str, explanation: str, strike: Callable[[NodeProcess], Broken], target: Callable[[], NodeProcess]
) -> FaultKind:
    return FaultKind(name=name, explanation=explanation, strike=lambda: strike(target()))


def _kill(node: NodeProcess) -> Broken:
    node.kill()
    return Broken(target=f"node {node.node_id}", mend=node.start)


def _kill_all(nodes: list[NodeProcess]) -> Broken:
    for node in nodes:
        node.kill()

    def start_all() -> None:
        for node in nodes:
            node.start()

    return Broken(target=f"{len(nodes)} nodes", mend=start_all)


def _pause(node: NodeProcess) -> Broken:
    node.pause()
    return Broken(target=f"node {node.node_id}", mend=node.resume)


def _restart(node: NodeProcess) -> Broken:
    node.terminate()
    return Broken(target=f"node {node.node_id}", mend=node.start)
