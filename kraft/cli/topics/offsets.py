"""`kraft topics offsets`, with the output of kafka-get-offsets.sh, which scripts parse."""

from __future__ import annotations

from collections.abc import Sequence
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
from kraft.cli.partition_choice import chosen_partitions
from kraft.cli.printing import fail, print_json
from kraft.model.errors import KraftError
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin, TopicPartition

_WORDS: Final = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "-1": LATEST_TIMESTAMP,
    "-2": EARLIEST_TIMESTAMP,
    "-3": MAX_TIMESTAMP,
}
"""Times by what `--time` may be; the numbers are Kafka's."""


def offsets(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    time: Annotated[
        str, typer.Option("--time", help="latest, earliest, max-timestamp, or milliseconds since 1970.")
    ] = "latest",
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the end, start or another offset of partitions."""
    timestamp_ms = _timestamp_of(time)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        _show(admin, chosen_partitions(admin, positional, topic, partition), timestamp_ms, output)


def _timestamp_of(time: str) -> int:
    """Return the timestamp that `--time` names. Raises BadParameter."""
    if time in _WORDS:
        return _WORDS[time]
    if time.isascii() and time.isdigit():
        return int(time)
    raise typer.BadParameter(
        f"{time!r} is no time: expected latest, earliest, max-timestamp or milliseconds since 1970", param_hint="--time"
    )


def _show(admin: Admin, partitions: Sequence[TopicPartition], timestamp_ms: int, output: Output) -> None:
    """Print the offset of each partition, none if all records are older. Ends with 1 after errors."""
    found = admin.list_offsets(dict.fromkeys(partitions, timestamp_ms)) if partitions else {}
    failed = [(each, outcome) for each, outcome in sorted(found.items()) if isinstance(outcome, KraftError)]
    known = [(each, outcome.offset) for each, outcome in sorted(found.items()) if not isinstance(outcome, KraftError)]
    if output is Output.JSON:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "offset": offset if offset >= 0 else None}
                for each, offset in known
            ]
        )
    else:
        for each, offset in known:
            print(f"{each.topic}:{each.partition}:{offset if offset >= 0 else ''}")
    if failed:
        partition, error = failed[0]
        fail(f"{counted(len(failed), 'partition')} could not be asked; the first error is of {partition}: {error}")
