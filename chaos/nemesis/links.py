"""Faults of the network: every broker is reached through proxies, by clients and by its followers alike.

Brokers advertise a proxy for each of their listeners, so this covers all traffic of records. Controllers talk to each
other directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from chaos.nemesis.faults import Broken, FaultKind
from chaos.nemesis.targets import Targets
from chaos.toxiproxy import HOST, Link, Server
from kraft.testing import Cluster, NodeProcess

NAMES = ("latency", "bandwidth", "slow-close", "cut", "reset")


def link_names(node_id: int) -> tuple[str, str]:
    """Return the names of the proxies before a broker's GRPC listener and before that for Kafka's protocol."""
    return f"broker-{node_id}", f"broker-{node_id}-kafka"


def advertised(ports: Sequence[int], kafka_ports: Sequence[int], kafka: str) -> dict[int, dict[str, str]]:
    """Return the settings of each broker, by id, with which it advertises these ports of proxies."""
    return {
        node_id: {"advertised.listeners": f"GRPC://{HOST}:{port},{kafka}://{HOST}:{kafka_port}"}
        for node_id, (port, kafka_port) in enumerate(zip(ports, kafka_ports, strict=True), 1)
    }


def proxies(cluster: Cluster, ports: Sequence[int], kafka_ports: Sequence[int]) -> list[Link]:
    """Return the proxies at these ports, two for each broker of the cluster."""
    listeners = zip(cluster.nodes, cluster.kafka_bootstrap_servers.split(","), strict=True)
    return [
        Link(name=name, listen_port=port, upstream=upstream)
        for (node, kafka), to in zip(listeners, zip(ports, kafka_ports, strict=True), strict=True)
        for name, port, upstream in zip(link_names(node.node_id), to, (node.address or "", kafka), strict=True)
    ]


def kinds(targets: Targets, server: Server, chance: Random) -> list[FaultKind]:
    """All of them, by name."""

    def poison(node: NodeProcess, toxic: str, attributes: Mapping[str, int], stream: str = "downstream") -> None:
        for name in link_names(node.node_id):
            server.poison(name, toxic, attributes, stream)

    def latency(node: NodeProcess) -> str:
        delay_ms = chance.randint(50, 500)
        for stream in ("upstream", "downstream"):
            attributes = {"latency": delay_ms, "jitter": delay_ms // 2}
            poison(node, "latency", attributes, stream)
        return f"{delay_ms} ms each way"

    def bandwidth(node: NodeProcess) -> str:
        rate = chance.randint(5, 50)
        for stream in ("upstream", "downstream"):
            poison(node, "bandwidth", {"rate": rate}, stream)
        return f"{rate} KB/s each way"

    def slow_close(node: NodeProcess) -> str:
        poison(node, "slow_close", {"delay": 2_000})
        return "2000 ms"

    def cut(node: NodeProcess) -> str:
        for name in link_names(node.node_id):
            server.cut(name)
        return "closed"

    def reset(node: NodeProcess) -> str:
        poison(node, "reset_peer", {"timeout": 0})
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

    def mend() -> None:
        for name in link_names(node.node_id):
            server.mend(name)

    return Broken(target=f"node {node.node_id}, {detail}", mend=mend)
