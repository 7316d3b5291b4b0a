"""The commands of `kraft topics` that change the partitions of a topic: how many, where, and who leads them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
from kraft.cli.printing import print_json, say

KEYS_WARNING = (
    "WARNING: If partitions are increased for a topic that has a key, "
    "the partition logic or ordering of the messages will be affected"
)
"""Kafka's, word for word."""


class ElectionKind(StrEnum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def alter(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Set it. May be repeated.", show_default=False),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", metavar="KEY", help="Back to its default. May be repeated.", show_default=False
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, help="Add partitions until there are so many.", show_default=False),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="ID:ID,ID:ID,...",
            help="Brokers of all partitions, those that are there included; only the new ones count.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Add partitions to a topic, or set configs of it, as `kraft configs alter` does."""
    from kraft.cli.configs import alter_topic

    name = topic_name(positional, topic)
    if partitions is None:
        if replica_assignment is not None:
            raise typer.BadParameter(
                "say how many --partitions the topic is to have", param_hint="--replica-assignment"
            )
        configs = key_values(config or [], "--config")
        alter_topic(name, configs, delete_config or [], bootstrap_server, output, timeout_ms)
        return
    if config or delete_config:
        raise typer.BadParameter(
            "alter either the partitions or configs: one after the other", param_hint="--partitions"
        )
    assignments = None if replica_assignment is None else _replica_assignment(replica_assignment)
    if assignments is not None and len(assignments) != partitions:
        problem = f"it names the brokers of {len(assignments)} partitions, not of {partitions}"
        raise typer.BadParameter(problem, param_hint="--replica-assignment")
    say(KEYS_WARNING)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if assignments is not None:
            there = len(admin.describe_topics([name])[0].metadata.partitions)
            assignments = assignments[there:]
        admin.create_partitions(name, partitions, assignments)
    if output is Output.JSON:
        print_json({"topic": name, "partition_count": partitions})
    else:
        print(f"Topic {name} has {partitions} partitions now.")


def elect_leaders(
    election_type: Annotated[
        ElectionKind,
        typer.Option(
            "--election-type",
            case_sensitive=False,
            help="preferred: the first replica, if it is in sync. unclean: any replica where nobody leads; "
            "records are lost.",
        ),
    ],
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions of the cluster.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            metavar="FILE",
            help="Instead: topics and partitions in JSON, as kafka-leader-election takes it.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Let other replicas lead: the preferred ones, or any where nobody leads."""
    from kraft.cli.topics.elections import elect
    from kraft.cli.topics.partition_files import read_partitions
    from kraft.model.ids import TopicPartition
    from kraft.model.partitions import ElectionType

    name = optional_topic_name(positional, topic)
    if [name is not None, all_topic_partitions, path_to_json_file is not None].count(True) != 1:
        what = "name one: a topic with --partition, --all-topic-partitions, or a --path-to-json-file"
        raise typer.BadParameter(what, param_hint="TOPIC")
    if (name is None) != (partition is None):
        raise typer.BadParameter("a topic and its --partition go together", param_hint="--partition")
    if path_to_json_file is not None:
        partitions = read_partitions(path_to_json_file, "--path-to-json-file")
    elif name is not None and partition is not None:
        partitions = [TopicPartition(name, partition)]
    else:
        partitions = None
    with open_admin(bootstrap_server, timeout_ms) as admin:
        elect(admin, ElectionType[election_type.name], partitions, output)


def reassign(
    generate: Annotated[
        bool, typer.Option("--generate", help="Propose where the topics of a file could be on a list of brokers.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Begin to move partitions as a file says.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Say how far the moves of a file are.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take back the moves of a file that are under way.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show every move that is under way.")] = False,
    topics_file: Annotated[
        Path | None,
        typer.Option("--topics-to-move-json-file", metavar="FILE", help="With --generate.", show_default=False),
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="ID[,...]", help="With --generate.", show_default=False)
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="With --generate: do not spread replicas over racks.")
    ] = False,
    reassignment_file: Annotated[
        Path | None,
        typer.Option(
            "--reassignment-json-file",
            metavar="FILE",
            help="With --execute, --verify and --cancel: partitions and their brokers.",
            show_default=False,
        ),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="With --execute: also while other moves are under way.")
    ] = False,
    throttle: Annotated[int | None, typer.Option("--throttle", help="Not built yet.", show_default=False)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Move partitions to other brokers, with the files and words of kafka-reassign-partitions."""
    from kraft.cli.topics import reassignment
    from kraft.client import NotBuiltYet

    actions = {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel, "--list": list_all}
    if list(actions.values()).count(True) != 1:
        raise typer.BadParameter("exactly one of them", param_hint=", ".join(actions))
    if throttle is not None:
        raise NotBuiltYet("--throttle: to slow moves down is not built yet")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if list_all:
            reassignment.list_all(admin, output=output)
        elif generate:
            if topics_file is None or broker_list is None:
                what = f"needs {reassignment.TOPICS_FILE} and {reassignment.BROKER_LIST}"
                raise typer.BadParameter(what, param_hint="--generate")
            reassignment.generate(admin, topics_file, broker_list, rack_aware=not disable_rack_aware, output=output)
        else:
            if reassignment_file is None:
                what = f"{reassignment.ASSIGNMENT_FILE} is missing"
                raise typer.BadParameter(what, param_hint=next(each for each, asked in actions.items() if asked))
            if execute:
                reassignment.execute(admin, reassignment_file, additional=additional, output=output)
            elif verify:
                reassignment.verify(admin, reassignment_file, output=output)
            else:
                reassignment.cancel(admin, reassignment_file, output=output)


def _replica_assignment(text: str) -> list[list[int]]:
    """Kafka's form: the brokers of a partition with colons between, the partitions with commas."""
    try:
        return [[int(broker_id) for broker_id in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text[:100]!r} is not ID:ID,ID:ID", param_hint="--replica-assignment") from None
