"""`kraft mirror`: topics copied from cluster to cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli.command_security import properties_of
from kraft.cli.options import Output, OutputFormat
from kraft.cli.printing import ProgressLine, print_columns, print_json, say
from kraft.model.errors import KraftError

if TYPE_CHECKING:
    from kraft.mirror.config import MirrorConfig
    from kraft.mirror.status import PairStatus
    from kraft.mirror.verification import PartitionVerdict

app = typer.Typer(help="Copy topics from cluster to cluster, and show how far it is.", no_args_is_help=True)

_CONFIG: Final = typer.Option(
    "--config",
    "-c",
    metavar="FILE",
    help="File of clusters and pairs, see docs/mirror.md. A file of MirrorMaker 2 is read as it is.",
    show_default=False,
)
ConfigFile = Annotated[Path, _CONFIG]
Clusters = Annotated[
    str, typer.Option("--clusters", metavar="ALIAS[,...]", help="Only pairs with one of these targets.")
]

Worker = Annotated[
    str,
    typer.Option(
        "--worker",
        metavar="NAME",
        help="Name of this worker, which no other worker has. Started again with it, a worker goes on at once.",
    ),
]
ConsumerFile = Annotated[
    Path | None,
    typer.Option(
        "--consumer.config",
        metavar="FILE",
        help="Settings of the source's clients: MirrorMaker 1's option, as the next four, in place of --config.",
        show_default=False,
    ),
]
ProducerFile = Annotated[
    Path | None,
    typer.Option("--producer.config", metavar="FILE", help="Settings of the target's clients.", show_default=False),
]
Include = Annotated[
    str,
    typer.Option(
        "--include",
        "--whitelist",
        metavar="PATTERN[,...]",
        help="Topics to mirror, as regular expressions.",
        show_default=False,
    ),
]
Streams = Annotated[
    int,
    typer.Option(
        "--num.streams", min=1, max=1_000, help="Number of parts into which the work is divided among workers."
    ),
]
CommitInterval = Annotated[
    int | None,
    typer.Option(
        "--offset.commit.interval.ms",
        min=1,
        max=60_000,
        help="Longest time between two commits of positions.",
        show_default=False,
    ),
]
AbortOnFailure = Annotated[
    str,
    typer.Option(
        "--abort.on.send.failure",
        metavar="true",
        help="Has to be true: no record is skipped, and what cannot be sent is tried again.",
    ),
]

_STATUS_TITLES: Final = ("PAIR", "TOPIC", "TARGET", "PARTITIONS", "RECORDS", "LAG", "LAG SECONDS", "SKIPPED")
_VERIFY_TITLES: Final = (
    *("PAIR", "SOURCE", "TARGET", "COMPARED", "MISSING", "TWICE"),
    *("COMPACTED", "SKIPPED", "ORDER", "CHECKSUM"),
)


@app.command()
def start(
    config: Annotated[Path | None, _CONFIG] = None,
    clusters: Clusters = "",
    worker: Worker = "",
    consumer_config: ConsumerFile = None,
    producer_config: ProducerFile = None,
    include: Include = "",
    num_streams: Streams = 1,
    offset_commit_interval_ms: CommitInterval = None,
    abort_on_send_failure: AbortOnFailure = "true",
) -> None:
    """Mirror until Ctrl-C. Workers with the same file share the work."""
    from kraft.mirror import worker as mirror_worker
    from kraft.server.config.components import LoggingSettings
    from kraft.server.process import lifeline, logging_setup
    from kraft.server.process.file_limit import raise_file_limit

    lifeline.follow_launcher()
    if abort_on_send_failure.lower() != "true":
        raise typer.BadParameter("no record is skipped: leave it out", param_hint="--abort.on.send.failure")
    if config is not None and (consumer_config or producer_config or include):
        raise typer.BadParameter("the file says it all: leave the other options out", param_hint="--config")
    if config is None:
        checked = _of_maker(consumer_config, producer_config, include, num_streams, offset_commit_interval_ms)
        source = "mirror"
    else:
        checked, source = read(config, clusters), str(config)
    raise_file_limit()
    logging_setup.configure(LoggingSettings())
    for each in checked.notes:
        say(f"{source}: {each}")
    with _cluster_named(checked):
        mirror_worker.run(checked, worker)


def _of_maker(
    consumer_config: Path | None,
    producer_config: Path | None,
    include: str,
    num_streams: int,
    offset_commit_interval_ms: int | None,
) -> MirrorConfig:
    """Return what MirrorMaker 1's options ask for. Raises BadParameter for one that is missing."""
    from msgspec.structs import replace

    from kraft.mirror.old_options import settings_of_maker

    if consumer_config is None and producer_config is None and not include:
        raise typer.BadParameter("name the file of clusters and pairs", param_hint="--config")
    if consumer_config is None or producer_config is None or not include:
        raise typer.BadParameter(
            "give all three of --consumer.config, --producer.config and --include, or --config alone",
            param_hint="--consumer.config",
        )
    settings, notes = settings_of_maker(
        properties_of(consumer_config, "--consumer.config", with_dots=False),
        properties_of(producer_config, "--producer.config", with_dots=False),
        include,
        num_streams=num_streams,
        offset_commit_interval_ms=offset_commit_interval_ms,
    )
    found = _checked(settings, "mirror")
    return replace(found, notes=(*notes, *found.notes))


