"""From records to documents: their ids, the indexes that they go to, and the lines of a `_bulk` request."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from kraft.log.format.record_codec import Header

_HOUR_MS: Final = 3_600_000
_INDEXES_KEPT: Final = 1_000
_DATE_FIELDS: Final = "YmdHjGV"
_FIELD: Final = re.compile(r"%(.)|\{([^{}]*)\}")
_INDEX_BYTES_MAX: Final = 255
_NOT_IN_INDEX: Final = re.compile(r'[A-Z\\/*?"<>| ,#:\s{}%]')
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_000
"""The end of the year 9999."""


class ValueFormat(StrEnum):
    JSON = "json"
    """A value is one JSON object, and the document."""
    TEXT = "text"
    """A value is a line of text: the document has it as `message`, and the record's timestamp as `@timestamp`."""


class Record(Struct, frozen=True):
    """A record with its place."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: Sequence[Header]


class Document(Struct, frozen=True):
    record: Record
    lines: bytes
    """Of the `_bulk` request: the action, and the source."""


class Refused(Struct, frozen=True):
    """A record that is no document, and why."""

    record: Record
    kind: str
    """The engine's word, such as mapper_parsing_exception, or ours: not_a_document."""

    reason: str


class Documents:
    """Makes documents. Ids are of topic, partition and offset: a record that is sent again is no second document.

    The index depends on the record's timestamp alone, for the same reason.
    """

    def __init__(self, index: str, value_format: ValueFormat, id_prefix: str = "") -> None:
        self._index = index
        self._value_format = value_format
        self._id_prefix = id_prefix
        self._actions: dict[tuple[str, int, int], str] = {}
        self._decode = msgspec.json.Decoder().decode

    def document(self, record: Record) -> Document | Refused:
        try:
            source = self._source(record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Refused(record, NOT_A_DOCUMENT, f"the value is not JSON: {error}")
        if source is None:
            return Refused(record, NOT_A_DOCUMENT, "the value is JSON, but no object")
        return Document(record, b'%b%d"}}\n%b\n' % (self._action(record).encode(), record.offset, source))

    def _source(self, record: Record) -> bytes | None:
        """Return the document as one line. Raises msgspec.DecodeError, UnicodeDecodeError or RecursionError."""
        value = record.value
        if self._value_format is ValueFormat.TEXT:
            text = value.decode(errors="backslashreplace")
            return msgspec.json.encode({"@timestamp": _moment(record.timestamp_ms).isoformat(), "message": text})
        decoded = self._decode(value)
        if not isinstance(decoded, dict):
            return None
        # The engine takes a line break for the end of the document.
        return msgspec.json.encode(decoded) if b"\n" in value or b"\r" in value else value

    def _action(self, record: Record) -> str:
        """Return the action up to the offset in the id."""
        place = record.topic, record.partition, record.timestamp_ms // _HOUR_MS
        if (found := self._actions.get(place)) is None:
            if len(self._actions) >= _INDEXES_KEPT:
                self._actions.clear()
            index = index_name(self._index, record.topic, record.timestamp_ms)
            found = f'{{"create":{{"_index":"{index}","_id":"{self._id_prefix}{record.topic}-{record.partition}-'
            self._actions[place] = found
        return found


NOT_A_DOCUMENT: Final = "not_a_document"


def index_name(pattern: str, topic: str, timestamp_ms: int) -> str:
    """Return the index of a record; its date is that of the timestamp, in UTC."""
    moment = _moment(timestamp_ms)

    def filled(found: re.Match[str]) -> str:
        return topic.lower() if found[2] is not None else moment.strftime(found[0])

    return _FIELD.sub(filled, pattern)


def index_problem(pattern: str, topics: Sequence[str]) -> str | None:
    """Return what is wrong with a pattern of names, and the remedy."""
    for date, name in _FIELD.findall(pattern):
        if date and date not in _DATE_FIELDS:
            return f"has %{date}: give only {', '.join(f'%{each}' for each in _DATE_FIELDS)}"
        if not date and name != "topic":
            return f"has {{{name}}}: give only {{topic}}"
    for topic in topics:
        name = index_name(pattern, topic, int(time.time() * 1_000))
        if _NOT_IN_INDEX.search(name) or name[0] in "-_+." or len(name.encode()) > _INDEX_BYTES_MAX:
            return f"makes {name}, which no index can be called: use lower-case letters, digits, hyphens and dots"
    return None


def _moment(timestamp_ms: int) -> datetime:
    """Return the time of a record; a record without one, or from beyond the calendar, is of 1970."""
    in_calendar = timestamp_ms if 0 <= timestamp_ms <= _TIMESTAMP_MS_MAX else 0
    return datetime.fromtimestamp(in_calendar / 1_000, UTC)


# --- answers ---------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    INDEXED = "indexed"
    ALREADY_THERE = "already_there"
    """From an attempt whose answer was lost, or from a process that ended before its commit."""
    LATER = "later"
    REFUSED = "refused"


class Cause(Struct, frozen=True):
    reason: str | None = None
    caused_by: Cause | None = None


class ItemError(Struct, frozen=True):
    type: str = "unknown"
    reason: str | None = None
    caused_by: Cause | None = None
    """The reason alone may be "failed to parse"."""


class Item(Struct, frozen=True):
    status: int
    error: ItemError | str | None = None


_OPERATORS_MATTER: Final = frozenset(
    {
        "validation_exception",
        "index_closed_exception",
        "cluster_block_exception",
        "circuit_breaking_exception",
        "routing_missing_exception",
    }
)
"""Errors of status 400 and above that are no document's: too many shards, a closed index, a full disk."""

_OPERATORS_REASONS: Final = ("no write index is defined for alias", "pipeline with id [")
"""Reasons of illegal_argument_exception, which may also be a document's."""


def verdict(item: Item) -> Verdict:
    """Return what became of one document of a request.

    Refused is only what the engine says of the document itself (400, 413). What an operator has to mend, such as an
    index that may not be created (404) or written to (403), would otherwise empty the topic into the dead letters.
    """
    if item.status < 300:
        return Verdict.INDEXED
    if item.status == 409:
        return Verdict.ALREADY_THERE
    is_documents = item.status in (400, 413) and not _is_operators(item.error)
    return Verdict.REFUSED if is_documents else Verdict.LATER


def _is_operators(error: ItemError | str | None) -> bool:
    if not isinstance(error, ItemError):
        return False
    return error.type in _OPERATORS_MATTER or (error.reason or "").startswith(_OPERATORS_REASONS)


def refused(document: Document, item: Item) -> Refused:
    error = item.error if isinstance(item.error, ItemError) else ItemError(reason=item.error)
    reasons = [error.reason or f"status {item.status}"]
    cause = error.caused_by
    while cause is not None:
        if cause.reason and cause.reason not in reasons:
            reasons.append(cause.reason)
        cause = cause.caused_by
    return Refused(document.record, error.type, ": ".join(reasons))
