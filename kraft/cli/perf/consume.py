"""`kraft perf consume`: read records as a member of a group, and measure how fast."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli.consumer_settings import (
    ConsumerConfigOption,
    ConsumerPropertyOption,
    GroupOption,
    IsolationLevelOption,
    consumer_settings,
)
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    IncludeOption,
    Output,
    OutputFormat,
    TopicArgument,
    TopicOption,
    command_network,
    topic_or_pattern,
)
from kraft.cli.perf.options import REPORTING_INTERVAL_MS, PrintMetrics, RecordCount, ReportingInterval
from kraft.cli.printing import fail, print_columns, print_json
from kraft.cli.quorum_watch import quorum_watch

if TYPE_CHECKING:
    from kraft.perf.consume import Read

TIMEOUT_MS = 10_000


def consume(
    num_records: RecordCount,
    positional: TopicArgument = None,
    topic: TopicOption = None,
    include: IncludeOption = None,
    group: GroupOption = None,
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Begin at new records where no offset is committed.")
    ] = False,
    fetch_size: Annotated[
        int | None, typer.Option("--fetch-size", min=1, metavar="BYTES", help="max.partition.fetch.bytes.")
    ] = None,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, metavar="MS", help="Longest time between records.")
    ] = TIMEOUT_MS,
    consumer_config: ConsumerConfigOption = None,
    consumer_property: ConsumerPropertyOption = None,
    isolation_level: IsolationLevelOption = None,
    reporting_interval: ReportingInterval = REPORTING_INTERVAL_MS,
    print_metrics: PrintMetrics = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Measure how fast records are read.

    Without --group it is a group of its own, which commits nothing. Exit code 1 if fewer records came than asked for.
    """
    from kraft.cli.perf.reports import Latest, running
    from kraft.client import Consumer
    from kraft.perf.consume import Read, ReadLoad, run

    settings = consumer_settings(
        consumer_config,
        bootstrap_server,
        group,
        from_beginning=not from_latest,
        properties=consumer_property,
        isolation_level=isolation_level,
    )
    if "group_id" not in settings:
        settings |= {"group_id": f"perf-consumer-{uuid.uuid4()}", "enable_auto_commit": False}
    if fetch_size is not None:
        settings["max_partition_fetch_bytes"] = fetch_size
    name, pattern = topic_or_pattern(positional, topic, include)
    load = ReadLoad(topic=name, pattern=pattern, records=num_records, timeout_ms=timeout)
    latest = Latest[Read]()
    with (
        latest.printed(lambda found: _print(found, output, print_metrics=print_metrics)),
        Consumer(**settings, network=command_network()) as consumer,
        quorum_watch(settings["bootstrap_servers"]),
        running(num_records, reporting_interval) as shown,
    ):
        read = run(consumer, load, latest.keeping(lambda read: shown.show(read.records, lambda _: _line(read))))
    _print(read, output, print_metrics=print_metrics)
    if read.records < num_records:
        fail(f"only {read.records:,} of {num_records:,} records came; then none for {timeout} ms")


def _line(read: Read) -> str:
    rate = read.rate()
    return f"{rate.records} records read, {rate.records_per_s:.1f} records/sec ({rate.mb_per_s:.2f} MB/sec)."


def _print(read: Read, output: Output, *, print_metrics: bool) -> None:
    from kraft.cli.perf import reports

    rate, fetch = read.rate(), read.fetch_rate()
    if output is Output.JSON:
        found = {
            **reports.rate_as_json(rate),
            "rebalance_ms": round(read.rebalance_s * 1_000, 1),
            "fetch": reports.rate_as_json(fetch),
        }
        print_json(found | ({"process": reports.process_metrics()} if print_metrics else {}))
        return
    titles = ("RECORDS", "MB", "SECONDS", "RECORDS/S", "MB/S", "REBALANCE-MS", "FETCH-RECORDS/S", "FETCH-MB/S")
    row = (
        rate.records,
        f"{rate.mb:.2f}",
        f"{rate.elapsed_s:.3f}",
        f"{rate.records_per_s:.1f}",
        f"{rate.mb_per_s:.2f}",
        round(read.rebalance_s * 1_000),
        f"{fetch.records_per_s:.1f}",
        f"{fetch.mb_per_s:.2f}",
    )
    print_columns(titles, [row])
    if print_metrics:
        reports.print_metrics()
