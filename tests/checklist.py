"""docs/checklist.md as a value: its rows, and the tests that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CHECKLIST: Final = ROOT / "docs" / "checklist.md"

_ROW: Final = re.compile(r"^\| (?P<id>(?:[A-Z]|DC)\d{2}|M2-\d{3}) \| (?P<what>.+) \| (?P<shown_by>.+) \|$")
_TEST: Final = re.compile(r"`(?P<file>tests/[^`\s]+?\.py)(?:::(?P<name>[^`\s]+))?`")
_COMMAND: Final = re.compile(r"`((?:python|kraft|make) [^`]+)`")


@dataclass(frozen=True, slots=True)
class NamedTest:
    """A test, or all tests of a file where `name` is None."""

    file: str
    name: str | None

    def __str__(self) -> str:
        return self.file if self.name is None else f"{self.file}::{self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of one table."""

    row_id: str
    shown_by: str

    @property
    def tests(self) -> list[NamedTest]:
        return [NamedTest(match["file"], match["name"]) for match in _TEST.finditer(self.shown_by)]

    @property
    def commands(self) -> list[str]:
        """Commands whose output is the proof, which no test run executes."""
        return [] if self.is_not_built else _COMMAND.findall(self.shown_by)

    @property
    def is_not_built(self) -> bool:
        """Kraft does without it on purpose."""
        return self.shown_by.startswith("not built: ")


def rows(text: str) -> Iterator[Row]:
    """Every row of every table, in order."""
    for line in text.splitlines():
        match = _ROW.match(line)
        if match is not None:
            yield Row(match["id"], match["shown_by"])
