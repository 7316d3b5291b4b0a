"""`kraft perf produce`: send records at a rate, and measure how long they take until they are acknowledged."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.client_settings import (
    ProducerConfigOption,
    ProducerPropertyOption,
    producer_settings,
)
from kraft.cli.grouped_options import with_grouped_options
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServerOrBrokerList,
    Output,
    OutputFormat,
    TopicArgument,
    TopicOption,
    command_network,
    topic_name,
)
from kraft.cli.perf.options import (
    RECORD_BYTES_MAX,
    REPORTING_INTERVAL_MS,
    PrintMetrics,
    RecordCount,
    ReportingInterval,
    Throughput,
)
from kraft.cli.printing import fail, print_json
from kraft.cli.quorum_watch import quorum_watch

if TYPE_CHECKING:
    from kraft.cli.perf.reports import Running
    from kraft.perf.payloads import Payloads
    from kraft.perf.produce import Measured

TRANSACTION_MS: Final = 3_000
"""Time between commits, if only a transactional id is given, as in Kafka's tool."""


@dataclass(frozen=True, kw_only=True)
class PayloadOptions:
    """What the records hold."""

    record_size: Annotated[
        int | None,
        typer.Option(
            "--record-size",
            min=1,
            max=RECORD_BYTES_MAX,
            metavar="BYTES",
            help="Size of each value, made of random letters.",
        ),
    ] = None
    payload_file: Annotated[
        Path | None,
        typer.Option(
            "--payload-file", metavar="FILE", help="File of values, one a line; each record gets a random one."
        ),
    ] = None
    payload_delimiter: Annotated[
        str, typer.Option("--payload-delimiter", metavar="TEXT", help=r"What ends a value in the file; \n is a line's.")
    ] = r"\n"
    payload_monotonic: Annotated[bool, typer.Option("--payload-monotonic", help="Numbers as values.")] = False

    def payloads(self) -> Payloads:
        """Return the values. Raises BadParameter, or KraftError for the file."""
        from kraft.perf.payloads import file_payloads, monotonic_payloads, random_payloads

        given = (self.record_size is not None, self.payload_file is not None, self.payload_monotonic)
        if sum(given) != 1:
            raise typer.BadParameter("give one of --record-size, --payload-file and --payload-monotonic")
        if self.payload_file is not None:
            delimiter = self.payload_delimiter.replace(r"\n", "\n").replace(r"\t", "\t").encode()
            if not delimiter:
                raise typer.BadParameter("is empty: give at least one character", param_hint="--payload-delimiter")
            return file_payloads(self.payload_file, delimiter)
        return monotonic_payloads if self.record_size is None else random_payloads(self.record_size)


@dataclass(frozen=True, kw_only=True)
class TransactionOptions:
    """Whether and how records are sent in transactions."""

    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id", help="Send in transactions, with this transactional id.", show_default=False
        ),
    ] = None
    transaction_duration_ms: Annotated[
        int | None,
        typer.Option(
            "--transaction-duration-ms",
            min=1,
            help="Send in transactions, and commit after this time. [default: 3000 with an id]",
            show_default=False,
        ),
    ] = None

    def id_and_duration_ms(self, settings: dict[str, Any]) -> tuple[str | None, int | None]:
        """Return both, or None for both without transactions."""
        name = self.transactional_id or settings.get("transactional_id")
        if name is None and self.transaction_duration_ms is not None:
            name = f"performance-producer-{uuid.uuid4()}"
        return name, None if name is None else self.transaction_duration_ms or TRANSACTION_MS


@with_grouped_options
def produce(
    payload: PayloadOptions,
    transactions: TransactionOptions,
    num_records: RecordCount,
    positional: TopicArgument = None,
    topic: TopicOption = None,
    throughput: Throughput = -1,
    records_per_call: Annotated[
        int, typer.Option("--records-per-call", min=1, help="Most records that are queued and timed together.")
    ] = 100,
    warmup_records: Annotated[
        int, typer.Option("--warmup-records", min=0, help="First records, which a second result leaves out.")
    ] = 0,
    producer_config: ProducerConfigOption = None,
    producer_property: ProducerPropertyOption = None,
    reporting_interval: ReportingInterval = REPORTING_INTERVAL_MS,
    print_metrics: PrintMetrics = False,
    bootstrap_server: BootstrapServerOrBrokerList = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Measure how fast records are stored.

    The latency is from the call that queues a record to the acknowledgement of the last record of that call.
    """
    from kraft.cli.perf.reports import Latest, running
    from kraft.client import Producer
    from kraft.perf.produce import Measured, ProduceLoad, run

    settings = producer_settings(producer_config, bootstrap_server, producer_property)
    settings["transactional_id"], transaction_ms = transactions.id_and_duration_ms(settings)
    load = ProduceLoad(
        topic=topic_name(positional, topic),
        records=num_records,
        payloads=payload.payloads(),
        records_per_s=throughput,
        records_per_call=records_per_call,
        warmup_records=warmup_records,
        transaction_ms=transaction_ms,
    )
    latest = Latest[Measured]()
    with (
        latest.printed(lambda found: _print(found, output, print_metrics=print_metrics)),
        Producer(**settings, network=command_network()) as producer,
        quorum_watch(settings["bootstrap_servers"]),
        running(num_records, reporting_interval) as shown,
    ):
        measured = run(producer, load, latest.keeping(_Shower(shown)))
    _print(measured, output, print_metrics=print_metrics)
    if measured.errors:
        fail(f"{measured.failed:,} records were not stored: {measured.errors[0]}")


class _Shower:
    """Shows what was measured since the line before."""

    def __init__(self, shown: Running) -> None:
        self._shown = shown

        from kraft.perf.rates import Rate

        self._before = Rate(records=0, size_bytes=0, elapsed_s=0.0)

    def __call__(self, measured: Measured) -> None:
        def line(_: float) -> str:
            from kraft.cli.perf.reports import rate_line

            now = measured.rate()
            part, self._before = now.since(self._before), now
            return rate_line(part, measured.take_recent()) + "."

        self._shown.show(measured.all.count, line)


def _print(measured: Measured, output: Output, *, print_metrics: bool) -> None:
    from kraft.cli.perf import reports

    steady = measured.steady_rate()
    if output is Output.JSON:
        found = {**reports.rate_as_json(measured.total()), "latency": reports.latencies_as_json(measured.all)}
        if steady is not None:
            found["steady_state"] = {
                **reports.rate_as_json(steady),
                "latency": reports.latencies_as_json(measured.steady),
            }
        found["failed"] = measured.failed
        print_json(found | ({"process": reports.process_metrics()} if print_metrics else {}))
        return
    print(f"{reports.rate_line(measured.total(), measured.all)}, {reports.percentiles_line(measured.all)}.")
    if steady is not None:
        line = f"{reports.rate_line(steady, measured.steady)}, {reports.percentiles_line(measured.steady)}"
        print(f"Without {measured.all.count - steady.records} warmup records: {line}.")
    reports.print_histogram(measured.all)
    if print_metrics:
        reports.print_metrics()
