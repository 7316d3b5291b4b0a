"""Metrics of clients, which they pushed to this broker, and what became of their pushes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kraft.model.errors import ErrorCode
from kraft.server.client_metrics.received import INFO_LABELS, Family, ReceivedClient, ReceivedMetrics
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.server.metrics.metric import Kind, Metric, counter, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

_JMX: Final = "kafka.server:type=client-metrics,attribute="

INSTANCES: Final = gauge(
    "kafka_server_client_metrics_instance_count",
    "Client instances that have asked which metrics are wanted.",
    jmx=f"{_JMX}instance-count",
)
UNKNOWN: Final = counter(
    "kafka_server_client_metrics_unknown_subscription_request",
    "Pushes for another subscription than the client's.",
    jmx=f"{_JMX}unknown-subscription-request-count",
)
THROTTLED: Final = counter(
    "kafka_server_client_metrics_throttle",
    "Requests that came before the client's interval was over, or while the broker had no room.",
    jmx=f"{_JMX}throttle-count",
)
PUSHES: Final = counter(
    "kafka_server_client_metrics_plugin_export",
    "Pushes that were taken. Kafka counts those that its plug-in took.",
    jmx=f"{_JMX}plugin-export-count",
)
ERRORS: Final = counter(
    "kafka_server_client_metrics_plugin_error",
    "Pushes that could not be read, or were too large.",
    jmx=f"{_JMX}plugin-error-count",
)
CUT: Final = counter(
    "kraft_client_metrics_cut_pushes",
    "Pushes of which something was left out: too many series, or other kinds than gauges and sums.",
)
SERIES: Final = gauge("kraft_client_metrics_series", "Series of clients' metrics: 50,000 at most.")
INFO: Final = gauge("kraft_client_info", "1 for each client whose metrics are served, with what it is.", *INFO_LABELS)

METRICS: Final[tuple[Metric, ...]] = (INSTANCES, UNKNOWN, THROTTLED, PUSHES, ERRORS, CUT, SERIES, INFO)

_METRICS_KEPT: Final = 1_024
_HELP: Final = "Pushed by clients."


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is None:
        return
    metrics = parts.broker.apis.client_metrics
    _collect_counts(metrics, snapshot)
    await collect_received(metrics.received, metrics.now_ms(), snapshot)


def _collect_counts(metrics: ClientMetrics, snapshot: Snapshot) -> None:
    refused = metrics.refused
    snapshot.add(INSTANCES, len(metrics.instances))
    snapshot.add(UNKNOWN, refused.get(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0))
    snapshot.add(THROTTLED, refused.get(ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0))
    snapshot.add(PUSHES, metrics.pushes)
    snapshot.add(ERRORS, sum(refused.get(each, 0) for each in _UNREADABLE))
    snapshot.add(CUT, metrics.received.cut_pushes)
    snapshot.add(SERIES, metrics.received.series_count)


_UNREADABLE: Final = (ErrorCode.INVALID_RECORD, ErrorCode.TELEMETRY_TOO_LARGE)


async def collect_received(received: ReceivedMetrics, now_ms: int, snapshot: Snapshot) -> None:
    # A family may get more labels during a rest; what has them is then left to the next scrape.
    metrics = {family.name: _metric(family) for family in received.families}
    for instance_id in received.ids():
        client = received.alive(instance_id, now_ms)
        if client is not None:
            _collect_client(client, metrics, snapshot)
        if snapshot.has_to_rest:
            await snapshot.rest()


def _collect_client(client: ReceivedClient, metrics: dict[str, Metric], snapshot: Snapshot) -> None:
    snapshot.add_labelled(INFO, 1, client.info)
    for key, series in client.series.items():
        metric = metrics.get(key.name)
        missing = -1 if metric is None else len(metric.labels) - len(series.labels)
        if metric is not None and missing >= 0:
            snapshot.add_labelled(metric, series.value, series.labels + ("",) * missing)


def _metric(family: Family) -> Metric:
    return _metric_of(family.name, family.is_counter, tuple(family.label_names))


@lru_cache(_METRICS_KEPT)
def _metric_of(name: str, is_counter: bool, labels: tuple[str, ...]) -> Metric:
    if is_counter:
        return Metric(name=name.removesuffix("_total"), kind=Kind.COUNTER, help=_HELP, labels=labels)
    return Metric(name=name, kind=Kind.GAUGE, help=_HELP, labels=labels)
