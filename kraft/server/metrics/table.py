"""All metrics of a node, and what collects their values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from kraft.server.metrics import (
    client_metrics,
    controller_metrics,
    coordinator_metrics,
    listener_metrics,
    memory_metrics,
    process_metrics,
    replica_metrics,
    topic_metrics,
    upkeep_metrics,
)
from kraft.server.metrics.metric import Metric
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Collect, Snapshot


class Section(NamedTuple):
    """Metrics of one part of a node."""

    title: str
    metrics: tuple[Metric, ...]
    collect: Callable[[NodeParts, Snapshot], Awaitable[None]]


SECTIONS: Final = (
    Section("Replicas", replica_metrics.METRICS, replica_metrics.collect),
    Section("Upkeep of logs, and throttles", upkeep_metrics.METRICS, upkeep_metrics.collect),
    Section("Topics and partitions", topic_metrics.METRICS, topic_metrics.collect),
    Section("Controller and quorum", controller_metrics.METRICS, controller_metrics.collect),
    Section("Clients and requests", listener_metrics.METRICS, listener_metrics.collect),
    Section("Metrics that clients push", client_metrics.METRICS, client_metrics.collect),
    Section("Budgets of memory", memory_metrics.METRICS, memory_metrics.collect),
    Section("Groups and transactions", coordinator_metrics.METRICS, coordinator_metrics.collect),
    Section("Process and event loop", process_metrics.METRICS, process_metrics.collect),
)


def collecting(parts: NodeParts) -> list[Collect]:
    return [partial(section.collect, parts) for section in SECTIONS]
