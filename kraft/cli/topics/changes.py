"""Commands of `kraft topics` that change partitions: their number, replicas and leaders."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    bytes_per_second,
    key_values,
    open_admin,
    optional_topic_name,
    throttle_option,
    topic_name,
)
from kraft.cli.printing import print_json, say

if TYPE_CHECKING:
    from kraft.cli.topics.reassignment import Throttle

KEYS_WARNING = (
    "WARNING: If partitions are increased for a topic that has a key, "
    "the partition logic or ordering of the messages will be affected"
)
"""Kafka's warning, word for word."""


class ElectionKind(StrEnum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


DeleteConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--delete-config",
        metavar="KEY",
        help="Config to reset to its default. May be repeated.",
        show_default=False,
    ),
]
ReplicaAssignmentOption = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="ID:ID,ID:ID,...",
        help="Brokers of every partition, including existing ones; only those of new partitions are used.",
        show_default=False,
    ),
]
TopicsFileOption = Annotated[
    Path | None,
    typer.Option(
        "--topics-to-move-json-file",
        metavar="FILE",
        help="JSON file of the topics to move, for --generate.",
        show_default=False,
    ),
]
BrokerListOption = Annotated[
    str | None,
    typer.Option(
        "--broker-list", metavar="ID[,...]", help="Brokers to place replicas on, for --generate.", show_default=False
    ),
]
DisableRackAwareOption = Annotated[
    bool, typer.Option("--disable-rack-aware", help="Do not spread replicas over racks, for --generate.")
]
ReassignmentFileOption = Annotated[
    Path | None,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help="JSON file of partitions and their replicas, for --execute, --verify and --cancel.",
        show_default=False,
    ),
]
AdditionalOption = Annotated[
    bool,
    typer.Option(
        "--additional",
        help="Start even if other moves are unfinished, for --execute. With --throttle, those are throttled, too.",
    ),
]
ThrottleOption = Annotated[
    int | None,
    throttle_option(
        "Most that each broker sends and receives for moves, in bytes per second, for --execute. Give more than "
        "producers write, or the moves do not end. --verify removes it."
    ),
]
DirectoriesThrottleOption = Annotated[
    int | None,
    typer.Option(
        "--replica-alter-log-dirs-throttle",
        metavar="BYTES_PER_SECOND",
        parser=bytes_per_second,
        help="Most that each broker copies between its log directories, in bytes per second, for --execute of a file "
        "with log_dirs. --verify removes it.",
        show_default=False,
    ),
]
PreserveThrottlesOption = Annotated[
    bool, typer.Option("--preserve-throttles", help="Keep the throttles, for --verify and --cancel.")
]
VerifyOption = Annotated[
    bool,
    typer.Option(
        "--verify", help="Show the progress of a reassignment file, and remove the throttles when its moves are over."
    ),
]
CancelOption = Annotated[
    bool,
    typer.Option("--cancel", help="Cancel the unfinished moves of a reassignment file, and remove the throttles."),
]


