"""`kraft perf`: its commands and their options, which are those of Kafka's tools."""

from __future__ import annotations

import typer

from kraft.cli.perf import consume, latency, produce

app = typer.Typer(help="Measure how fast records are stored and read.", no_args_is_help=True)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("latency")(latency.latency)


@app.callback()
def perf() -> None:
    """Measure how fast records are stored and read."""
