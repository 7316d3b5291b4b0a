"""`kraft consume`: print records on standard output."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import Struct

from kraft.cli.consumer_settings import (
    EARLIEST,
    ConsumerConfigOption,
    ConsumerPropertyOption,
    GroupOption,
    IsolationLevelOption,
    consumer_settings,
)
from kraft.cli.group_watch import group_watch
from kraft.cli.open_transaction_watch import open_transaction_watch
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    IncludeOption,
    Output,
    TopicArgument,
    TopicOption,
    command_network,
    key_values,
    topic_or_pattern,
)
from kraft.cli.printing import fail, say
from kraft.cli.quorum_watch import IDLE_LOOK_EVERY_S, quorum_watch
from kraft.cli.record_format import Formatter, json_line, kafka_format, parse_format

if TYPE_CHECKING:
    from kraft.client import Consumer, TopicPartition

POLL_MS: Final = 500
"""Longest delay of Ctrl-C and of --timeout-ms while no records arrive."""

LEAVE_MAX_MS: Final = 3_000
"""Longest wait for the coordinator when the user interrupts the command."""

OWN_GROUPS: Final = 100_000
"""Numbers of groups without a name, as many as Kafka's console consumer has."""

_RECORDS_AT_A_TIME: Final = 10_000
_WORDS: Final = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}

FromBeginningOption = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Start at the first record; by default only new records are printed. In a group: only where no offset "
        "is committed, see kraft groups reset-offsets.",
    ),
]

IdleTimeoutOption = Annotated[
    int | None,
    typer.Option("--timeout-ms", min=1, help="Stop when no record has arrived for this many milliseconds."),
]
RecordFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=r"Output format of a record: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, "
        r"%h headers, %% percent sign, \t \n \r \\. [default: %v]",
        show_default=False,
    ),
]
FormatterPropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "--formatter-property",
        metavar="KEY=VALUE",
        help="print.key=true and the like, as in kafka-console-consumer. May be repeated.",
        show_default=False,
    ),
]
PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", help="Partition to read. May be repeated; by default all.")
]
OffsetOption = Annotated[
    str | None, typer.Option("--offset", help="Start at earliest, latest, or this offset of each --partition.")
]
FromTimestampOption = Annotated[
    str | None,
    typer.Option(
        "--from-timestamp",
        metavar="TIME",
        help="Start at the first records at or after this time: milliseconds since 1970, or 2026-05-01T12:00.",
    ),
]
MaxMessagesOption = Annotated[int | None, typer.Option("--max-messages", min=1, help="Stop after this many records.")]
OwnGroupOption = Annotated[
    bool,
    typer.Option("--own-group", help="Unless a group or where to start is named: read in a group of its own."),
]


def consume(
    positional: TopicArgument = None,
    topic: TopicOption = None,
    include: IncludeOption = None,
    from_beginning: FromBeginningOption = False,
    partition: PartitionsOption = None,
    offset: OffsetOption = None,
    from_timestamp: FromTimestampOption = None,
    max_messages: MaxMessagesOption = None,
    timeout_ms: IdleTimeoutOption = None,
    record_format: RecordFormatOption = None,
    properties: FormatterPropertyOption = None,
    group: GroupOption = None,
    own_group: OwnGroupOption = False,
    consumer_config: ConsumerConfigOption = None,
    consumer_property: ConsumerPropertyOption = None,
    isolation_level: IsolationLevelOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: Annotated[
        Output, typer.Option("--output", help="Output format: table follows --format, json is one object per line.")
    ] = Output.TABLE,
) -> None:
    """Print the records of a topic until Ctrl-C.

    By default each line is the value of one new record. A member of a group commits what it printed.
    """
    from kraft.client import Consumer

    name, pattern = topic_or_pattern(positional, topic, include)
    write = _formatter(output, record_format, properties or [])
    settings = consumer_settings(
        consumer_config,
        bootstrap_server,
        group,
        from_beginning=from_beginning,
        properties=consumer_property,
        isolation_level=isolation_level,
    )
    if own_group and not (partition or offset or from_timestamp):
        # Nobody continues in it, so that there is nothing to commit.
        own = {"group_id": f"console-consumer-{random.randrange(OWN_GROUPS)}", "enable_auto_commit": False}
        settings |= own if "group_id" not in settings else {}
    start = _start(from_beginning, offset, partition, from_timestamp, settings)
    if pattern is not None and "group_id" not in settings:
        raise typer.BadParameter("needs a group: give --group or --own-group", param_hint="--include")
    reading = _PollLoop(max_messages, timeout_ms)
    with Consumer(**settings, network=command_network()) as consumer:
        with quorum_watch(settings["bootstrap_servers"]):
            partitions = [] if name is None else _partitions(consumer, name, partition)
            if "group_id" in settings:
                consumer.subscribe(name or (), pattern=pattern)
            else:
                _seek(consumer, partitions, start)
        try:
            _print_records(consumer, settings, partitions, reading, write)
        except KeyboardInterrupt:
            consumer.close(LEAVE_MAX_MS, only_processed=True)
            raise
        finally:
            say(f"Processed a total of {reading.printed} message{'' if reading.printed == 1 else 's'}")


