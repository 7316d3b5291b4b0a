"""Options of `format("kraft")`, checked and typed.

Their names and meanings are those of Spark's Kafka source. An unknown option is refused, with the nearest known name,
because a misspelt `maxOffsetsPerTrigger` that is silently ignored is hard to find.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from spark_connector.offsets import Offsets, OffsetsError, from_topics

LATEST_OFFSET = -1
"""The end of the partition, in the JSON of startingOffsets and endingOffsets."""

EARLIEST_OFFSET = -2
"""The first record that the partition still holds, in the JSON of startingOffsets and endingOffsets."""

_BOOTSTRAP_SERVERS = ("bootstrap.servers", "kraft.bootstrap.servers", "kafka.bootstrap.servers")

_ISOLATION_LEVEL = ("isolation.level", "kraft.isolation.level", "kafka.isolation.level")
_READ_COMMITTED, _READ_UNCOMMITTED = "read_committed", "read_uncommitted"

_KNOWN = (
    *_BOOTSTRAP_SERVERS,
    *_ISOLATION_LEVEL,
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
)

_NOT_SUPPORTED_YET = (
    "assign",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxBytesPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribePattern",
    "topic",
)

_OF_SPARK_ITSELF = frozenset({"path", "paths"})

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/,\[\]]+):(?P<port>[0-9]{1,5})")


class OptionError(ValueError):
    """An option is missing, unknown or malformed. The text is one line that names it."""


class Edge(Enum):
    """First or last offset of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


Bound = Edge | Offsets
"""Start or end of a read. An explicit offset may be LATEST_OFFSET or EARLIEST_OFFSET."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of a query. A stream does not use `ending_offsets`, a batch not `offsets_per_trigger_max`."""

    bootstrap_servers: tuple[str, ...]
    topics: tuple[str, ...]
    starting_offsets: Bound
    ending_offsets: Bound = Edge.LATEST
    offsets_per_trigger_max: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    reads_committed: bool = True
    """False to read records of open and aborted transactions, too."""


