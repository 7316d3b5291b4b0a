"""Options that commands of `kraft perf` share."""

from __future__ import annotations

from typing import Annotated

import typer

RecordCount = Annotated[int, typer.Option("--num-records", min=1, help="How many records.", show_default=False)]
ReportingInterval = Annotated[
    int, typer.Option("--reporting-interval", min=1, metavar="MS", help="Time between lines of progress.")
]
PrintMetrics = Annotated[
    bool, typer.Option("--print-metrics", help="Show the processor time and memory of this process at the end.")
]
REPORTING_INTERVAL_MS = 5_000