def _print_records(
    consumer: Consumer,
    settings: Mapping[str, Any],
    partitions: Sequence[TopicPartition],
    reading: _PollLoop,
    write: Formatter,
) -> None:
    """Print until the maximum or the timeout is reached. Ends the command if its group never had a coordinator."""
    servers, group_id = settings["bootstrap_servers"], settings.get("group_id")
    with ExitStack() as watches:
        # A member whose coordinator is gone, or a partition whose leader is, gets no records and no error.
        watches.enter_context(quorum_watch(servers, is_waiting=reading.is_waiting, every_s_max=IDLE_LOOK_EVERY_S))
        if settings.get("isolation_level") == "read_committed":
            watches.enter_context(open_transaction_watch(servers, partitions, reading.is_waiting))
        group = group_id and watches.enter_context(group_watch(servers, group_id, reading.is_without_partitions))
        for part in reading.parts(consumer, write):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    if group and group.problem is not None and reading.is_without_partitions():
        fail(group.problem)


def _formatter(output: Output, record_format: str | None, properties: list[str]) -> Formatter:
    """Raises BadParameter."""
    if properties:
        if record_format is not None or output is Output.JSON:
            raise typer.BadParameter("cannot be used with --format or --output json", param_hint="--property")
        return kafka_format(key_values(properties, "--property"))
    return json_line if output is Output.JSON else parse_format("%v" if record_format is None else record_format)


class _FromTime(Struct, frozen=True):
    """Start at the first record at or after a time."""

    timestamp_ms: int


def _start(
    from_beginning: bool,
    offset: str | None,
    partitions: list[int] | None,
    from_timestamp: str | None,
    settings: Mapping[str, Any],
) -> str | int | _FromTime:
    """Return `earliest`, `latest`, an offset, or a time. Raises BadParameter."""
    continues = "the group continues at its committed offsets, see kraft groups reset-offsets"
    given = (
        ("--partition", partitions, "the coordinator assigns partitions"),
        ("--offset", offset, continues),
        ("--from-timestamp", from_timestamp, continues),
    )
    for option, value, why in given:
        if value and "group_id" in settings:
            raise typer.BadParameter(f"cannot be used with --group: {why}", param_hint=option)
    if from_timestamp is not None:
        if from_beginning or offset is not None:
            raise typer.BadParameter(
                "cannot be used with --from-beginning or --offset: choose one", param_hint="--from-timestamp"
            )
        return _FromTime(_timestamp_ms(from_timestamp))
    if offset is None:
        return "earliest" if settings.get("auto_offset_reset") in EARLIEST else "latest"
    if from_beginning:
        raise typer.BadParameter("cannot be used with --from-beginning: choose one", param_hint="--offset")
    if offset.lower() in _WORDS:
        return _WORDS[offset.lower()]
    if not (offset.isascii() and offset.isdigit()):
        raise typer.BadParameter(
            f"{offset!r} is not an offset: expected earliest, latest or a number", param_hint="--offset"
        )
    if not partitions:
        raise typer.BadParameter("a number requires --partition", param_hint="--offset")
    return int(offset)


def _timestamp_ms(text: str) -> int:
    """Return a time in milliseconds since 1970. Raises BadParameter."""
    from kraft.model.moments import parse_datetime

    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        return parse_datetime(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from-timestamp") from None


def _partitions(consumer: Consumer, topic: str, wanted: list[int] | None) -> list[TopicPartition]:
    from kraft.client import ErrorCode, Refusal, TopicPartition

    existing = consumer.partitions_for(topic)
    for number in wanted or ():
        if number not in existing:
            raise Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has partitions 0 to {existing[-1]}, not {number}",
            )
    return [TopicPartition(topic, number) for number in wanted or existing]


def _seek(consumer: Consumer, partitions: Sequence[TopicPartition], start: str | int | _FromTime) -> None:
    consumer.assign(partitions)
    if start == "earliest":
        consumer.seek_to_beginning()
    elif isinstance(start, int):
        for partition in consumer.assignment():
            consumer.seek(partition, start)
    elif isinstance(start, _FromTime):
        consumer.seek_to_timestamp(start.timestamp_ms)
    else:
        consumer.seek_to_end()
    # "New" means from now on, not from the first poll: resolve the positions at once.
    for partition in consumer.assignment():
        consumer.position(partition)


class _PollLoop:
    """Polls until the maximum or the timeout is reached."""

    def __init__(self, max_messages: int | None, timeout_ms: int | None) -> None:
        self.printed = 0
        self._left = max_messages
        self._timeout_ms = timeout_ms
        self._had_partitions = False
        self._last_record_s = time.monotonic()

    def is_waiting(self) -> bool:
        """Return whether no record has arrived for a while. Called in another thread."""
        return time.monotonic() - self._last_record_s >= POLL_MS / 1_000

    def is_without_partitions(self) -> bool:
        """Return whether there has been nothing to read yet. Called in another thread."""
        return not self._had_partitions

    def parts(self, consumer: Consumer, write: Formatter) -> Iterator[bytes]:
        """Yield formatted records, those of each poll together."""
        while self._left is None or self._left > 0:
            wait_ms = POLL_MS
            if self._timeout_ms is not None:
                wait_ms = min(POLL_MS, self._timeout_ms - int((time.monotonic() - self._last_record_s) * 1000))
                if wait_ms <= 0:
                    return
            left = _RECORDS_AT_A_TIME if self._left is None else min(self._left, _RECORDS_AT_A_TIME)
            records = consumer.poll(wait_ms, left)
            self._had_partitions = self._had_partitions or bool(consumer.assignment())
            if records:
                yield b"".join(map(write, records))
                self.printed += len(records)
                self._last_record_s = time.monotonic()
                self._left = None if self._left is None else self._left - len(records)
