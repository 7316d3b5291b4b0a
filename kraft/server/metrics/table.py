"""All metrics of a node, and what collects their values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from kraft.server.metrics import process_metrics, replica_metrics
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
    Section("Process", process_metrics.METRICS, process_metrics.collect),
)


def collecting(parts: NodeParts) -> list[Collect]:
    return [partial(section.collect, parts) for section in SECTIONS]
