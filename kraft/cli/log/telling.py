"""What is wrong with the files that are dumped: a line each on standard error, in order with what is printed."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from kraft.cli.log.kafka_lines import safe
from kraft.cli.log.printer import Printer

LINES_MAX: Final = 20
"""For each file: of a file of noise nobody reads more."""


class Telling:
    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._lines: Counter[str] = Counter()
        self.is_anything_wrong = False

    def wrong(self, path: str, position: int | None, reason: str) -> None:
        """The file is not what was written."""
        self.is_anything_wrong = True
        self._printer.wrong(path, position, reason)
        self._say(path, position, reason)

    def remark(self, path: str, position: int | None, reason: str) -> None:
        """It may well be."""
        self._say(path, position, reason)

    def _say(self, path: str, position: int | None, reason: str) -> None:
        self._lines[path] += 1
        if self._lines[path] > LINES_MAX:
            return
        sys.stdout.flush()
        place = "" if position is None else f" at byte {position}"
        print(f"kraft: {safe(path)}{place}: {safe(reason)}", file=sys.stderr)
        if self._lines[path] == LINES_MAX:
            print(f"kraft: {safe(path)}: nothing more is said of this file", file=sys.stderr)