@app.command()
def status(config: ConfigFile, clusters: Clusters = "", output: OutputFormat = Output.TABLE) -> None:
    """Show how far each topic is mirrored.

    With the guarantee, the number of workers, and lag in records and seconds. The exit code is 1 if clusters of a pair
    do not answer, or refuse.
    """
    from msgspec import to_builtins

    from kraft.mirror.status import PairStatus, statuses

    found = asyncio.run(statuses(read(config, clusters)))
    known = [each for each in found if isinstance(each, PairStatus)]
    if output is Output.JSON:
        print_json(to_builtins(found))
    else:
        for pair in known:
            _say_status(pair)
        print_columns(_STATUS_TITLES, [row for each in known for row in _rows(each)])
    for each in found:
        if not isinstance(each, PairStatus):
            say(f"kraft: {each.pair}: not known how far it is: {each.problem}")
    if len(known) < len(found):
        raise typer.Exit(1)


def _say_status(pair: PairStatus) -> None:
    say(f"{pair.pair}: {pair.guarantee}, {_counted(pair.workers)}, positions in {pair.positions}")
    if not pair.has_positions and pair.workers:
        say(
            f"{pair.pair}: {pair.positions} is not there, so nothing is copied: the target was emptied, or the topic "
            "deleted, and the log of the workers says what to do, unless they are only starting"
        )
    elif not pair.has_positions and pair.topics:
        say(
            f"{pair.pair}: {pair.positions} is not there, as before the first start, or it was deleted: the next "
            "start is refused if workers have copied exactly once before; otherwise it copies all topics from "
            "their beginning, unless it continues a mirror in the other direction"
        )
    if pair.waiting:
        say(f"{pair.pair}: not at the target yet: {', '.join(pair.waiting)}")
    for topic, reason in pair.refused.items():
        say(f"{pair.pair}: topic {topic} is not as at the source: {reason}")
    if pair.stopped:
        say(f"{pair.pair}: stopped, because the source lost what was mirrored: {', '.join(pair.stopped)}")


@app.command()
def verify(config: ConfigFile, clusters: Clusters = "", output: OutputFormat = Output.TABLE) -> None:
    """Compare both ends, record by record.

    Up to what is mirrored. The exit code is 1 if anything differs, and if nothing was compared. COMPACTED counts
    records that only one end has, because the other has compacted them: they are not compared. SKIPPED counts offsets
    that the source deleted before they were mirrored: no end has them.
    """
    from msgspec import to_builtins

    from kraft.mirror.verification import PartitionVerdict

    checked, found = read(config, clusters), list[PartitionVerdict]()
    try:
        with _cluster_named(checked):
            asyncio.run(_verify(checked, found))
    finally:
        if output is Output.JSON:
            print_json(to_builtins(found))
        else:
            print_columns(_VERIFY_TITLES, [_verdict_row(each) for each in found])
    if not found:
        say("kraft: nothing is mirrored yet: kraft mirror status shows what is waited for")
    elif not any(each.compared for each in found):
        say("kraft: nothing was compared: of what was mirrored, one end has deleted all")
    if not any(each.compared for each in found) or not all(each.is_same for each in found):
        raise typer.Exit(1)


async def _verify(config: MirrorConfig, found: list[PartitionVerdict]) -> None:
    """Append the verdicts to those found. Raises KraftError if a cluster does not answer: others were found by then."""
    from kraft.mirror.verification import verdicts

    progress, compared = ProgressLine("records compared"), 0
    async for each in verdicts(config):
        found.append(each)
        compared += each.compared
        progress.show(compared)
    progress.clear()


def read(config: Path, clusters: str = "") -> MirrorConfig:
    """Return the checked file, with only the pairs to these targets. Ends the command at what is wrong with it."""
    from msgspec.structs import replace

    from kraft.mirror.patterns import plain_list

    checked = _checked(properties_of(config, "--config", with_dots=False), str(config))
    wanted = set(plain_list(clusters))
    targets = {each.target.alias for each in checked.pairs}
    if wanted - targets:
        unknown = ", ".join(sorted(wanted - targets))
        raise typer.BadParameter(f"no enabled pair has the target {unknown}", param_hint="--clusters")
    return replace(checked, pairs=tuple(each for each in checked.pairs if not wanted or each.target.alias in wanted))


def _checked(settings: Mapping[str, str], source: str) -> MirrorConfig:
    from kraft.mirror.config import InvalidMirrorFile, mirror_config

    try:
        return mirror_config(settings)
    except InvalidMirrorFile as error:
        for each in error.problems:
            say(f"kraft: {source}: {each}")
        raise typer.Exit(1) from None


@contextmanager
def _cluster_named(config: MirrorConfig) -> Iterator[None]:
    """Note beside an error which cluster's address it names."""
    from kraft.mirror.clients import addresses_of, alias_in

    try:
        yield
    except KraftError as error:
        if (alias := alias_in(str(error), addresses_of(*config.pairs))) is not None:
            error.add_note(f"That is cluster {alias}, whose keys begin with {alias}.")
        raise


def _counted(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers or 'no'} workers"


def _rows(pair: PairStatus) -> list[tuple[object, ...]]:
    return [
        (
            pair.pair,
            each.topic,
            each.target,
            each.partitions,
            each.records,
            each.lag,
            "unknown" if each.lag_s is None else each.lag_s,
            each.skipped,
        )
        for each in pair.topics
    ]


def _verdict_row(verdict: PartitionVerdict) -> tuple[object, ...]:
    order = "same" if verdict.in_order else "differs"
    return (
        verdict.pair,
        verdict.source,
        verdict.target,
        verdict.compared,
        verdict.missing,
        verdict.twice,
        verdict.compacted,
        verdict.skipped,
        order,
        verdict.checksum,
    )
