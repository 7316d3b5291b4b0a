"""Options of `format("kraft")` for reading, checked and typed.

Their names and meanings are those of Spark's Kafka source. An unknown option is refused, with the nearest known name,
because a misspelt `maxOffsetsPerTrigger` that is silently ignored is hard to find.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from spark_connector.addresses import bootstrap_servers
from spark_connector.bounds import Bound, Edge, ExplicitOffsets, FirstAt, refuse_end_before_start
from spark_connector.client_settings import client_settings, is_client_setting, names_of
from spark_connector.given import EARLIEST_OFFSET, LATEST_OFFSET, Given, OptionError, listed
from spark_connector.offsets import shown
from spark_connector.patience import Patience
from spark_connector.subscription import Assigned, Pattern, Subscription, Topics

_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")

_ENDINGS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")

_OF_STREAMS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "groupIdPrefix",
)
"""Options that a batch does not need; they are logged, as by Spark's Kafka source."""

_KNOWN: Final = (
    *names_of("bootstrap.servers"),
    *names_of("isolation.level"),
    *names_of("group.id")[1:],
    *_SUBSCRIPTIONS,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    *_ENDINGS,
    *_OF_STREAMS,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)

_OF_SPARK_ITSELF: Final = ("path", "paths")

_OF_THE_SINK: Final = ("topic",)

_TRIGGER_DELAY_S: Final = 15 * 60.0

_log = logging.getLogger("spark_connector")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of a query. A stream does not use `ending`, a batch none of those of triggers and groups."""

    bootstrap_servers: tuple[str, ...]
    subscription: Subscription
    starting: Bound
    ending: Bound = Edge.LATEST
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_s: float = _TRIGGER_DELAY_S
    """Time after which a trigger does not wait for `offsets_per_trigger_min` any longer."""
    bytes_per_trigger_max: int | None = None
    tasks_min: int | None = None
    records_per_task_max: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    patience: Patience = field(default_factory=Patience)
    group_id: str | None = None
    group_id_prefix: str | None = None
    client_settings: tuple[tuple[str, str], ...] = field(default=(("isolation.level", "read_committed"),), repr=False)
    """Settings of the client by Kafka's names. A password may be among them."""


