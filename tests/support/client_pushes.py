"""What clients push: metrics in OTLP."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
    MetricsData,
    NumberDataPoint,
)

AddMetric = Callable[[MetricsData], None]


def pushed(*metrics: AddMetric, **resource: str) -> bytes:
    """Return the bytes of a push with these metrics, of a client with these attributes."""
    data = MetricsData()
    first = data.resource_metrics.add()
    first.scope_metrics.add()
    for key, value in resource.items():
        attribute = first.resource.attributes.add()
        attribute.key, attribute.value.string_value = key, value
    for add in metrics:
        add(data)
    return data.SerializeToString()


def gauge(name: str, value: float, **attributes: str) -> AddMetric:
    return lambda data: _fill(_metric(data, name).gauge.data_points.add(), value, attributes)


def total(name: str, value: float, *, delta: bool = True, only_grows: bool = True, **attributes: str) -> AddMetric:
    """A sum; one that is no `delta` counts from its client's beginning."""

    def add(data: MetricsData) -> None:
        added = _metric(data, name).sum
        added.is_monotonic = only_grows
        added.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA if delta else AGGREGATION_TEMPORALITY_CUMULATIVE
        _fill(added.data_points.add(), value, attributes)

    return add


def _metric(data: MetricsData, name: str) -> Metric:
    metric = data.resource_metrics[0].scope_metrics[0].metrics.add()
    metric.name = name
    return metric


def _fill(point: NumberDataPoint, value: float, attributes: dict[str, str]) -> None:
    point.as_double = value
    for key, text in attributes.items():
        attribute = point.attributes.add()
        attribute.key, attribute.value.string_value = key.replace("__", "."), text
