"""`kraft produce`: send lines of standard input as records."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli.client_settings import (
    ProducerConfigOption,
    ProducerPropertyOption,
    producer_settings,
)
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServerOrBrokerList,
    TopicArgument,
    TopicOption,
    command_network,
    key_values,
    topic_name,
)
from kraft.cli.printing import ProgressLine, say
from kraft.cli.quorum_watch import quorum_watch
from kraft.cli.record_lines import LineFormat, Lines, line_format
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

_CODEC_KEYS: Final = frozenset({"compression_type", "compression_codec"})


TopicTimeout = Annotated[
    int,
    typer.Option(
        "--timeout-ms",
        min=1,
        help="Longest wait for the topic and for buffer memory, in milliseconds. Records are retried for 2 min.",
    ),
]
KeySeparatorOption = Annotated[
    str | None,
    typer.Option("--key-separator", help="Text between key and value on each line. By default lines have no key."),
]
LinePropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="parse.key=true, parse.headers=true, key.separator=TEXT and the like, as in Kafka. May be repeated.",
    ),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="KEY=VALUE", help="Header of every record. May be repeated."),
]
AcksOption = Annotated[
    str | None,
    typer.Option("--acks", help="Acknowledgements to wait for: all, 1 or 0. [default: all]", show_default=False),
]
CompressionTypeOption = Annotated[
    str | None,
    typer.Option(
        "--compression-type", help="Codec: none, gzip, snappy, lz4 or zstd. [default: lz4]", show_default=False
    ),
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", help="Largest batch, in bytes. [default: 262144]", show_default=False)
]
LingerOption = Annotated[
    int | None,
    typer.Option(
        "--linger-ms",
        help="Longest wait for more records of a batch, in milliseconds. [default: 5]",
        show_default=False,
    ),
]


def produce(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    key_separator: KeySeparatorOption = None,
    properties: LinePropertyOption = None,
    header: HeaderOption = None,
    acks: AcksOption = None,
    compression_type: CompressionTypeOption = None,
    batch_size: BatchSizeOption = None,
    linger_ms: LingerOption = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Partition of every record. By default the key decides.")
    ] = None,
    producer_config: ProducerConfigOption = None,
    producer_property: ProducerPropertyOption = None,
    bootstrap_server: BootstrapServerOrBrokerList = DEFAULT_BOOTSTRAP_SERVER,
    timeout_ms: TopicTimeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Send each line of standard input as a record."""
    from kraft.client import Producer

    name = topic_name(positional, topic)
    lines = line_format(key_separator, key_values(properties or [], "--property"), key_values(header or [], "--header"))
    settings = producer_settings(
        producer_config,
        bootstrap_server,
        producer_property,
        acks=acks,
        compression_type=compression_type,
        batch_size=batch_size,
        linger_ms=linger_ms,
        max_block_ms=None if timeout_ms == DEFAULT_TIMEOUT_MS else timeout_ms,
    )
    if not settings.keys() & _CODEC_KEYS:
        settings["compression_type"] = "lz4"
    producer = Producer(**settings, network=command_network())
    sending = _Sending(producer, name, lines, partition)
    with producer:
        # A missing topic is an error before the user types anything.
        with quorum_watch(settings["bootstrap_servers"]):
            producer.partitions_for(name)
        with quorum_watch(settings["bootstrap_servers"], sending.say, sending.is_delayed):
            sending.run()
    say(sending.outcome())


class _Sending:
    """Lines of standard input on their way to a topic."""

    def __init__(self, producer: Producer, topic: str, line_format: LineFormat, partition: int | None) -> None:
        self._progress = ProgressLine("records stored")
        self._producer = producer
        self._topic = topic
        self._format = line_format
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
            records = self._format.records(lines, self._lines_read)
            self._lines_read += len(lines)
            self._waiting.append(self._send(records))
            while self._waiting and self._waiting[0].done():
                self._stored += self._waiting.pop(0).result().records
            if time.monotonic() - shown_at_s >= _PROGRESS_INTERVAL_S:
                shown_at_s = time.monotonic()
                self._progress.show(self._stored)
        self._producer.flush()
        self._progress.clear()
        for future in self._waiting:
            future.result()

    def _send(self, records: Lines) -> Future[Delivery]:
        if records.headers is None:
            return self._producer.produce_many(self._topic, records.values, records.keys, partition=self._partition)
        from kraft.client import ColumnsToSend

        columns = ColumnsToSend(
            values=list(records.values), keys=records.keys, headers=records.headers, partitions=self._partition
        )
        return self._producer.send_columns(self._topic, columns)

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
