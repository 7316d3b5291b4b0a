"""Output of commands: results on standard output, messages on standard error."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

import typer

from kraft.model.printable import printable, printable_lines


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table without borders, for people and for `awk`."""
    for line in _lines(titles, rows):
        print(line)


def say_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table for people on standard error."""
    for line in _lines(titles, rows):
        print(line, file=sys.stderr, flush=True)


def _lines(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    texts = [list(titles), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(titles))]
    for row in texts:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


Say = Callable[[str], None]
"""Prints a line for the person who waits."""


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(printable_lines(text), file=sys.stderr, flush=True)


def fail(reason: str) -> NoReturn:
    """Print an error and end the command with exit code 1."""
    print(f"kraft: {printable_lines(reason)}", file=sys.stderr)
    raise typer.Exit(1)


def readable(content: bytes | None) -> str | dict[str, str] | None:
    """Return a key or value for JSON: text if it is UTF-8, else base64."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class ProgressLine:
    """A running count on standard error, shown only on a terminal."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._is_shown = sys.stderr.isatty()
        self._was_shown = False

    def show(self, count: int) -> None:
        if self._is_shown:
            self._was_shown = True
            print(f"\r{count:,} {self._words}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a message for people in place of the count, which the next `show` prints again."""
        self.clear()
        say(text)

    def clear(self) -> None:
        if self._was_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
