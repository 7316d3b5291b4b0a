"""Output formats of `kraft consume`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

from kraft.cli.printing import readable

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