def shared_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options for a caller that does not know yet if it is for a batch or a stream. Raises OptionError."""
    given = _Given(options)
    return given.source_options(given.bound("startingOffsets", Edge.LATEST), given.bound("endingOffsets", Edge.LATEST))


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options of `spark.read`; by default from the earliest record to the latest. Raises OptionError."""
    given = _Given(options)
    starting = given.bound("startingOffsets", Edge.EARLIEST)
    ending = given.bound("endingOffsets", Edge.LATEST)
    _refuse_empty_range("startingOffsets", starting, Edge.LATEST, LATEST_OFFSET)
    _refuse_empty_range("endingOffsets", ending, Edge.EARLIEST, EARLIEST_OFFSET)
    return given.source_options(starting, ending)


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options of `spark.readStream`; by default from the latest record on. Raises OptionError."""
    given = _Given(options)
    if given.text("endingOffsets") is not None:
        raise OptionError("option endingOffsets: a stream has no end; use the option with spark.read only")
    return given.source_options(given.bound("startingOffsets", Edge.LATEST), Edge.LATEST)


def _refuse_empty_range(name: str, bound: Bound, edge: Edge, offset: int) -> None:
    if bound is edge or (not isinstance(bound, Edge) and offset in bound.values()):
        raise OptionError(f"option {name}: a batch with {edge.value} ({offset}) reads nothing; give an offset")


class _Given:
    """Options of the user by lower-case name, as Spark matches them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        known = {name.lower() for name in _KNOWN} | _OF_SPARK_ITSELF
        for name in options:
            if name.lower() not in known:
                _refuse_unknown(name)
        self._options = {name.lower(): value for name, value in options.items()}

    def source_options(self, starting: Bound, ending: Bound) -> SourceOptions:
        return SourceOptions(
            bootstrap_servers=self._bootstrap_servers(),
            topics=self._topics(),
            starting_offsets=starting,
            ending_offsets=ending,
            offsets_per_trigger_max=self._positive("maxOffsetsPerTrigger"),
            fail_on_data_loss=self._flag("failOnDataLoss", default=True),
            include_headers=self._flag("includeHeaders", default=False),
            reads_committed=self._isolation_level() == _READ_COMMITTED,
        )

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def bound(self, name: str, default: Edge) -> Bound:
        text = self.text(name)
        if text is None:
            return default
        stripped = text.strip()
        if stripped.lower() in (Edge.EARLIEST.value, Edge.LATEST.value):
            return Edge(stripped.lower())
        return _explicit_offsets(name, stripped)

    def _bootstrap_servers(self) -> tuple[str, ...]:
        given = [name for name in _BOOTSTRAP_SERVERS if self.text(name) is not None]
        if not given:
            raise OptionError("option bootstrap.servers is missing: give the cluster's gRPC addresses, host:port[,...]")
        if len({self.text(name) for name in given}) > 1:
            raise OptionError(f"options {' and '.join(given)} have different addresses; give one of them")
        addresses = _list(self.text(given[0]) or "")
        if not addresses:
            raise OptionError(f"option {given[0]} is empty: expected host:port[,...]")
        for address in addresses:
            match = _ADDRESS.fullmatch(address)
            if match is None or not 0 < int(match["port"]) < 65_536:
                raise OptionError(f"option {given[0]}: {address!r} is not host:port")
        return addresses

    def _isolation_level(self) -> str:
        given = [name for name in _ISOLATION_LEVEL if self.text(name) is not None]
        levels = {(self.text(name) or "").strip().lower() for name in given}
        if len(levels) > 1:
            raise OptionError(f"options {' and '.join(given)} differ; give one of them")
        level = levels.pop() if levels else _READ_COMMITTED
        if level not in (_READ_COMMITTED, _READ_UNCOMMITTED):
            raise OptionError(f"option {given[0]}: {level!r} is neither {_READ_COMMITTED} nor {_READ_UNCOMMITTED}")
        return level

    def _topics(self) -> tuple[str, ...]:
        topics = _list(self.text("subscribe") or "")
        if not topics:
            raise OptionError("option subscribe is missing: give the topics to read, separated by commas")
        return tuple(dict.fromkeys(topics))

    def _positive(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text, re.ASCII) or int(text) == 0:
            raise OptionError(f"option {name}: {text!r} is not a whole number above zero")
        return int(text)

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
            case _:
                raise OptionError(f"option {name}: {text!r} is neither true nor false")


def _explicit_offsets(name: str, text: str) -> Offsets:
    expected = f'option {name}: expected earliest, latest or JSON like {{"topic": {{"0": 12, "1": -2}}}}'
    try:
        offsets = from_topics(json.loads(text))
    except OffsetsError as error:
        raise OptionError(f"{expected}; {error}") from None
    except (ValueError, RecursionError):
        raise OptionError(f"{expected}, not {text!r}") from None
    for partition, offset in offsets.items():
        if not EARLIEST_OFFSET <= offset < 1 << 63:
            raise OptionError(f"option {name}: {offset} of {partition} is not an offset; -2 is earliest, -1 latest")
    return offsets


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _refuse_unknown(name: str) -> NoReturn:
    # Spark passes the names in lower case; the error shows the usual spelling.
    lowered = name.lower()
    for option in _NOT_SUPPORTED_YET:
        if lowered == option.lower():
            raise OptionError(f"option {option} is not supported yet by the kraft source")
    if lowered.startswith(("kraft.", "kafka.")):
        raise OptionError(f"option {name} is not supported yet: client settings are not passed through")
    near = difflib.get_close_matches(lowered, [option.lower() for option in _KNOWN], n=1)
    hint = next((f", did you mean {option}?" for option in _KNOWN if [option.lower()] == near), "")
    raise OptionError(f"option {name} is unknown to the kraft source{hint}")
