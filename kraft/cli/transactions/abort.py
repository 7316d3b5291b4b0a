"""`kraft transactions abort`: ends a hanging transaction in one partition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final

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
)
from kraft.cli.partition_choice import one_partition
from kraft.cli.printing import fail, print_json, say
from kraft.cli.transactions.search import print_transactions, transaction_as_json

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.health.hanging import OpenInPartition
    from kraft.model.ids import TopicPartition

StartOffsetOption = Annotated[
    int | None, typer.Option("--start-offset", min=0, help="First offset of the transaction.", show_default=False)
]
ProducerIdOption = Annotated[
    int | None,
    typer.Option(
        "--producer-id", min=0, help="Producer id of the transaction, instead of --start-offset.", show_default=False
    ),
]
_EPOCH_HELP: Final = "{} epoch of the marker. With --producer-id."
ProducerEpochOption = Annotated[
    int | None,
    typer.Option("--producer-epoch", min=0, max=2**15 - 1, help=_EPOCH_HELP.format("Producer"), show_default=False),
]
CoordinatorEpochOption = Annotated[
    int | None,
    typer.Option(
        "--coordinator-epoch", min=-1, max=2**31 - 1, help=_EPOCH_HELP.format("Coordinator"), show_default=False
    ),
]


def abort(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    start_offset: StartOffsetOption = None,
    producer_id: ProducerIdOption = None,
    producer_epoch: ProducerEpochOption = None,
    coordinator_epoch: CoordinatorEpochOption = None,
    execute: Annotated[bool, typer.Option("--execute", help="Abort the transaction.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Abort a hanging transaction in one partition.

    Consumers of committed records then go on. Only shows the transaction, unless --execute is given. A transaction that
    its coordinator is going to end does not hang, and is refused: aborted in one partition, it could still be committed
    in the others.
    """
    from kraft.health.hanging import why_not_hanging

    chosen = one_partition(positional, topic, partition)
    _check_options(start_offset, producer_id, producer_epoch, coordinator_epoch)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        transaction = _open_transaction(admin, chosen, start_offset, producer_id)
        objection = why_not_hanging(admin, transaction)
        is_refused = execute and objection is not None
        if execute and not is_refused:
            admin.abort_transaction(
                chosen,
                transaction.producer.producer_id,
                transaction.producer.producer_epoch if producer_epoch is None else producer_epoch,
                transaction.producer.coordinator_epoch if coordinator_epoch is None else coordinator_epoch,
            )
    if is_refused:
        fail(f"{objection}: its producer or its timeout ends it")
    now_ms = int(time.time() * 1_000)
    if output is Output.JSON:
        is_hanging = objection is None
        print_json({"executed": execute, "hanging": is_hanging, **transaction_as_json(transaction, now_ms)})
    else:
        print_transactions([transaction], now_ms)
    if execute:
        say(f"Aborted in {chosen}.")
    elif objection is not None:
        say(f"Warning: {objection}: its producer or its timeout ends it.")
        say("Dry run: nothing was changed.")
    else:
        say("Dry run: nothing was changed. Add --execute to abort this transaction.")


def _check_options(
    start_offset: int | None, producer_id: int | None, producer_epoch: int | None, coordinator_epoch: int | None
) -> None:
    """Raise BadParameter unless the options name one transaction."""
    if (start_offset is None) == (producer_id is None):
        raise typer.BadParameter("exactly one is required", param_hint="--start-offset, --producer-id")
    for option, epoch in (("--producer-epoch", producer_epoch), ("--coordinator-epoch", coordinator_epoch)):
        if (epoch is None) != (producer_id is None):
            needed = "is required with --producer-id" if epoch is None else "is used with --producer-id only"
            raise typer.BadParameter(needed, param_hint=option)


def _open_transaction(
    admin: Admin, partition: TopicPartition, start_offset: int | None, producer_id: int | None
) -> OpenInPartition:
    """Return the open transaction that the options name. Raises KraftError."""
    from kraft.health.hanging import open_transactions

    producers = admin.describe_producers([partition])[partition]
    if isinstance(producers, Exception):
        raise producers
    found = next(
        (
            each
            for each in open_transactions({partition: producers})
            if start_offset in (None, each.start_offset) and producer_id in (None, each.producer.producer_id)
        ),
        None,
    )
    if found is None:
        named = f"begins at offset {start_offset}" if producer_id is None else f"belongs to producer id {producer_id}"
        fail(
            f"no open transaction in {partition} {named}: `kraft transactions describe-producers` shows those there are"
        )
    return found
