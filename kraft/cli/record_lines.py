"""Lines of text as records: values alone, or keys and headers before them, as kafka-console-producer reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import typer
from msgspec import Struct

if TYPE_CHECKING:
    from kraft.log.format.record_codec import Header

DEFAULTS: Final = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
"""Properties that are known, as in Kafka, and their defaults."""


class Lines(Struct, frozen=True, kw_only=True):
    """Records of some lines."""

    values: list[bytes]
    keys: list[bytes | None] | None
    headers: list[tuple[Header, ...]] | None


class LineFormat(Struct, frozen=True, kw_only=True):
    """What a line has: `headers<delimiter>key<separator>value`, each but the value only if it is asked for."""

    key_separator: bytes | None
    """None: lines have no key."""

    headers_delimiter: bytes | None
    """None: lines have no headers."""

    header_separator: bytes
    header_key_separator: bytes
    headers: tuple[Header, ...] = ()
    """Headers of every record."""

    def records(self, lines: list[bytes], lines_before: int) -> Lines:
        """Return the records. Raises KraftError for a line without a separator."""
        values, keys, headers = lines, None, None
        if self.headers_delimiter is not None:
            parts = [
                _parted(line, self.headers_delimiter, "headers delimiter", number)
                for number, line in enumerate(lines, start=lines_before + 1)
            ]
            headers = [
                (*self.headers, *self._headers(part[0], lines_before + row)) for row, part in enumerate(parts, 1)
            ]
            values = [part[1] for part in parts]
        elif self.headers:
            headers = [self.headers] * len(lines)
        if self.key_separator is not None:
            pairs = [
                _parted(line, self.key_separator, "key separator", number)
                for number, line in enumerate(values, start=lines_before + 1)
            ]
            keys = [pair[0] for pair in pairs]
            values = [pair[1] for pair in pairs]
        return Lines(values=values, keys=list(keys) if keys is not None else None, headers=headers)

    def _headers(self, text: bytes, number: int) -> list[Header]:
        found: list[Header] = []
        for each in text.split(self.header_separator) if text else ():
            name, value = _parted(each, self.header_key_separator, "separator of a header's key and value", number)
            found.append((name.decode(errors="replace"), value))
        return found


def line_format(key_separator: str | None, properties: Mapping[str, str], headers: Mapping[str, str]) -> LineFormat:
    """Return the format of lines. Raises BadParameter."""
    for name in properties:
        if name not in DEFAULTS:
            raise typer.BadParameter(f"{name} is unknown: use {' or '.join(DEFAULTS)}", param_hint="--property")
    used = DEFAULTS | dict(properties)
    if key_separator is None and used["parse.key"].lower() == "true":
        key_separator = used["key.separator"]
    if key_separator == "":
        raise typer.BadParameter("is empty: give at least one character", param_hint="--key-separator")
    for name, value in used.items():
        if not value:
            raise typer.BadParameter(f"{name} is empty: give at least one character", param_hint="--property")
    has_headers = used["parse.headers"].lower() == "true"
    # Python decodes undecodable bytes of arguments to surrogates; fsencode restores the bytes.
    return LineFormat(
        key_separator=None if key_separator is None else os.fsencode(key_separator),
        headers_delimiter=os.fsencode(used["headers.delimiter"]) if has_headers else None,
        header_separator=os.fsencode(used["headers.separator"]),
        header_key_separator=os.fsencode(used["headers.key.separator"]),
        headers=tuple((name, os.fsencode(value)) for name, value in headers.items()),
    )


def _parted(line: bytes, separator: bytes, name: str, number: int) -> tuple[bytes, bytes]:
    before, found, after = line.partition(separator)
    if not found:
        from kraft.client import KraftError

        raise KraftError(f"line {number} has no {name} {separator.decode(errors='replace')!r}")
    return before, after
