"""`kraft transactions find-hanging`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    open_admin,
    optional_topic_name,
)
from kraft.cli.partition_choice import chosen_partitions
from kraft.cli.printing import fail, print_columns, print_json, say
from kraft.cli.transactions.choice import BrokerIdOption
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.health.hanging import OpenInPartition

_MS_PER_MINUTE: Final = 60_000


def find_hanging(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker_id: BrokerIdOption = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="MINUTES",
            help="Leave out transactions whose producer has written within this time.",
        ),
    ] = 15,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Find transactions that no coordinator will end.

    Searches one partition, a topic, or all topics. A transaction with HoldsLastStableOffset is the one up to which
    consumers of committed records read its partition. The command that aborts each transaction is printed as well.
    """
    from kraft.health import hanging

    if partition is not None and optional_topic_name(positional, topic) is None:
        raise typer.BadParameter("needs a topic: name one", param_hint="--partition")
    now_ms = int(time.time() * 1_000)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        partitions = chosen_partitions(admin, positional, topic, partition, broker_id)
        idle_ms = max_transaction_timeout * _MS_PER_MINUTE
        found = hanging.find_hanging(admin, partitions, broker_id, idle_ms, now_ms)
    if output is Output.JSON:
        print_json([transaction_as_json(each, now_ms) for each in found.hanging])
    else:
        print_transactions(found.hanging, now_ms)
        for each in found.hanging:
            say(f"To abort it: {abort_command(each, bootstrap_server)}")
        if found.open and not found.hanging:
            many = counted(found.open, "transaction")
            say(f"Open: {many}, of which none hangs: see kraft transactions list --state Ongoing")
    if found.failed:
        reason = next(iter(found.failed.values()))
        fail(f"{counted(len(found.failed), 'partition')} could not be searched; the first error is: {reason}")


def abort_command(transaction: OpenInPartition, bootstrap_server: str) -> str:
    """Return the command that aborts the transaction."""
    partition = transaction.partition
    return (
        f"kraft transactions abort --topic {partition.topic} --partition {partition.partition} "
        f"--start-offset {transaction.start_offset} --execute --bootstrap-server {bootstrap_server}"
    )


def print_transactions(transactions: Sequence[OpenInPartition], now_ms: int) -> None:
    """Print a table with Kafka's columns, and after them our own."""
    titles = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"]
    titles += ["Duration(min)", "Duration(s)", "HoldsLastStableOffset", "TransactionalId"]
    rows = []
    for each in transactions:
        seconds = each.seconds_since_write(now_ms)
        rows.append(
            (
                each.partition.topic,
                each.partition.partition,
                each.producer.producer_id,
                each.producer.producer_epoch,
                each.producer.coordinator_epoch,
                each.start_offset,
                each.producer.last_timestamp,
                int(seconds / 60),
                round(seconds),
                str(each.holds_last_stable_offset).lower(),
                each.transactional_id or "None",
            )
        )
    print_columns(titles, rows)


def transaction_as_json(transaction: OpenInPartition, now_ms: int) -> dict[str, Any]:
    return {
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.producer_epoch,
        "coordinator_epoch": transaction.producer.coordinator_epoch,
        "start_offset": transaction.start_offset,
        "last_timestamp_ms": transaction.producer.last_timestamp,
        "duration_seconds": transaction.seconds_since_write(now_ms),
        "holds_last_stable_offset": transaction.holds_last_stable_offset,
        "transactional_id": transaction.transactional_id,
    }
