"""`kraft transactions`: transactional ids, the producers of partitions, and hanging transactions.

The tables have the columns of kafka-transactions.sh, and after them our own.
"""

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
    listed_words,
    open_admin,
)
from kraft.cli.partition_choice import one_partition
from kraft.cli.printing import print_columns, print_json
from kraft.cli.transactions.abort import abort
from kraft.cli.transactions.choice import BrokerIdOption
from kraft.cli.transactions.search import find_hanging

if TYPE_CHECKING:
    from kraft.client import TransactionDescription, TransactionListing
    from kraft.wire.schema.describe_producers import ProducerState

app = typer.Typer(help="Show transactions and producers; end hanging ones.", no_args_is_help=True)

STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of a transaction that is not complete."""


@app.command("list")
def list_transactions(
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE[,...]", help="Only transactional ids in these states, such as Ongoing."),
    ] = None,
    duration_ms: Annotated[
        int | None,
        typer.Option(
            "--duration-filter", "--duration", metavar="MS", help="Only transactions that began longer ago than this."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--transactional-id-pattern",
            "--pattern",
            metavar="REGEX",
            help="Only transactional ids that match this regular expression as a whole.",
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", help="Only the transactional id with this producer id. May be repeated."),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the transactional ids."""
    chosen = listed_words(state, STATES, "--state")
    # Imported late, because commands that only print their help are fast without it.
    from kraft.client.cluster.any_broker import as_far_as_known

    with open_admin(bootstrap_server, timeout_ms) as admin:
        listed, missing = as_far_as_known(
            lambda: admin.list_transactions(
                states=chosen, producer_ids=producer_id or (), duration_ms=duration_ms, pattern=pattern or ""
            )
        )
    _print_listed(listed, output)
    if missing is not None:
        raise missing


def _print_listed(listed: Sequence[TransactionListing], output: Output) -> None:
    if output is Output.JSON:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator_id": each.coordinator_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in listed
            ]
        )
        return
    titles = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    print_columns(
        titles, [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in listed]
    )


@app.command("describe")
def describe(
    positional: Annotated[
        list[str] | None, typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional ids.")
    ] = None,
    transactional_id: Annotated[
        list[str] | None, typer.Option("--transactional-id", help="Same as TRANSACTIONAL-ID. May be repeated.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the transactions of transactional ids.

    An id without an open transaction shows its last one. Duration(s) is the age of an open transaction, in seconds.
    """
    named = [*(positional or ()), *(transactional_id or ())]
    if not named:
        raise typer.BadParameter("no transactional id is given: name one", param_hint="TRANSACTIONAL-ID")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        outcomes = admin.describe_transactions(named)
    found = [each for each in outcomes.values() if not isinstance(each, Exception)]
    now_ms = int(time.time() * 1_000)
    if output is Output.JSON:
        print_json([_description_as_json(each, now_ms) for each in found])
    elif found:
        _print_descriptions(found, now_ms)
    for outcome in outcomes.values():
        if isinstance(outcome, Exception):
            raise outcome


@app.command("describe-producers")
def describe_producers(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker_id: BrokerIdOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the producers of a partition.

    These are its idempotent and transactional producers, as its leader knows them. Age(s) is the time since the
    producer's last batch or marker, in seconds.
    """
    chosen = one_partition(positional, topic, partition)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        producers = admin.describe_producers([chosen], broker_id=broker_id)[chosen]
    if isinstance(producers, Exception):
        raise producers
    now_ms = int(time.time() * 1_000)
    if output is Output.JSON:
        print_json([_producer_as_json(each, now_ms) for each in producers])
        return
    titles = ("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp")
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            _or_none(_start_offset(each)),
            round(_age_seconds(each, now_ms)),
        )
        for each in producers
    ]
    print_columns((*titles, "CurrentTransactionStartOffset", "Age(s)"), rows)


app.command("find-hanging")(find_hanging)
app.command("abort")(abort)


def _print_descriptions(transactions: Sequence[TransactionDescription], now_ms: int) -> None:
    titles = ["CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"]
    titles += ["TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"]
    rows = []
    for each in transactions:
        seconds = _open_seconds(each, now_ms)
        rows.append(
            (
                each.coordinator.node_id,
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.state,
                each.timeout_ms,
                _or_none(each.start_ms),
                _or_none(each.duration_ms(now_ms)),
                _or_none(",".join(map(str, each.partitions)) or None),
                _or_none(None if seconds is None else round(seconds)),
            )
        )
    print_columns([*titles, "Duration(s)"], rows)


def _or_none(value: object) -> object:
    """Return what Kafka's tables have for a value that there is not."""
    return "None" if value is None else value


def _open_seconds(transaction: TransactionDescription, now_ms: int) -> float | None:
    """Return the time since an open transaction began; None if none is open."""
    duration_ms = transaction.duration_ms(now_ms)
    return None if duration_ms is None or transaction.state not in OPEN_STATES else duration_ms / 1_000


def _start_offset(producer: ProducerState) -> int | None:
    return None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset


def _age_seconds(producer: ProducerState, now_ms: int) -> float:
    return max(0, now_ms - producer.last_timestamp) / 1_000


def _description_as_json(transaction: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": {
            "broker_id": transaction.coordinator.node_id,
            "host": transaction.coordinator.host,
            "port": transaction.coordinator.port,
        },
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.state,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_ms,
        "duration_seconds": _open_seconds(transaction, now_ms),
        "partitions": [{"topic": each.topic, "partition": each.partition} for each in transaction.partitions],
    }


def _producer_as_json(producer: ProducerState, now_ms: int) -> dict[str, Any]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp_ms": producer.last_timestamp,
        "transaction_start_offset": _start_offset(producer),
        "age_seconds": _age_seconds(producer, now_ms),
    }
