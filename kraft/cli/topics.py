"""`kraft topics`: create, list, describe, alter and delete topics, and delete their oldest records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    TopicArgument,
    TopicOption,
    key_values,
    optional_topic_name,
    topic_name,
)
from kraft.cli.printing import print_json

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.model.requests import PartitionMetadata, TopicDescription

app = typer.Typer(help="Create, list, describe and delete topics.", no_args_is_help=True)


@app.command("create")
def create(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int, typer.Option("--partitions", help="By default the cluster's num.partitions.", show_default=False)
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", help="By default the cluster's default.replication.factor.", show_default=False
        ),
    ] = -1,
    config: Annotated[list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="May be repeated.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing when it is there.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Create a topic."""
    from kraft.model.errors import ErrorCode, Refusal

    name = topic_name(positional, topic)
    configs = key_values(config or [], "--config")
    with _admin(bootstrap_server, timeout_ms) as admin:
        try:
            admin.create_topic(name, partitions, replication_factor, configs)
        except Refusal as refusal:
            if not (if_not_exists and refusal.error_code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            _report(output, name, "created", False, f"Topic {name} exists already.")
        else:
            _report(output, name, "created", True, f"Created topic {name}.")


@app.command("list")
def list_topics(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the topics, one name a line."""
    with _admin(bootstrap_server, timeout_ms) as admin:
        topics = sorted(admin.describe_cluster().topics, key=lambda each: each.topic)
    if output is Output.JSON:
        print_json([{"topic": each.topic, **_shape(each.partitions)} for each in topics])
        return
    for each in topics:
        print(each.topic)


@app.command("describe")
def describe(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show partitions, leaders and replicas of a topic, or of all."""
    name = optional_topic_name(positional, topic)
    with _admin(bootstrap_server, timeout_ms) as admin:
        descriptions = admin.describe_topics([] if name is None else [name])
    if output is Output.JSON:
        print_json([_description(each) for each in descriptions])
        return
    for each in descriptions:
        _print_description(each)


@app.command("delete")
def delete(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing when it is not there.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete a topic and every record in it."""
    from kraft.model.errors import ErrorCode, Refusal

    name = topic_name(positional, topic)
    with _admin(bootstrap_server, timeout_ms) as admin:
        try:
            admin.delete_topics([name])
        except Refusal as refusal:
            if not (if_exists and refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            _report(output, name, "deleted", False, f"Topic {name} does not exist.")
        else:
            _report(output, name, "deleted", True, f"Deleted topic {name}.")


@app.command("delete-records")
def delete_records(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Of the topic.", show_default=False)
    ] = None,
    before_offset: Annotated[
        int | None,
        typer.Option(
            "--before-offset",
            min=-1,
            help="The first record that is kept; -1 deletes everything that is committed.",
            show_default=False,
        ),
    ] = None,
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            metavar="FILE",
            help="Instead: topics, partitions and offsets in JSON, as kafka-delete-records takes it.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete the oldest records of partitions."""
    from kraft.cli.record_offsets import read_offsets
    from kraft.model.ids import TopicPartition

    name = optional_topic_name(positional, topic)
    if offset_json_file is not None:
        if name is not None or partition is not None or before_offset is not None:
            raise typer.BadParameter("the file says all: name no topic beside it", param_hint="--offset-json-file")
        before_offsets = read_offsets(offset_json_file)
    elif name is None or partition is None or before_offset is None:
        raise typer.BadParameter(
            "name a topic, --partition and --before-offset, or an --offset-json-file", param_hint="TOPIC"
        )
    else:
        before_offsets = {TopicPartition(name, partition): before_offset}
    with _admin(bootstrap_server, timeout_ms) as admin:
        low_watermarks = admin.delete_records(before_offsets)
    if output is Output.JSON:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "low_watermark": offset}
                for each, offset in low_watermarks.items()
            ]
        )
        return
    for each, offset in low_watermarks.items():
        print(f"partition: {each}\tlow_watermark: {offset}")


@app.command("alter")
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
    partitions: Annotated[int | None, typer.Option("--partitions", help="Not built yet.", show_default=False)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Set configs of a topic, as `kraft configs alter` does. The number of partitions stays: that is not built yet."""
    from kraft.cli.configs import alter_topic
    from kraft.client import NotBuiltYet

    name = topic_name(positional, topic)
    if partitions is not None:
        raise NotBuiltYet("--partitions: adding partitions to a topic is not built yet")
    alter_topic(name, key_values(config or [], "--config"), delete_config or [], bootstrap_server, output, timeout_ms)


def _admin(bootstrap_server: str, timeout_ms: int) -> Admin:
    from kraft.client import Admin

    return Admin(bootstrap_server, default_api_timeout_ms=timeout_ms)


def _report(output: Output, topic: str, word: str, happened: bool, sentence: str) -> None:
    if output is Output.JSON:
        print_json({"topic": topic, word: happened})
    else:
        print(sentence)


def _shape(partitions: list[PartitionMetadata]) -> dict[str, int]:
    factor = max((len(partition.replicas) for partition in partitions), default=0)
    return {"partition_count": len(partitions), "replication_factor": factor}


def _description(description: TopicDescription) -> dict[str, Any]:
    from kraft.model.ids import uuid_to_text

    metadata = description.metadata
    return {
        "topic": metadata.topic,
        "topic_id": uuid_to_text(metadata.topic_id),
        **_shape(metadata.partitions),
        "configs": description.configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader_id if each.leader_id >= 0 else None,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "offline_replicas": each.offline_replicas,
            }
            for each in metadata.partitions
        ],
    }


def _print_description(description: TopicDescription) -> None:
    """Line for line as kafka-topics.sh prints it, because scripts and eyes know that form."""
    from kraft.model.ids import uuid_to_text

    metadata = description.metadata
    shape = _shape(metadata.partitions)
    configs = ",".join(f"{key}={value}" for key, value in sorted(description.configs.items()))
    print(
        f"Topic: {metadata.topic}\tTopicId: {uuid_to_text(metadata.topic_id)}"
        f"\tPartitionCount: {shape['partition_count']}\tReplicationFactor: {shape['replication_factor']}"
        f"\tConfigs: {configs}"
    )
    for each in metadata.partitions:
        leader = each.leader_id if each.leader_id >= 0 else "none"
        print(
            f"\tTopic: {metadata.topic}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {_joined(each.replicas)}\tIsr: {_joined(each.isr)}"
        )


def _joined(broker_ids: list[int]) -> str:
    return ",".join(map(str, broker_ids))