def alter(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Config to set. May be repeated.", show_default=False),
    ] = None,
    delete_config: DeleteConfigOption = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, help="New total partition count.", show_default=False),
    ] = None,
    replica_assignment: ReplicaAssignmentOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Add partitions to a topic, or change its configs."""
    from kraft.cli.configs import alter_topic

    name = topic_name(positional, topic)
    if partitions is None:
        if replica_assignment is not None:
            raise typer.BadParameter("requires --partitions", param_hint="--replica-assignment")
        configs = key_values(config or [], "--config")
        alter_topic(name, configs, delete_config or [], bootstrap_server, output, timeout_ms)
        return
    if config or delete_config:
        raise typer.BadParameter(
            "cannot be used with config changes: alter partitions and configs separately", param_hint="--partitions"
        )
    assignments = None if replica_assignment is None else _replica_assignment(replica_assignment)
    if assignments is not None and len(assignments) != partitions:
        problem = f"names the brokers of {len(assignments)} partitions, but --partitions is {partitions}"
        raise typer.BadParameter(problem, param_hint="--replica-assignment")
    say(KEYS_WARNING)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if assignments is not None:
            existing = len(admin.describe_topics([name])[0].metadata.partitions)
            assignments = assignments[existing:]
        admin.create_partitions(name, partitions, assignments)
    if output is Output.JSON:
        print_json({"topic": name, "partition_count": partitions})
    else:
        print(f"Topic {name} now has {partitions} partitions.")


def elect_leaders(
    election_type: Annotated[
        ElectionKind,
        typer.Option(
            "--election-type",
            case_sensitive=False,
            help="preferred: the first replica, if it is in sync. unclean: any live replica of a partition without a "
            "leader; records may be lost.",
        ),
    ],
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="Elect leaders of all partitions of the cluster.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            metavar="FILE",
            help="JSON file of topics and partitions, in the format of kafka-leader-election.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Elect preferred or unclean leaders of partitions."""
    from kraft.cli.topics.elections import elect
    from kraft.cli.topics.partition_files import read_partitions
    from kraft.model.ids import TopicPartition
    from kraft.model.partitions import ElectionType

    name = optional_topic_name(positional, topic)
    if [name is not None, all_topic_partitions, path_to_json_file is not None].count(True) != 1:
        what = "choose one: a topic with --partition, --all-topic-partitions, or --path-to-json-file"
        raise typer.BadParameter(what, param_hint="TOPIC")
    if (name is None) != (partition is None):
        raise typer.BadParameter("a topic and --partition require each other: give both", param_hint="--partition")
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
        bool, typer.Option("--generate", help="Propose an assignment of topics to a list of brokers.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Start the moves of a reassignment file.")] = False,
    verify: VerifyOption = False,
    cancel: CancelOption = False,
    list_all: Annotated[bool, typer.Option("--list", help="List all ongoing reassignments.")] = False,
    topics_file: TopicsFileOption = None,
    broker_list: BrokerListOption = None,
    disable_rack_aware: DisableRackAwareOption = False,
    reassignment_file: ReassignmentFileOption = None,
    additional: AdditionalOption = False,
    throttle: ThrottleOption = None,
    directories_throttle: DirectoriesThrottleOption = None,
    preserve_throttles: PreserveThrottlesOption = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Move partitions to other brokers.

    Files and output have the format of kafka-reassign-partitions.
    """
    from kraft.cli.topics import reassignment

    actions = {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel, "--list": list_all}
    action, *others = [option for option, is_chosen in actions.items() if is_chosen] or ["", ""]
    if others:
        raise typer.BadParameter("exactly one is required", param_hint=", ".join(actions))
    limits = reassignment.Throttle(replication=throttle, directories=directories_throttle)
    _check_throttles(limits, preserve_throttles, action)
    wait_s = timeout_ms / 1_000
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if list_all:
            reassignment.list_all(admin, output=output)
        elif generate:
            if topics_file is None or broker_list is None:
                what = f"requires {reassignment.TOPICS_FILE} and {reassignment.BROKER_LIST}"
                raise typer.BadParameter(what, param_hint="--generate")
            reassignment.generate(admin, topics_file, broker_list, rack_aware=not disable_rack_aware, output=output)
        elif reassignment_file is None:
            raise typer.BadParameter(f"requires {reassignment.ASSIGNMENT_FILE}", param_hint=action)
        elif execute:
            reassignment.execute(
                admin, reassignment_file, additional=additional, throttle=limits, output=output, deadline_s=wait_s
            )
        elif verify:
            reassignment.verify(admin, reassignment_file, preserve_throttles=preserve_throttles, output=output)
        else:
            reassignment.cancel(
                admin, reassignment_file, preserve_throttles=preserve_throttles, output=output, deadline_s=wait_s
            )


def _check_throttles(limits: Throttle, preserve_throttles: bool, action: str) -> None:
    """Refuse options of other actions."""
    for option, limit in (
        ("--throttle", limits.replication),
        ("--replica-alter-log-dirs-throttle", limits.directories),
    ):
        if limit is not None and action != "--execute":
            raise typer.BadParameter("requires --execute", param_hint=option)
    if preserve_throttles and action not in ("--verify", "--cancel"):
        raise typer.BadParameter("requires --verify or --cancel", param_hint="--preserve-throttles")


def _replica_assignment(text: str) -> list[list[int]]:
    """Parse Kafka's form: brokers of a partition separated by colons, partitions by commas."""
    try:
        return [[int(broker_id) for broker_id in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text[:100]!r} is not an assignment: expected ID:ID,ID:ID,...", param_hint="--replica-assignment"
        ) from None
