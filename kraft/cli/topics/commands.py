"""`kraft topics`: topics, their partitions, and the replicas of those."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli.inactive import inactive_controller, warn_of
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    PartitionOption,
    Timeout,
    TopicArgument,
    TopicOption,
    key_values,
    open_admin,
    optional_topic_name,
    topic_name,
)
from kraft.cli.printing import fail, print_json, say
from kraft.cli.topics import changes
from kraft.cli.topics.offsets import offsets

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.wire.schema.metadata import MetadataResponsePartition

app = typer.Typer(help="Create, list, describe, change, move and delete topics.", no_args_is_help=True)


@app.command("create")
def create(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", help="Partition count. By default num.partitions of the cluster.", show_default=False
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            help="Replicas of each partition. By default default.replication.factor of the cluster.",
            show_default=False,
        ),
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Topic config to set. May be repeated.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Create a topic."""
    from kraft.model.errors import ErrorCode, Refusal

    name = topic_name(positional, topic)
    configs = key_values(config or [], "--config")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        try:
            admin.create_topic(name, partitions, replication_factor, configs)
        except Refusal as refusal:
            if not (if_not_exists and refusal.error_code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            _report(output, name, "created", False, f"Topic {name} already exists.")
        else:
            _report(output, name, "created", True, f"Created topic {name}.")
            if replication_factor != 1:
                _say_uneven_racks(admin)


@app.command("list")
def list_topics(
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out the topics that brokers keep for themselves.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the topics."""
    from kraft.metadata.topic_names import INTERNAL_TOPICS

    with open_admin(bootstrap_server, timeout_ms) as admin:
        hidden = INTERNAL_TOPICS if exclude_internal else ()
        found = admin.find_topics()
        topics = sorted(name for name in found if name not in hidden)
        warn_of(inactive_controller(admin))
    if output is Output.JSON:
        print_json([{"topic": each, **_shape(found[each].partitions)} for each in topics])
        return
    for each in topics:
        print(each)


@app.command("describe")
def describe(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Show only partitions with replicas out of sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Show only partitions without a leader.")
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option("--at-min-isr-partitions", help="Show only partitions with exactly min.insync.replicas in sync."),
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions", help="Show only partitions with fewer than min.insync.replicas in sync."
        ),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show partitions, leaders and replicas of topics."""
    from kraft.cli.topics.description import CONDITIONS
    from kraft.cli.topics.description import describe as describe_topics

    name = optional_topic_name(positional, topic)
    filters = zip((under_replicated, unavailable, at_min_isr, under_min_isr), CONDITIONS.items(), strict=True)
    chosen = {option: condition for is_chosen, (option, condition) in filters if is_chosen}
    if len(chosen) > 1:
        raise typer.BadParameter("cannot be combined: choose one", param_hint=" and ".join(chosen))
    with open_admin(bootstrap_server, timeout_ms) as admin:
        # Without a controller nobody replaces the leaders that are gone.
        warn_of(inactive_controller(admin))
        describe_topics(admin, name, next(iter(chosen.values()), None), output)


@app.command("delete")
def delete(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing if the topic does not exist.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete the topic even if it is internal.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete a topic and all its records."""
    from kraft.metadata.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
    from kraft.model.errors import ErrorCode, Refusal

    name = topic_name(positional, topic)
    if name in INTERNAL_TOPICS and not force:
        lost = "all groups with their committed offsets" if name == OFFSETS_TOPIC else "what brokers keep in it"
        fail(f"topic {name!r} is internal, and deleting it deletes {lost}: use --force to delete it anyway")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        try:
            admin.delete_topics([name])
        except Refusal as refusal:
            if not (if_exists and refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            _report(output, name, "deleted", False, f"Topic {name} does not exist.")
        else:
            _report(
                output,
                name,
                "deleted",
                True,
                f"Topic {name} is marked for deletion. Clients no longer see it; brokers delete its files.",
            )


@app.command("delete-records")
def delete_records(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    before_offset: Annotated[
        int | None,
        typer.Option(
            "--before-offset",
            min=-1,
            help="First offset to keep; -1 deletes all committed records.",
            show_default=False,
        ),
    ] = None,
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            metavar="FILE",
            help="JSON file of topics, partitions and offsets, in the format of kafka-delete-records.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete the oldest records of partitions."""
    from kraft.cli.topics.record_offsets import read_offsets, show_deleted
    from kraft.model.ids import TopicPartition

    name = optional_topic_name(positional, topic)
    if offset_json_file is not None:
        if name is not None or partition is not None or before_offset is not None:
            raise typer.BadParameter(
                "cannot be used with a topic, --partition or --before-offset", param_hint="--offset-json-file"
            )
        before_offsets = read_offsets(offset_json_file)
    elif name is None or partition is None or before_offset is None:
        raise typer.BadParameter(
            "nothing to delete is given: name a topic, --partition and --before-offset, or use --offset-json-file",
            param_hint="TOPIC",
        )
    else:
        before_offsets = {TopicPartition(name, partition): before_offset}
    with open_admin(bootstrap_server, timeout_ms) as admin:
        show_deleted(admin.delete_records_of_many(before_offsets), output)


app.command("alter")(changes.alter)
app.command("elect-leaders")(changes.elect_leaders)
app.command("reassign")(changes.reassign)
app.command("offsets")(offsets)


def _say_uneven_racks(admin: Admin) -> None:
    """Say whether racks have unequal numbers of brokers; nothing if that cannot be found out: the topic is created."""
    from kraft.metadata.racks import uneven_racks
    from kraft.model.errors import KraftError

    with suppress(KraftError):
        if uneven := uneven_racks(broker.rack or "" for broker in admin.describe_cluster(topics=()).brokers):
            say(uneven)


def _report(output: Output, topic: str, word: str, happened: bool, sentence: str) -> None:
    if output is Output.JSON:
        print_json({"topic": topic, word: happened})
    else:
        print(sentence)


def _shape(partitions: Sequence[MetadataResponsePartition]) -> dict[str, int]:
    factor = max((len(partition.replica_nodes) for partition in partitions), default=0)
    return {"partition_count": len(partitions), "replication_factor": factor}
