"""History of a run: what its processes did and saw, one operation for each line of JSON, in the order of recording.

    {"index": 7, "process": "producer-1", "time": 81230000, "type": "ok", "f": "send", "value": {...}}

An operation is noted twice: when it is invoked, and when it ends: `ok` it happened, `fail` it did not happen and never
will, `info` nobody knows. Each process has one operation under way at a time; one that ended in `info` is not used
again. `time` counts nanoseconds from the start of the run. Faults are operations of the process "nemesis".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, assert_never

NEMESIS: Final = "nemesis"


class MalformedHistory(ValueError):
    """A line that is no operation; the text names the line."""


class OperationType(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Values for one key, which is one partition. Every value of a key is sent once, by one process.

    `offsets` stand beside `values` once the operation has ended; None for a value whose place is not known.
    """

    key: str
    values: tuple[int, ...]
    offsets: tuple[int | None, ...] = ()
    acknowledged: tuple[bool, ...] = ()
    """Beside `values`, in an `info`: those that were acknowledged nevertheless. Empty: as the operation ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Result of one poll: for each key, the (offset, value) pairs in the order of arrival."""

    reads: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """The process reads these keys from now on; where it read before no longer counts."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The last reading of everything. `ok` when every offset below `ends` was polled."""

    ends: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something was broken on purpose; `target` says what."""

    name: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """It was mended."""

    name: str


Value = Send | Poll | Assign | Drain | Fault | Heal


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    index: int
    process: str
    time_ns: int
    type: OperationType
    value: Value


def encode(operation: Operation) -> str:
    """One line, without its end."""
    f, value = _to_json(operation.value)
    line = {
        "index": operation.index,
        "process": operation.process,
        "time": operation.time_ns,
        "type": operation.type.value,
        "f": f,
        "value": value,
    }
    return json.dumps(line, separators=(",", ":"))


def decode(line: str) -> Operation:
    """Raises MalformedHistory."""
    try:
        found = json.loads(line)
        return Operation(
            index=int(found["index"]),
            process=str(found["process"]),
            time_ns=int(found["time"]),
            type=OperationType(found["type"]),
            value=_from_json(found["f"], found["value"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedHistory(f"no operation ({type(error).__name__}: {error}): {line[:200]!r}") from None


def decode_all(lines: Iterable[str]) -> Iterator[Operation]:
    """Raises MalformedHistory that names the line."""
    for number, line in enumerate(lines, start=1):
        try:
            yield decode(line)
        except MalformedHistory as error:
            raise MalformedHistory(f"line {number}: {error}") from None


def _to_json(value: Value) -> tuple[str, dict[str, Any]]:
    match value:
        case Send():
            sent: dict[str, Any] = {"key": value.key, "values": value.values}
            if value.offsets:
                sent["offsets"] = value.offsets
            if value.acknowledged:
                sent["acknowledged"] = value.acknowledged
            return "send", sent
        case Poll():
            return "poll", dict(value.reads)
        case Assign():
            return "assign", {"keys": value.keys}
        case Drain():
            return "drain", dict(value.ends)
        case Fault():
            return "fault", {"name": value.name, "target": value.target}
        case Heal():
            return "heal", {"name": value.name}
        case _:
            assert_never(value)


def _from_json(f: str, value: Any) -> Value:
    match f:
        case "send":
            return _send_from_json(value)
        case "poll":
            return Poll(reads={key: tuple((at, found) for at, found in reads) for key, reads in value.items()})
        case "assign":
            return Assign(keys=tuple(value["keys"]))
        case "drain":
            return Drain(ends=dict(value))
        case "fault":
            return Fault(name=value["name"], target=value["target"])
        case "heal":
            return Heal(name=value["name"])
        case _:
            raise ValueError(f"f is {f!r}")


def _send_from_json(value: Any) -> Send:
    send = Send(
        key=value["key"],
        values=tuple(value["values"]),
        offsets=tuple(value.get("offsets", ())),
        acknowledged=tuple(value.get("acknowledged", ())),
    )
    for name, column in (("offsets", send.offsets), ("acknowledged", send.acknowledged)):
        if column and len(column) != len(send.values):
            raise ValueError(f"{len(column)} {name} for {len(send.values)} values")
    return send
