"""The tables of docs/metrics.md: `python -m tests.unit.server.metrics.metrics_page` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kraft.mirror.metrics import EVERY as MIRROR
from kraft.server.metrics.exceptions import NOT_SERVED
from kraft.server.metrics.metric import Metric
from kraft.server.metrics.table import SECTIONS

PAGE: Final = Path(__file__).parents[4] / "docs" / "metrics.md"

MARK: Final = "<!-- From here on the page is written by python -m tests.unit.server.metrics.metrics_page -->\n"


def tables() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for section in SECTIONS:
        yield f"\n## {section.title}\n"
        yield "| Kafka's JMX name | Series | |"
        yield "|---|---|---|"
        yield from map(_row, section.metrics)
    yield "\n## Mirrors\n"
    yield "Of a worker of `kraft mirror start` ([mirror.md](mirror.md)), at its own `metrics.address`.\n"
    yield "| Kafka's JMX name | Series | |"
    yield "|---|---|---|"
    yield from map(_row, MIRROR)
    yield "\n## What dashboards ask for and nodes do not serve\n"
    yield "| Series | Why |"
    yield "|---|---|"
    yield from (f"| `{name}` | {reason} |" for name, reason in NOT_SERVED.items())
    yield ""


def _row(metric: Metric) -> str:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    series = ", ".join(f"`{name}{labels}`" for name in metric.series)
    jmx = f"`{metric.jmx}`" if metric.jmx else ""
    more = " Only with `metrics.per.partition`." if metric.per_partition else ""
    return f"| {jmx} | {series} | {metric.help}{more} |".replace("|  |", "| |")


def main() -> None:
    written, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(written + MARK + tables())


if __name__ == "__main__":
    main()
