"""Answers as plain values, without what has to differ from broker to broker and from run to run.

What is left out is named instead: an id becomes `<id 1>`, a time of today `<now>`, a message that people read `<text>`,
so that it still shows where one stands and where none does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from kraft.log.format.record_batch import decode_batch, read_header
from kraft.model.errors import InvalidBatch
from kraft.wire.declaration import ZERO_UUID, Buffer, Message, Struct

_ID: Final = re.compile(r"<(id|producer) ([^>]+)>")
_MEMBER: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}$")
"""The random part of a member's id: a UUID, or as Kafka's own way to write one, in Base64."""

_LONG: Final = 1_000
_DAY_MS: Final = 86_400_000


class Plain:
    """Plain values of one scenario: the same id has the same number in all its responses."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._named: dict[str, Callable[[Any], Any]] = {
            "host": _text("<host>"),
            "port": lambda port: "<port>" if port > 0 else port,
            "cluster_id": _text("<cluster>"),
            "log_dir": _text("<directory>"),
            "error_message": _text("<text>"),
            "batch_index_error_message": _text("<text>"),
            "documentation": _text("<text>"),
            "total_bytes": _counted("<bytes>"),
            "usable_bytes": _counted("<bytes>"),
            "finalized_features_epoch": _counted("<epoch>"),
            "session_id": lambda number: "<session>" if number > 0 else number,
            "producer_id": _producer_id,
            "member_id": _member,
            "leader": _member,
            "metadata": _shown,
            "assignment": _shown,
            "member_metadata": _shown,
            "member_assignment": _shown,
        }

    def message(self, message: Message, version: int) -> Any:
        """Its ids are still to be numbered."""
        return self._struct(message, version)

    def numbered(self, answer: Any) -> Any:
        """Replace each id by a number, in the order of their first use."""
        return json.loads(_ID.sub(self._number, json.dumps(answer)))

    def _struct(self, struct: Struct, version: int) -> dict[str, Any]:
        """Without fields that the version does not have, and those that say nothing but their default."""
        found = {}
        for each in type(struct).fields:
            value = getattr(struct, each.name)
            if version in each.versions and (each.is_required or value != each.default):
                found[each.name] = self._value(each.name, value, version)
        return found

    def _value(self, name: str, value: Any, version: int) -> Any:
        match value:
            case None:
                return None
            case Struct():
                return self._struct(value, version)
            case bytes() | str() if name in self._named:
                return self._named[name](value)
            case str() if len(value) > _LONG:
                return _shown(value)
            case tuple():
                return [self._value(name, each, version) for each in value]
            case UUID():
                return "" if value == ZERO_UUID else f"<id {value}>"
            case bytes() | bytearray() | memoryview():
                return self._records(value)
            case _ if name in self._named:
                return self._named[name](value)
            case int() if name.endswith(("timestamp", "time_ms")) and abs(value - time.time() * 1_000) < _DAY_MS:
                return "<now>"
            case _:
                return value

    def _records(self, data: Buffer) -> list[dict[str, Any]]:
        """Whole batches; of one that is cut off, which clients pass over, nothing."""
        view = memoryview(data)
        batches: list[dict[str, Any]] = []
        while True:
            try:
                header = read_header(view)
                if header.size_bytes > len(view):
                    return batches
                records = decode_batch(view[: header.size_bytes])
            except InvalidBatch:
                return batches
            view = view[header.size_bytes :]
            batches.append(
                {
                    "base_offset": header.base_offset,
                    "leader_epoch": header.leader_epoch,
                    "attributes": header.attributes,
                    "max_timestamp": self._value("timestamp", header.max_timestamp_ms, 0),
                    "producer": [
                        _producer_id(header.producer_id),
                        header.producer_epoch,
                        header.base_sequence,
                    ],
                    "records": [
                        [
                            record.offset,
                            self._value("timestamp", record.timestamp_ms, 0),
                            _shown(record.key),
                            _shown(record.value),
                        ]
                        for record in records
                    ],
                }
            )

    def _number(self, found: re.Match[str]) -> str:
        return f"<{found[1]} {self._numbers.setdefault(found[2], len(self._numbers) + 1)}>"


def _producer_id(producer_id: int) -> str | int:
    return f"<producer {producer_id}>" if producer_id >= 0 else producer_id


def _member(member_id: str) -> str:
    return _MEMBER.sub(lambda found: f"<id {found[0]}>", member_id)


def _text(stands_for: str) -> Callable[[str], str]:
    return lambda value: stands_for if value else value


def _counted(stands_for: str) -> Callable[[int], Any]:
    return lambda value: stands_for if value >= 0 else value


def _shown(data: bytes | str | None) -> str | None:
    """Enough to tell records apart."""
    if data is None:
        return None
    text = data if isinstance(data, str) else data.decode("ascii", "backslashreplace")
    return text if len(text) <= 20 else f"{text[:10]}... {len(data)} bytes"
