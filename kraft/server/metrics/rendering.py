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
from kraft.server.metrics.snapshot import Values

SERIES_AT_ONCE: Final = 20
COMPUTED_S_MAX: Final = 0.001
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


async def render(values: Values, form: TextFormat) -> bytes:
    """Return the text. Others have a turn of this thread's loop, and of the interpreter, meanwhile."""
    pieces: list[bytes] = []
    began_s = perf_counter()
    for metric, series in values.items():
        is_first = True
        for some in _batches(metric, series):
            text = form.encode(some)
            pieces.append(text if is_first else _without_head(text))
            is_first = False
            if perf_counter() - began_s > COMPUTED_S_MAX:
                await asyncio.sleep(PAUSE_S)
                began_s = perf_counter()
    return b"".join([*pieces, form.end])


def _batches(metric: Metric, series: list[tuple[tuple[str, ...], float]]) -> Iterator[Family]:
    name_of = _names(metric)
    for start in range(0, len(series), SERIES_AT_ONCE):
        family = Family(metric.name, metric.help, metric.kind)
        for number, (labels, value) in enumerate(series[start : start + SERIES_AT_ONCE], start):
            family.add_sample(name_of(number), dict(zip(metric.labels, labels, strict=True)), value)
        yield family


def _names(metric: Metric) -> Callable[[int], str]:
    """Return the name of a series by its number: a summary has its count and its sum in turn."""
    names = metric.series
    if metric.kind is Kind.SUMMARY:
        return lambda number: names[number % 2]
    return lambda _: names[0]


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
