"""Options that commands of `kraft perf` share."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

RECORD_BYTES_MAX: Final = 1 << 28
"""Far above what a broker takes: larger values are not even made in the time that people wait."""


def _rate(records_per_s: float) -> float:
    if math.isnan(records_per_s):
        raise typer.BadParameter("is no number: give records per second, or -1 for no limit")
    return records_per_s


RecordCount = Annotated[int, typer.Option("--num-records", min=1, help="How many records.", show_default=False)]
ReportingInterval = Annotated[
    int, typer.Option("--reporting-interval", min=1, metavar="MS", help="Time between lines of progress.")
]
PrintMetrics = Annotated[
    bool, typer.Option("--print-metrics", help="Show the processor time and memory of this process at the end.")
]
Throughput = Annotated[
    float,
    typer.Option("--throughput", metavar="N", callback=_rate, help="Records per second to send; -1 is no limit."),
]
REPORTING_INTERVAL_MS = 5_000
