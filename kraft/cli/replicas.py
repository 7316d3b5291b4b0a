"""`kraft replicas`: whether the replicas of partitions hold the same records."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli import options
from kraft.cli.command_security import connection_settings
from kraft.cli.perf.options import REPORTING_INTERVAL_MS, ReportingInterval
from kraft.cli.printing import fail, print_columns, print_json, say
from kraft.model.list_offsets import EARLIEST_TIMESTAMP
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.replicas.reading import ReadSettings
    from kraft.replicas.verification import Choice, PartitionReport, Replica

app = typer.Typer(help="Compare the replicas of partitions.", no_args_is_help=True)

_TOPIC_TITLES: Final = ("TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "DIFFERENT", "BEHIND", "NOT-READ")
_REPLICA_TITLES: Final = ("TOPIC", "PARTITION", "BROKER", "RESULT", "COMPARED-TO", "DETAILS")
_WITHOUT_NEWS: Final = ("same", "reference", "alone")


@app.callback()
def replicas() -> None:
    """Compare the replicas of partitions."""


@app.command()
def verify(
    positional: options.TopicArgument = None,
    topic: options.TopicOption = None,
    topics_include: Annotated[
        str | None,
        typer.Option("--topics-include", metavar="REGEX", help="Only topics whose whole names match."),
    ] = None,
    partition: options.PartitionOption = None,
    time: Annotated[
        int,
        typer.Option("--time", metavar="MS", max=2**63 - 1, help="Begin at records of this time; -2 is the earliest."),
    ] = EARLIEST_TIMESTAMP,
    fetch_size: Annotated[
        int, typer.Option("--fetch-size", min=1, max=1 << 30, metavar="BYTES", help="Bytes of each fetch.")
    ] = 1 << 20,
    max_wait: Annotated[
        int,
        typer.Option(
            "--max-wait-ms",
            min=0,
            max=600_000,
            metavar="MS",
            help="Longest wait for new records of a replica that is behind.",
        ),
    ] = 1_000,
    reporting_interval: ReportingInterval = REPORTING_INTERVAL_MS,
    bootstrap_server: options.BootstrapServer = options.DEFAULT_BOOTSTRAP_SERVER,
    output: options.OutputFormat = options.Output.TABLE,
    timeout_ms: options.Timeout = options.DEFAULT_TIMEOUT_MS,
) -> None:
    """Compare the replicas of a topic, or of all topics, batch by batch.

    Each is read from its own broker up to its high watermark, as a consumer with READ on the topic. Exit code 1 if
    replicas differ, or one could not be read.
    """
    from kraft.replicas.reading import ReadSettings
    from kraft.replicas.verification import Choice

    name = options.optional_topic_name(positional, topic)
    if name is not None and topics_include is not None:
        raise typer.BadParameter("give a topic or a pattern, not both", param_hint="--topics-include")
    if partition is not None and name is None:
        raise typer.BadParameter("name the topic of the partition", param_hint="--partition")
    if time < 0 and time != EARLIEST_TIMESTAMP:
        what = "what is stored is compared once: give a time in milliseconds since 1970, or -2 for all"
        raise typer.BadParameter(what, param_hint="--time")
    choice = Choice(topic=name, pattern=_pattern(topics_include), partition=partition, from_timestamp_ms=time)
    settings = ReadSettings(timeout_ms=timeout_ms, max_wait_ms=max_wait, fetch_bytes=fetch_size)
    found = asyncio.run(_verified(bootstrap_server, choice, settings, reporting_interval))
    _print(found, output)
    if alone := sum(each.result == "alone" for report in found for each in report.replicas):
        say(f"{counted(alone, 'partition')} with one replica: nothing is compared there")
    different = sum(each.result == "different" for report in found for each in report.replicas)
    unread = sum(each.result == "not read" for report in found for each in report.replicas)
    if different or unread:
        fail(f"{counted(different, 'replica')} with differences, {counted(unread, 'replica')} not read")


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}", param_hint="--topics-include") from None


async def _verified(
    bootstrap_server: str, choice: Choice, settings: ReadSettings, interval_ms: int
) -> list[PartitionReport]:
    from kraft.cli.perf.reports import running
    from kraft.client.aio import Admin
    from kraft.replicas.verification import chosen, reports

    admin = Admin(
        bootstrap_server,
        network=options.command_network(),
        default_api_timeout_ms=settings.timeout_ms,
        bootstrap_refused_timeout_ms=options.REFUSED_TIMEOUT_MS,
        **connection_settings(),
    )
    async with admin:
        what = await chosen(admin, choice)
        for note in what.notes:
            say(note)
        done = 0
        with running(what.offsets, interval_ms) as shown:

            def progress(offsets: int) -> None:
                nonlocal done
                done += offsets
                shown.show(done, lambda _: f"{done:,} of {what.offsets:,} offsets compared.")

            return [each async for each in reports(admin, what, settings, progress)]


def _print(found: Sequence[PartitionReport], output: options.Output) -> None:
    if output is options.Output.JSON:
        from msgspec import to_builtins

        print_json([to_builtins(each) for each in found])
        return
    print_columns(_TOPIC_TITLES, [_topic_row(topic, found) for topic in dict.fromkeys(each.topic for each in found)])
    news = [
        _replica_row(report, each) for report in found for each in report.replicas if each.result not in _WITHOUT_NEWS
    ]
    if news:
        print()
        print_columns(_REPLICA_TITLES, news)


def _topic_row(topic: str, found: Sequence[PartitionReport]) -> tuple[Any, ...]:
    of_topic = [each for each in found if each.topic == topic]
    results = [each.result for report in of_topic for each in report.replicas]
    return (
        topic,
        len(of_topic),
        len(results),
        sum(each.records for each in of_topic),
        *(results.count(each) for each in ("different", "behind", "not read")),
    )


def _replica_row(report: PartitionReport, replica: Replica) -> tuple[Any, ...]:
    return (
        report.topic,
        report.partition,
        replica.broker_id,
        replica.result,
        replica.compared_to,
        "; ".join(_details(report, replica)),
    )


def _details(report: PartitionReport, replica: Replica) -> list[str]:
    difference = replica.difference
    counts = {
        "other record": difference.differing,
        "missing record": difference.missing,
        "additional record": difference.additional,
    }
    details = [counted(count, what) for what, count in counts.items() if count]
    if difference.batches:
        details.append(f"{counted(difference.batches, 'batch', 'batches')} with other headers")
    if difference.first_offset is not None:
        reference = next((each.broker_id for each in report.replicas if each.result == "reference"), None)
        than = "" if reference is None else f", compared with broker {reference}"
        details.append(f"first at offset {difference.first_offset}{than}")
    return [*details, replica.reason] if replica.reason else details
