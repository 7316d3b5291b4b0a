"""`kraft verify`: a producer and a consumer that print each of their results as a line of JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kraft.cli.client_settings import (
    ProducerConfigOption,
    ProducerPropertyOption,
    producer_settings,
)
from kraft.cli.consumer_settings import ConsumerConfigOption, ConsumerPropertyOption, consumer_settings
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    BootstrapServerOrBrokerList,
    TopicArgument,
    TopicOption,
    command_network,
    topic_name,
)
from kraft.cli.perf.options import Throughput
from kraft.cli.quorum_watch import quorum_watch

app = typer.Typer(help="Clients that print each result as JSON.", no_args_is_help=True)

MessageCount = Annotated[int, typer.Option("--max-messages", min=-1, help="How many records; -1 has no end.")]


@app.callback()
def verify() -> None:
    """Clients that print each result as JSON."""


@app.command("produce")
def produce(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    max_messages: MessageCount = -1,
    throughput: Throughput = -1,
    acks: Annotated[str, typer.Option("--acks", help="Acknowledgements to wait for: all, 1 or 0.")] = "all",
    create_time: Annotated[
        int,
        typer.Option("--message-create-time", metavar="MS", help="Timestamp of the first record; -1 for the present."),
    ] = -1,
    value_prefix: Annotated[
        int | None, typer.Option("--value-prefix", help="Number before each value, with a dot.", show_default=False)
    ] = None,
    repeating_keys: Annotated[
        int | None,
        typer.Option("--repeating-keys", min=1, help="Keys from 0 up to this, again and again.", show_default=False),
    ] = None,
    producer_config: ProducerConfigOption = None,
    producer_property: ProducerPropertyOption = None,
    bootstrap_server: BootstrapServerOrBrokerList = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Send growing numbers and print each result.

    The lines are those of Kafka's VerifiableProducer. Ctrl-C and SIGTERM end it, with the last lines. Exit code 1 if a
    record was not stored.
    """
    from kraft.client import Producer
    from kraft.perf.verifiable import NumberSender, NumbersToSend

    settings = producer_settings(producer_config, bootstrap_server, producer_property, acks=acks)
    numbers = NumbersToSend(
        topic=topic_name(positional, topic),
        messages_max=max_messages,
        records_per_s=throughput,
        create_time_ms=create_time,
        value_prefix=value_prefix,
        repeating_keys=repeating_keys,
    )
    events = _Events()
    producer = Producer(**settings, network=command_network())
    sender = NumberSender(producer, numbers, events.emit)
    try:
        with producer, quorum_watch(settings["bootstrap_servers"]):
            producer.partitions_for(numbers.topic)
            sender.run()
    finally:
        sender.end()
    if events.errors:
        raise typer.Exit(1)


@app.command("consume")
def consume(
    group_id: Annotated[str, typer.Option("--group-id", "--group", help="Group to read in.", show_default=False)],
    positional: TopicArgument = None,
    topic: TopicOption = None,
    max_messages: MessageCount = -1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print each record, too.")] = False,
    enable_autocommit: Annotated[
        bool, typer.Option("--enable-autocommit", help="Let the consumer commit by itself.")
    ] = False,
    reset_policy: Annotated[
        str, typer.Option("--reset-policy", help="Where to begin without a commit: earliest, latest or none.")
    ] = "earliest",
    group_protocol: Annotated[
        str | None, typer.Option("--group-protocol", help="consumer or classic. [default: consumer]")
    ] = None,
    remote_assignor: Annotated[
        str | None, typer.Option("--group-remote-assignor", help="Assignor on the broker, with consumer.")
    ] = None,
    instance_id: Annotated[
        str | None, typer.Option("--group-instance-id", help="Name of a static member.", show_default=False)
    ] = None,
    session_timeout: Annotated[
        int | None, typer.Option("--session-timeout", min=1, metavar="MS", help="session.timeout.ms, with classic.")
    ] = None,
    consumer_config: ConsumerConfigOption = None,
    consumer_property: ConsumerPropertyOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Read in a group and print what happens.

    The lines are those of Kafka's VerifiableConsumer: partitions assigned and revoked, records read, offsets committed.
    """
    from kraft.client import Consumer
    from kraft.perf.verifiable import RecordsToRead, read

    settings = consumer_settings(
        consumer_config, bootstrap_server, group_id, from_beginning=False, properties=consumer_property
    )
    chosen = {
        "auto_offset_reset": reset_policy,
        "enable_auto_commit": enable_autocommit,
        "group_protocol": group_protocol and group_protocol.lower(),
        "group_remote_assignor": remote_assignor,
        "group_instance_id": instance_id,
        "session_timeout_ms": session_timeout,
    }
    settings |= {name: value for name, value in chosen.items() if value is not None}
    wanted = RecordsToRead(
        topic=topic_name(positional, topic),
        messages_max=max_messages,
        shows_records=verbose,
        commits=not enable_autocommit,
    )
    events = _Events()
    try:
        with Consumer(**settings, network=command_network()) as consumer, quorum_watch(settings["bootstrap_servers"]):
            read(consumer, wanted, events.emit)
    finally:
        events.emit("shutdown_complete", {})


class _Events:
    """Prints events, each on a line, whatever thread they are of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.errors = 0

    def emit(self, name: str, fields: Mapping[str, Any]) -> None:
        line = json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}, separators=(",", ":"))
        with self._lock:
            self.errors += name == "producer_send_error"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
