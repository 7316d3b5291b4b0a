"""`kraft produce`: send lines of standard input as records."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    REFUSED_TIMEOUT_MS,
    BootstrapServer,
    TopicArgument,
    TopicOption,
    key_values,
    topic_name,
)
from kraft.cli.printing import Progress, say

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kraft.client import Delivery, Producer

READ_BYTES: Final = 1 << 18
"""Bytes per read from a file or pipe; a terminal returns one line at a time."""

_PROGRESS_INTERVAL_S: Final = 0.2
_PROPERTIES: Final = ("parse.key", "key.separator")


TopicTimeout = Annotated[
    int,
    typer.Option(
        "--timeout-ms",
        min=1,
        help="Longest wait for the topic and for buffer memory, in milliseconds. Records are retried for 2 min.",
    ),
]


def produce(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", help="Text between key and value on each line. By default lines have no key."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="KEY=VALUE",
            help="parse.key=true or key.separator=TEXT, as in Kafka. May be repeated.",
        ),
    ] = None,
    acks: Annotated[str, typer.Option("--acks", help="Acknowledgements to wait for: all, 1 or 0.")] = "all",
    compression_type: Annotated[
        str, typer.Option("--compression-type", help="Codec: none, gzip, snappy, lz4 or zstd.")
    ] = "lz4",
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Largest batch, in bytes. [default: 262144]", show_default=False)
    ] = None,
    linger_ms: Annotated[
        int | None,
        typer.Option(
            "--linger-ms",
            help="Longest wait for more records of a batch, in milliseconds. [default: 5]",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Partition of every record. By default the key decides.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    timeout_ms: TopicTimeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Send each line of standard input as a record."""
    from kraft.client import Producer

    name = topic_name(positional, topic)
    separator = _separator(key_separator, key_values(properties or [], "--property"))
    settings: dict[str, Any] = {"batch_size": batch_size, "linger_ms": linger_ms}
    producer = Producer(
        bootstrap_server,
        acks=acks,
        compression_type=compression_type,
        max_block_ms=timeout_ms,
        bootstrap_refused_timeout_ms=REFUSED_TIMEOUT_MS,
        **{key: value for key, value in settings.items() if value is not None},
    )
    with producer:
        # A missing topic is an error before the user types anything.
        producer.partitions_for(name)
        stored = _send_lines(producer, name, separator, partition)
    say(f"{stored:,} record{'' if stored == 1 else 's'} stored in {name}")


def _separator(option: str | None, properties: dict[str, str]) -> bytes | None:
    """Return the separator of key and value; None if lines are values only. Raises BadParameter."""
    for name in properties:
        if name not in _PROPERTIES:
            raise typer.BadParameter(f"{name} is unknown: use {' or '.join(_PROPERTIES)}", param_hint="--property")
    if option is None and properties.get("parse.key", "false").lower() == "true":
        option = properties.get("key.separator", "\t")
    if option == "":
        raise typer.BadParameter("is empty: give at least one character", param_hint="--key-separator")
    # Python decodes undecodable bytes of arguments to surrogates; fsencode restores the bytes.
    return None if option is None else os.fsencode(option)


def _send_lines(producer: Producer, topic: str, separator: bytes | None, partition: int | None) -> int:
    """Return the number of records stored. Raises the first error of a record that is not."""
    progress = Progress("records stored")
    waiting: list[Future[Delivery]] = []
    stored = lines_read = 0
    shown_at_s = time.monotonic()
    for lines in _lines():
        keys, values = (None, lines) if separator is None else _split(lines, separator, lines_read)
        lines_read += len(lines)
        waiting.append(producer.produce_many(topic, values, keys, partition=partition))
        while waiting and waiting[0].done():
            stored += waiting.pop(0).result().records
        if time.monotonic() - shown_at_s >= _PROGRESS_INTERVAL_S:
            shown_at_s = time.monotonic()
            progress.show(stored)
    producer.flush()
    progress.clear()
    return stored + sum(future.result().records for future in waiting)


def _lines() -> Iterator[list[bytes]]:
    """Yield the available lines, without their line ends."""
    descriptor = sys.stdin.fileno()
    rest = b""
    while read := os.read(descriptor, READ_BYTES):
        *lines, rest = (rest + read).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _split(lines: list[bytes], separator: bytes, lines_before: int) -> tuple[list[bytes | None], list[bytes]]:
    keys: list[bytes | None] = []
    values: list[bytes] = []
    for number, line in enumerate(lines, start=lines_before + 1):
        key, found, value = line.partition(separator)
        if not found:
            from kraft.client import KraftError

            raise KraftError(f"line {number} has no key separator {separator.decode(errors='replace')!r}")
        keys.append(key)
        values.append(value)
    return keys, values
