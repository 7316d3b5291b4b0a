"""`kraft perf latency`: how long a record takes from a producer to a consumer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli import options
from kraft.cli.client_settings import producer_settings
from kraft.cli.consumer_settings import consumer_settings
from kraft.cli.perf.options import (
    RECORD_BYTES_MAX,
    REPORTING_INTERVAL_MS,
    PrintMetrics,
    RecordCount,
    ReportingInterval,
)
from kraft.cli.printing import print_json
from kraft.cli.quorum_watch import quorum_watch

if TYPE_CHECKING:
    from kraft.perf.latencies import Latencies


def latency(
    num_records: RecordCount,
    record_size: Annotated[
        int, typer.Option("--record-size", min=1, max=RECORD_BYTES_MAX, metavar="BYTES", help="Size of values.")
    ],
    positional: options.TopicArgument = None,
    topic: options.TopicOption = None,
    acks: Annotated[str, typer.Option("--producer-acks", help="Acknowledgements to wait for: all or 1.")] = "all",
    key_size: Annotated[
        int, typer.Option("--record-key-size", min=0, metavar="BYTES", help="Size of keys; 0 is none.")
    ] = 0,
    num_headers: Annotated[int, typer.Option("--num-headers", min=0, help="Headers of each record.")] = 0,
    header_key_size: Annotated[
        int, typer.Option("--record-header-key-size", min=1, metavar="BYTES", help="Size of keys of headers.")
    ] = 8,
    header_size: Annotated[
        int, typer.Option("--record-header-size", min=0, metavar="BYTES", help="Bytes of the value of each header.")
    ] = 8,
    reporting_interval: ReportingInterval = REPORTING_INTERVAL_MS,
    print_metrics: PrintMetrics = False,
    bootstrap_server: options.BootstrapServer = options.DEFAULT_BOOTSTRAP_SERVER,
    output: options.OutputFormat = options.Output.TABLE,
) -> None:
    """Measure how long a record takes to a consumer.

    Records are sent one after the other. The topic must exist, and nobody else may write to it meanwhile.
    """
    from kraft.cli.perf import reports
    from kraft.client import Consumer, Producer
    from kraft.perf.latency import LatencyLoad, random_headers, run

    no_file: Path | None = None
    writing = producer_settings(no_file, bootstrap_server, acks=acks, linger_ms=0)
    reading = consumer_settings(no_file, bootstrap_server, None, from_beginning=False)
    load = LatencyLoad(
        topic=options.topic_name(positional, topic),
        records=num_records,
        record_bytes=record_size,
        key_bytes=key_size,
        headers=random_headers(num_headers, header_key_size, header_size),
    )

    latest: reports.Latest[Latencies] = reports.Latest()
    with (
        latest.printed(lambda found: _print(found, output, print_metrics=print_metrics)),
        Producer(**writing, network=options.command_network()) as producer,
        Consumer(**reading, network=options.command_network()) as consumer,
        quorum_watch(bootstrap_server),
        reports.running(num_records, reporting_interval) as shown,
    ):
        show = latest.keeping(lambda now: shown.show(now.count, lambda _: _line(now)))
        measured = run(producer, consumer, load, show)
    _print(measured, output, print_metrics=print_metrics)


def _line(measured: Latencies) -> str:
    return f"{measured.count} records, {measured.mean_ms:.3f} ms avg latency, {measured.max_ms:.3f} ms max latency."


def _print(measured: Latencies, output: options.Output, *, print_metrics: bool) -> None:
    from kraft.cli.perf import reports

    if output is options.Output.JSON:
        metrics = {"process": reports.process_metrics()} if print_metrics else {}
        print_json(reports.latencies_as_json(measured) | metrics)
        return
    print(f"{_line(measured)} Percentiles: {reports.percentiles_line(measured)}.")
    reports.print_histogram(measured)
    if print_metrics:
        reports.print_metrics()
