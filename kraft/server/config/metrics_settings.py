"""Keys of the metrics address: where a node answers scrapes and probes, and how much it tells."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.config_keys import boolean, key
from kraft.server.config import readers
from kraft.server.config.values import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    address: Listener | None = key(
        "metrics.address",
        readers.metrics_address,
        "Address for HTTP, as host:port: /metrics for Prometheus, and probes of the node's health. By default the node"
        " does not listen for them. Kraft only.",
        default=None,
    )
    per_partition: bool = key(
        "metrics.per.partition",
        boolean,
        "Whether /metrics has series of each partition that the broker holds and of each group that it coordinates."
        " Kraft only.",
        default=False,
    )
