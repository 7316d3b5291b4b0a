"""Faults of the network: every broker is reached through a proxy, by clients and by its followers alike.

Brokers advertise their proxies, so this covers all traffic of records. Controllers talk to each other directly.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from chaos.nemesis.faults import Broken, FaultKind
from chaos.nemesis.targets import Targets
from chaos.toxiproxy import Server
from kraft.testing import NodeProcess

NAMES = ("latency", "bandwidth", "slow-close", "cut", "reset")


def link_name(node_id: int) -> str:
    return f"broker-{node_id}"


def kinds(targets: Targets, server: Server, chance: Random) -> list[FaultKind]:
    """All of them, by name."""

    def latency(node: NodeProcess) -> str:
        delay_ms = chance.randint(50, 500)
        for stream in ("upstream", "downstream"):
            attributes = {"latency": delay_ms, "jitter": delay_ms // 2}
            server.poison(link_name(node.node_id), "latency", attributes, stream)
        return f"{delay_ms} ms each way"

    def bandwidth(node: NodeProcess) -> str:
        rate = chance.randint(5, 50)
        for stream in ("upstream", "downstream"):
            server.poison(link_name(node.node_id), "bandwidth", {"rate": rate}, stream)
        return f"{rate} KB/s each way"

    def slow_close(node: NodeProcess) -> str:
        server.poison(link_name(node.node_id), "slow_close", {"delay": 2_000})
        return "2000 ms"

    def cut(node: NodeProcess) -> str:
        server.cut(link_name(node.node_id))
        return "closed"

    def reset(node: NodeProcess) -> str:
        server.poison(link_name(node.node_id), "reset_peer", {"timeout": 0})
        return "reset as soon as something is said"

    def kind(name: str, explanation: str, strike: Callable[[NodeProcess], str]) -> FaultKind:
        return FaultKind(name=name, explanation=explanation, strike=lambda: _strike(targets, server, strike))

    return [
        kind("latency", "delay with jitter on the way to and from a leader", latency),
        kind("bandwidth", "a narrow way to and from a leader", bandwidth),
        kind("slow-close", "connections of a leader take long to close", slow_close),
        kind("cut", "no way to a leader, which itself reaches everybody", cut),
        kind("reset", "every connection to a leader is reset", reset),
    ]


def _strike(targets: Targets, server: Server, strike: Callable[[NodeProcess], str]) -> Broken:
    node = targets.leader()
    detail = strike(node)
    return Broken(target=f"node {node.node_id}, {detail}", mend=lambda: server.mend(link_name(node.node_id)))
