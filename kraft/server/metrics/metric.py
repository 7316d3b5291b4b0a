"""What a metric is: a row of the table that /metrics and docs/metrics.md are made of."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    COUNTER = "counter"
    """Only grows while the process runs. Its series are named with `_total`."""
    GAUGE = "gauge"
    SUMMARY = "summary"
    """A number of events and their sum: the series end with `_count` and `_sum`."""
    HISTOGRAM = "histogram"
    """The same, and for each bound how many events were within it: `_bucket`, with the label `le`."""


class Metric(Struct, frozen=True, kw_only=True):
    name: str
    """Without the suffixes that its kind adds."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    jmx: str = ""
    """Kafka's MBean and attribute with this meaning; empty if Kafka has none."""

    bounds: tuple[float, ...] = ()
    """Those of a histogram, ascending."""

    per_partition: bool = False
    """Only with metrics.per.partition: there is a series for each partition, or for each partition of a group."""

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names of its series."""
        match self.kind:
            case Kind.COUNTER:
                return (f"{self.name}_total",)
            case Kind.GAUGE:
                return (self.name,)
            case Kind.SUMMARY:
                return f"{self.name}_count", f"{self.name}_sum"
            case Kind.HISTOGRAM:
                return f"{self.name}_bucket", f"{self.name}_count", f"{self.name}_sum"


def counter(name: str, help: str, *labels: str, jmx: str = "", per_partition: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=help, labels=labels, jmx=jmx, per_partition=per_partition)


def gauge(name: str, help: str, *labels: str, jmx: str = "", per_partition: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, help=help, labels=labels, jmx=jmx, per_partition=per_partition)


def summary(name: str, help: str, *labels: str, jmx: str = "") -> Metric:
    return Metric(name=name, kind=Kind.SUMMARY, help=help, labels=labels, jmx=jmx)


def histogram(name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=help, labels=labels, bounds=bounds)
