"""`kraft produce`: send lines of standard input as records."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.command_security import connection_settings
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    REFUSED_TIMEOUT_MS,
    BootstrapServer,
    TopicArgument,
    TopicOption,
    command_network,
    key_values,
    topic_name,
)
from kraft.cli.printing import ProgressLine, say
from kraft.cli.quorum_watch import quorum_watch
from kraft.cli.send_delays import SendDelays
from kraft.model.printable import counted

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kraft.client import Delivery, Producer

READ_BYTES: Final = 1 << 18
"""Bytes per read from a file or pipe; a terminal returns one line at a time."""

INTERRUPTED_FLUSH_MS: Final = 1_000
"""Longest wait for records to be stored after Ctrl-C."""

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
        network=command_network(),
        acks=acks,
        compression_type=compression_type,
        max_block_ms=timeout_ms,
        bootstrap_refused_timeout_ms=REFUSED_TIMEOUT_MS,
        **connection_settings(),
        **{key: value for key, value in settings.items() if value is not None},
    )
    sending = _Sending(producer, name, separator, partition)
    with producer:
        # A missing topic is an error before the user types anything.
        with quorum_watch(bootstrap_server):
            producer.partitions_for(name)
        with quorum_watch(bootstrap_server, sending.say, sending.is_delayed):
            sending.run()
    say(sending.outcome())


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


class _Sending:
    """Lines of standard input on their way to a topic."""

    def __init__(self, producer: Producer, topic: str, separator: bytes | None, partition: int | None) -> None:
        self._progress = ProgressLine("records stored")
        self._producer = producer
        self._topic = topic
        self._separator = separator
        self._partition = partition
        self._lines_read = 0
        self._stored = 0
        self._waiting: list[Future[Delivery]] = []
        self._oldest: Future[Delivery] | None = None

    def run(self) -> None:
        """Send each line and wait until it is stored. Raises the first error of a record that is not.

        Reports delays meanwhile, and on a KeyboardInterrupt what is stored.
        """
        with SendDelays(self._producer, self._progress.say):
            try:
                self._send_all()
            except KeyboardInterrupt:
                self._end_early()
                raise

    def _send_all(self) -> None:
        shown_at_s = time.monotonic()
        for lines in _lines():
            keys, values = _split(lines, self._separator, self._lines_read)
            self._lines_read += len(lines)
            self._waiting.append(self._producer.produce_many(self._topic, values, keys, partition=self._partition))
            while self._waiting and self._waiting[0].done():
                self._stored += self._waiting.pop(0).result().records
            if time.monotonic() - shown_at_s >= _PROGRESS_INTERVAL_S:
                shown_at_s = time.monotonic()
                self._progress.show(self._stored)
        self._producer.flush()
        self._progress.clear()
        for future in self._waiting:
            future.result()

    def _end_early(self) -> None:
        """Give the last records a moment, unless Ctrl-C is pressed again, then report what is stored."""
        try:
            self._producer.flush(INTERRUPTED_FLUSH_MS)
        finally:
            self._progress.say(f"Interrupted: {self.outcome()}")

    def say(self, text: str) -> None:
        self._progress.say(text)

    def is_delayed(self) -> bool:
        """Return whether the oldest records that wait to be stored are still those of the last call."""
        before = self._oldest
        self._oldest = next((future for future in tuple(self._waiting) if not future.done()), None)
        return self._oldest is not None and self._oldest is before

    def outcome(self) -> str:
        """Return how many records are stored, and of how many lines that is not known."""
        ended = [future for future in self._waiting if future.done() and future.exception() is None]
        stored = self._stored + sum(future.result().records for future in ended)
        unknown = self._lines_read - stored
        text = f"{counted(stored, 'record')} stored in {self._topic}"
        return f"{text}, {unknown:,} not known to be stored" if unknown else text


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


def _split(
    lines: list[bytes], separator: bytes | None, lines_before: int
) -> tuple[list[bytes | None] | None, list[bytes]]:
    """Return keys and values; without a separator, the lines are values and there are no keys."""
    if separator is None:
        return None, lines
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
