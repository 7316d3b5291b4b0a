"""Metrics in OTLP, the protocol of OpenTelemetry, as Kafka's clients push them.

Only numbers are read: gauges and sums, which is all that Kafka's clients have. To walk over a push takes milliseconds,
so that is done one point at a time, in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import DecodeError
from msgspec import Struct
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
    MetricsData,
    NumberDataPoint,
)

ATTRIBUTES_MAX: Final = 8
"""Attributes of a data point: those of Kafka's clients have three at most."""

RESOURCE_ATTRIBUTES_MAX: Final = 32

Attributes = tuple[tuple[str, str], ...]


class InvalidOtlp(ValueError):
    """The bytes are no metrics in OTLP."""


class Point(Struct, frozen=True, gc=False):
    """A data point: a number of a metric, for what its attributes name."""

    name: str
    attributes: Attributes
    value: float
    only_grows: bool
    """It is a sum of what cannot be negative."""

    is_delta: bool
    """The value is to be added to what was pushed before."""


class OtlpMetrics:
    """The metrics of one push."""

    def __init__(self, data: bytes) -> None:
        """Raises InvalidOtlp."""
        self._metrics: Final = MetricsData()
        try:
            self._metrics.ParseFromString(data)
        except DecodeError as error:
            raise InvalidOtlp(str(error)) from None

    def resource(self) -> dict[str, str]:
        """Return the attributes of the first resource: facts of the client."""
        for first in self._metrics.resource_metrics:
            attributes = first.resource.attributes[:RESOURCE_ATTRIBUTES_MAX]
            return {each.key: text for each in attributes if (text := _text(each.value)) is not None}
        return {}

    def points(self) -> Iterator[Point | None]:
        """Yield the data points that can be read, and None for all else that takes time, so that others get theirs."""
        for resource in self._metrics.resource_metrics:
            if not resource.scope_metrics:
                yield None
            for scope in resource.scope_metrics:
                if not scope.metrics:
                    yield None
                for metric in scope.metrics:
                    yield from _points(metric)


def _points(metric: Metric) -> Iterator[Point | None]:
    match metric.WhichOneof("data"):
        case "gauge":
            yield from _numbers(metric.name, metric.gauge.data_points, only_grows=False, is_delta=False)
        case "sum":
            is_delta = metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
            only_grows = metric.sum.is_monotonic
            yield from _numbers(metric.name, metric.sum.data_points, only_grows=only_grows, is_delta=is_delta)
        case _:
            yield None


def _numbers(
    name: str, points: Iterable[NumberDataPoint], *, only_grows: bool, is_delta: bool
) -> Iterator[Point | None]:
    for point in points:
        value = _number(point)
        attributes = None if value is None else _attributes(point.attributes)
        if value is None or attributes is None:
            yield None
        else:
            yield Point(name, attributes, value, only_grows, is_delta)


def _number(point: NumberDataPoint) -> float | None:
    match point.WhichOneof("value"):
        case "as_double":
            return point.as_double
        case "as_int":
            return float(point.as_int)
        case _:
            return None


def _attributes(attributes: Iterable[KeyValue]) -> Attributes | None:
    """Return the attributes; None if there are too many, or one is a list."""
    found: list[tuple[str, str]] = []
    for each in attributes:
        text = _text(each.value)
        if text is None or len(found) == ATTRIBUTES_MAX:
            return None
        found.append((each.key, text))
    return tuple(found)


def _text(value: AnyValue) -> str | None:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return repr(value.double_value)
        case _:
            return None
