"""What a client pushed: decompressed and read in a thread, within limits.

A thread that computes without a pause lets the event loop wait for 5 ms at each of its events, so this one pauses.
"""

from __future__ import annotations

import time
from math import isfinite, isnan
from typing import Final

from msgspec import Struct

from kraft.log.format.compression import Codec, decompress
from kraft.model.clients import TEXT_CHARACTERS_MAX
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.rpc.otlp import InvalidOtlp, OtlpMetrics, Point
from kraft.server.client_metrics.names import label_name, series_name

SERIES_MAX: Final = 1_000
"""Series of one push that are read: a producer or consumer with a hundred partitions has some 500."""

STEPS_MAX: Final = 20_000
"""Data points that are looked at in one push; further ones are left out."""

COMPUTED_S_MAX: Final = 0.001
PAUSE_S: Final = 0.0005
"""The thread that reads a push pauses after so much work: otherwise it keeps the interpreter from the event loop."""

COUNTER_SUFFIX: Final = "_total"

Labels = tuple[tuple[str, str], ...]


class SeriesKey(Struct, frozen=True, gc=False):
    name: str
    """As Prometheus has it: a counter ends with _total."""

    is_counter: bool
    labels: Labels


class Payload(Struct, frozen=True, kw_only=True):
    """The values of one push."""

    resource: dict[str, str]
    added: dict[SeriesKey, float]
    """Values to add to those before."""

    set: dict[SeriesKey, float]
    """Values that take the place of those before."""

    is_cut: bool
    """Something was left out."""


def read(codec: int, data: bytes, bytes_max: int) -> Payload:
    """Return what was pushed. Raises Refusal INVALID_RECORD or TELEMETRY_TOO_LARGE."""
    metrics = _decoded(_decompressed(Codec(codec), data, bytes_max))
    reading = _Reading()
    began_s = time.perf_counter()
    for step, point in enumerate(metrics.points()):
        if step == STEPS_MAX:
            reading.is_cut = True
            break
        reading.take(point)
        if time.perf_counter() - began_s > COMPUTED_S_MAX:
            time.sleep(PAUSE_S)
            began_s = time.perf_counter()
    return Payload(resource=metrics.resource(), added=reading.added, set=reading.set, is_cut=reading.is_cut)


def _decompressed(codec: Codec, data: bytes, bytes_max: int) -> bytes:
    try:
        return decompress(codec, data, bytes_max)
    except InvalidBatch as error:
        if error.error_code == ErrorCode.INVALID_RECORD:
            # Kafka's code of later releases: after INVALID_RECORD a client never pushes again.
            problem = f"the push decompresses to more than telemetry.max.bytes={bytes_max}"
            raise Refusal(ErrorCode.TELEMETRY_TOO_LARGE, problem) from None
        raise Refusal(ErrorCode.INVALID_RECORD, f"the push cannot be decompressed: {error}") from None


def _decoded(data: bytes) -> OtlpMetrics:
    try:
        return OtlpMetrics(data)
    except InvalidOtlp as error:
        raise Refusal(ErrorCode.INVALID_RECORD, f"the push is no OTLP metrics data: {error}") from None


class _Reading:
    """The values while they are read."""

    def __init__(self) -> None:
        self.added: dict[SeriesKey, float] = {}
        self.set: dict[SeriesKey, float] = {}
        self.is_cut = False

    def take(self, point: Point | None) -> None:
        key = None if point is None else _key(point)
        if point is None or key is None:
            self.is_cut = True
        elif point.is_delta and (not isfinite(point.value) or (key.is_counter and point.value < 0)):
            # It would spoil the sum for ever. A gauge without a value, as an average of nothing, is NaN.
            self.is_cut = self.is_cut or not isnan(point.value)
        elif key not in self.added and key not in self.set and len(self.added) + len(self.set) >= SERIES_MAX:
            self.is_cut = True
        elif point.is_delta:
            self.added[key] = self.added.get(key, 0.0) + point.value
        else:
            self.set[key] = point.value


def _key(point: Point) -> SeriesKey | None:
    name = series_name(point.name)
    labels: dict[str, str] = {}
    for key, value in point.attributes:
        label = label_name(key)
        if label is None or len(value) > TEXT_CHARACTERS_MAX:
            return None
        if label:
            labels[label] = value
    if name is None:
        return None
    if point.only_grows and not name.endswith(COUNTER_SUFFIX):
        name += COUNTER_SUFFIX
    return SeriesKey(name, point.only_grows, tuple(sorted(labels.items())))
