"""Output formats of `kraft consume`."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import typer

from kraft.cli.printing import readable
from kraft.model.errors import KraftError

if TYPE_CHECKING:
    from kraft.client import ConsumerRecord

Formatter = Callable[["ConsumerRecord"], bytes]
"""Returns the bytes to print for a record, with the end of the line."""

NULL: Final = b"null"

_TOKENS: Final[dict[str, Formatter]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "k": lambda record: NULL if record.key is None else record.key,
    "v": lambda record: NULL if record.value is None else record.value,
    "h": lambda record: b",".join(
        name.encode() + b"=" + (NULL if content is None else content) for name, content in record.headers
    ),
}
_ORIGINS: Final = {"CREATE_TIME": b"CreateTime", "LOG_APPEND_TIME": b"LogAppendTime"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_PIECE: Final = re.compile(r"%(?P<token>.?)|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL)


def parse_format(text: str) -> Formatter:
    """Return the formatter that `--format` describes. Raises BadParameter."""
    pieces: list[bytes | Formatter] = []
    for match in _PIECE.finditer(text):
        token, escape = match["token"], match["escape"]
        if token is not None:
            pieces.append(b"%" if token == "%" else _token(token))
        elif escape is not None:
            pieces.append(_escape(escape))
        else:
            pieces.append(match["text"].encode(errors="surrogateescape"))
    if not pieces or pieces[-1] != b"\n":
        pieces.append(b"\n")

    def write(record: ConsumerRecord) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)

    return write


PROPERTIES: Final = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "",
    "value.deserializer": "",
}
"""Properties of kafka-console-consumer's formatter, with their defaults."""


_AS_THEY_ARE: Final = ("", "StringDeserializer", "ByteArrayDeserializer")
_NUMBERS: Final = {"LongDeserializer": ">q", "IntegerDeserializer": ">i", "ShortDeserializer": ">h"}
"""Formats of the numbers that Kafka's deserializers read, by class."""


def _deserialized(part: str, properties: Mapping[str, str], null: bytes) -> Formatter:
    """Return what shows the key or value, as the deserializer of that name in Kafka reads it. Raises BadParameter."""
    name = f"{part}.deserializer"
    kind = properties[name].strip().rpartition(".")[2]
    if kind not in (*_AS_THEY_ARE, *_NUMBERS):
        known = ", ".join((*_AS_THEY_ARE[1:], *_NUMBERS))
        raise typer.BadParameter(f"{name}={kind}: use one of {known}, or leave it out", param_hint="--property")

    def shown(record: ConsumerRecord) -> bytes:
        content: bytes | None = getattr(record, part)
        if content is None:
            return null
        if kind in _AS_THEY_ARE:
            return content
        try:
            number: int = struct.unpack(_NUMBERS[kind], content)[0]
        except struct.error:
            raise KraftError(
                f"{record.topic}-{record.partition} offset {record.offset}: the {part} has {len(content)} bytes and is"
                f" none of {name}={kind}: leave that out"
            ) from None
        return b"%d" % number

    return shown


def kafka_format(properties: Mapping[str, str]) -> Formatter:
    """Return the formatter that kafka-console-consumer has with these properties. Raises BadParameter."""
    for name in properties:
        if name not in PROPERTIES:
            raise typer.BadParameter(f"{name} is unknown: use one of {', '.join(PROPERTIES)}", param_hint="--property")
    values = {**PROPERTIES, **properties}
    # Python decodes undecodable bytes of arguments to surrogates; fsencode restores the bytes.
    separator, line_end, null = (
        os.fsencode(values[each]) for each in ("key.separator", "line.separator", "null.literal")
    )
    between_headers = os.fsencode(values["headers.separator"])

    def headers(record: ConsumerRecord) -> bytes:
        shown = [name.encode() + b":" + (null if content is None else content) for name, content in record.headers]
        return between_headers.join(shown) or b"NO_HEADERS"

    columns: dict[str, Formatter] = {
        "print.timestamp": lambda record: b"%s:%d" % (_ORIGINS[record.timestamp_type.name], record.timestamp_ms),
        "print.partition": lambda record: b"Partition:%d" % record.partition,
        "print.offset": lambda record: b"Offset:%d" % record.offset,
        "print.headers": headers,
        "print.key": _deserialized("key", values, null),
        "print.value": _deserialized("value", values, null),
    }
    chosen = [column for name, column in columns.items() if values[name].strip().lower() == "true"]
    return lambda record: separator.join(column(record) for column in chosen) + line_end


def json_line(record: ConsumerRecord) -> bytes:
    """Return the record as one JSON object. Bytes that are not UTF-8 become `{"base64": "..."}`."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type.name.lower(),
        "key": readable(record.key),
        "value": readable(record.value),
        "headers": [{"key": name, "value": readable(content)} for name, content in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _token(letter: str) -> Formatter:
    if letter not in _TOKENS:
        known = " ".join(f"%{each}" for each in _TOKENS)
        raise typer.BadParameter(f"%{letter} is unknown: use one of {known} %%", param_hint="--format")
    return _TOKENS[letter]


def _escape(letter: str) -> bytes:
    if letter not in _ESCAPES:
        raise typer.BadParameter(rf"\{letter} is unknown: use one of \n \t \r \\", param_hint="--format")
    return _ESCAPES[letter].encode()