def shared_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options for a caller that does not know yet if it is for a batch or a stream. Raises OptionError."""
    return _parsed(options, Edge.LATEST)


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options of `spark.read`; by default from the earliest record to the latest. Raises OptionError."""
    parsed = _parsed(options, Edge.EARLIEST)
    _refuse_empty_range("startingOffsets", parsed.starting, Edge.LATEST, LATEST_OFFSET)
    _refuse_empty_range("endingOffsets", parsed.ending, Edge.EARLIEST, EARLIEST_OFFSET)
    refuse_end_before_start(parsed.starting, parsed.ending)
    for name in _OF_STREAMS:
        if Given(options).text(name) is not None:
            _log.warning("option not used: %s is for streams, and this is a batch", name)
    return parsed


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options of `spark.readStream`; by default from the latest record on. Raises OptionError."""
    for name in _ENDINGS:
        if Given(options).text(name) is not None:
            raise OptionError(f"option {name}: a stream has no end; use the option with spark.read only")
    return _parsed(options, Edge.LATEST)


def _refuse_empty_range(name: str, bound: Bound, edge: Edge, offset: int) -> None:
    if bound is edge or (isinstance(bound, ExplicitOffsets) and offset in bound.offsets.values()):
        raise OptionError(f"option {name}: a batch with {edge.value} ({offset}) reads nothing; give an offset")


def _parsed(options: Mapping[str, str], start: Edge) -> SourceOptions:
    for name in options:
        _refuse_unknown(name)
    given = Given(options)
    group_id = given.first_of(names_of("group.id")[1:])
    prefix = given.not_empty("groupIdPrefix")
    parsed = SourceOptions(
        bootstrap_servers=bootstrap_servers(given),
        subscription=_subscription(given),
        starting=_starting(given, start),
        ending=_ending(given),
        offsets_per_trigger_max=given.number("maxOffsetsPerTrigger"),
        offsets_per_trigger_min=given.number("minOffsetsPerTrigger"),
        trigger_delay_max_s=given.duration_s("maxTriggerDelay", default=_TRIGGER_DELAY_S),
        bytes_per_trigger_max=given.number("maxBytesPerTrigger"),
        tasks_min=given.int_number("minPartitions"),
        records_per_task_max=given.number("maxRecordsPerPartition"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        include_headers=given.flag("includeHeaders", default=False),
        patience=_patience(given),
        group_id=None if group_id is None else given.not_empty(group_id),
        # As in Spark's Kafka source, a group id makes the prefix needless.
        group_id_prefix=prefix if group_id is None else None,
        client_settings=client_settings(given, [name.lower() for name in options]),
    )
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger: {least} is above maxOffsetsPerTrigger, {most}")
    return parsed


def _subscription(given: Given) -> Subscription:
    chosen = [name for name in _SUBSCRIPTIONS if given.text(name) is not None]
    if not chosen:
        raise OptionError("option subscribe is missing: give the topics to read, or subscribePattern, or assign")
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(chosen)} exclude each other: give one of them")
    if (partitions := given.partitions("assign")) is not None:
        return Assigned(frozenset(partitions))
    if (regex := given.not_empty("subscribePattern")) is not None:
        try:
            re.compile(regex)
        except (re.error, RecursionError, OverflowError) as error:
            raise OptionError(
                f"option subscribePattern: {shown(regex)} is not a regular expression of Python: {error}"
            ) from None
        return Pattern(regex)
    topics = listed(given.text("subscribe"))
    if not topics:
        raise OptionError("option subscribe is empty: give the topics to read, separated by commas")
    return Topics(topics)


def _starting(given: Given, default: Edge) -> Bound:
    is_latest = given.word("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest"
    return _bound(given, "starting", default, else_latest=is_latest)


def _ending(given: Given) -> Bound:
    return _bound(given, "ending", Edge.LATEST, else_latest=True)


def _bound(given: Given, which: str, default: Edge, *, else_latest: bool) -> Bound:
    """Return the first that was given of timestamp, timestamps by partition, and offsets; all are checked."""
    timestamp_ms = given.timestamp_ms(f"{which}Timestamp")
    timestamps_ms = given.timestamps_ms(f"{which}OffsetsByTimestamp")
    offsets = given.offsets(f"{which}Offsets")
    if timestamp_ms is not None:
        return FirstAt(option=f"{which}Timestamp", timestamps_ms=timestamp_ms, else_latest=else_latest)
    if timestamps_ms is not None:
        return FirstAt(option=f"{which}OffsetsByTimestamp", timestamps_ms=timestamps_ms, else_latest=else_latest)
    if offsets is None:
        return default
    return Edge(offsets) if isinstance(offsets, str) else ExplicitOffsets(option=f"{which}Offsets", offsets=offsets)


def _patience(given: Given) -> Patience:
    usual = Patience()
    retries = given.int_number("fetchOffset.numRetries")
    interval_ms = given.int_number("fetchOffset.retryIntervalMs")
    read_ms = given.int_number("kafkaConsumer.pollTimeoutMs")
    return usual.with_retries(retries, interval_ms).with_read_timeout(read_ms)


def _refuse_unknown(name: str) -> None:
    # Spark passes the names in lower case; the error shows the usual spelling.
    lowered = name.lower()
    if lowered in _OF_SPARK_ITSELF or is_client_setting(lowered):
        return
    if lowered not in {option.lower() for option in _KNOWN}:
        _refuse(name)


def _refuse(name: str) -> NoReturn:
    lowered = name.lower()
    if lowered in _OF_THE_SINK:
        raise OptionError(f"option {name} is for writing; subscribe gives the topics to read")
    near = difflib.get_close_matches(lowered, [option.lower() for option in _KNOWN], n=1)
    hint = next((f", did you mean {option}?" for option in _KNOWN if [option.lower()] == near), "")
    raise OptionError(f"option {shown(name)[1:-1]} is unknown to the kraft source{hint}")
