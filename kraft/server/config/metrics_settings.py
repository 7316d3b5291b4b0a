"""Keys of the metrics address: where a node answers scrapes and probes, and how much it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.model.config_keys import boolean, key, whole_number
from kraft.server.config import readers
from kraft.server.config.values import Listener

TELEMETRY_BYTES_MAX: Final = 2 << 20
"""Bytes of metrics that hold others up for at most 40 ms while a thread decodes them, whatever they are."""


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
    telemetry_bytes_max: int = key(
        "telemetry.max.bytes",
        whole_number(1, TELEMETRY_BYTES_MAX),
        "Size of the metrics that a client may push at once, as they are sent and decompressed.",
        default=1 << 20,
    )
