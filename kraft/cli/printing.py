"""Answers on standard output, and words beside them on standard error."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table without lines, which people read and `awk` splits."""
    texts = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(titles))]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """For people, beside what programs read."""
    print(text, file=sys.stderr, flush=True)


def fail(reason: str) -> NoReturn:
    """Ends a command with exit code 1."""
    print(f"kraft: {reason}", file=sys.stderr)
    raise typer.Exit(1)


def readable(content: bytes | None) -> str | dict[str, str] | None:
    """A key or value in JSON: as text where it is UTF-8."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class Progress:
    """A count on standard error while work goes on, when that is a terminal."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._is_shown = sys.stderr.isatty()
        self._was_shown = False

    def show(self, count: int) -> None:
        if self._is_shown:
            self._was_shown = True
            print(f"\r{count:,} {self._words}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._was_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
