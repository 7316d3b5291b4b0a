"""From values to the text that Prometheus reads, a little at a time.

Only one thread of a process runs Python at a time. A thread that computes for long lets another one run after 5 ms, so
the node's event loop would wait as long at each of its events. This one pauses by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Final

from msgspec import Struct
from prometheus_client import Metric as Family
from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics

from kraft.server.metrics.metric import Kind, Metric
from kraft.server.metrics.snapshot import Series, Values

SERIES_AT_ONCE: Final = 20
COMPUTED_S_MAX: Final = 0.001
PART_BYTES: Final = 128 * 1024
PAUSE_S: Final = 0.0005
"""asyncio sleeps in milliseconds, and so at least one."""

_END: Final = b"# EOF\n"


class TextFormat(Struct, frozen=True):
    content_type: str
    is_open_metrics: bool

    def encode(self, family: Family) -> bytes:
        """Return the text of a family, without the end of the whole."""
        if not self.is_open_metrics:
            return exposition.generate_latest(_One(family))
        # The function has no types.
        text: bytes = openmetrics.generate_latest(_One(family))  # type: ignore[no-untyped-call]
        return text.removesuffix(_END)

    @property
    def end(self) -> bytes:
        return _END if self.is_open_metrics else b""


TEXT: Final = TextFormat(exposition.CONTENT_TYPE_PLAIN_0_0_4, is_open_metrics=False)
OPEN_METRICS: Final = TextFormat(openmetrics.CONTENT_TYPE_LATEST, is_open_metrics=True)


def format_of(accept: str) -> TextFormat:
    """Return the format of a scraper that says what it can read."""
    return OPEN_METRICS if "application/openmetrics-text" in accept else TEXT


async def render(values: Values, form: TextFormat) -> list[bytes]:
    """Return the text in parts, and empty `values` meanwhile.

    To free all values at once, or to join a text of 10 MiB, would keep the interpreter for many milliseconds. Others
    have a turn of this thread's loop, and of the interpreter.
    """
    parts: list[bytes] = []
    pieces: list[bytes] = []
    size_bytes = 0
    began_s = perf_counter()
    while values:
        metric = next(iter(values))
        is_first = True
        for some in _batches(metric, values.pop(metric)):
            text = form.encode(some)
            pieces.append(text if is_first else _without_head(text))
            is_first = False
            size_bytes += len(text)
            if size_bytes >= PART_BYTES:
                parts.append(b"".join(pieces))
                pieces.clear()
                size_bytes = 0
            if perf_counter() - began_s > COMPUTED_S_MAX:
                await asyncio.sleep(PAUSE_S)
                began_s = perf_counter()
    return [*parts, b"".join([*pieces, form.end])]


def _batches(metric: Metric, series: Series) -> Iterator[Family]:
    name_of = _names(metric)
    series.reverse()
    number = 0
    while series:
        family = Family(metric.name, metric.help, metric.kind)
        for _ in range(min(SERIES_AT_ONCE, len(series))):
            labels, value = series.pop()
            names = metric.labels if len(labels) == len(metric.labels) else (*metric.labels, "le")
            family.add_sample(name_of(number), dict(zip(names, labels, strict=True)), value)
            number += 1
        yield family


def _names(metric: Metric) -> Callable[[int], str]:
    """Return the name of a series by its number: a summary has its count and its sum in turn."""
    names = metric.series
    if metric.kind is Kind.HISTOGRAM:
        bucket, count, total = names
        names = (*(bucket for _ in metric.bounds), bucket, count, total)
    return lambda number: names[number % len(names)]


def _without_head(text: bytes) -> bytes:
    """Remove the lines of help and type, which a family has once."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text


class _One:
    """A registry of one family, as the library reads it."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        return (self._family,)
