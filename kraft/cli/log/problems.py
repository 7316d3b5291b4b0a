"""Problems of dumped files, one line each on standard error, in order with standard output."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from kraft.cli.log.kafka_lines import safe
from kraft.cli.log.printer import Printer

LINES_MAX: Final = 20
"""Lines per file at most: a file of random bytes has too many problems."""


class Problems:
    """Prints problems and remembers whether one was a fault."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._lines: Counter[str] = Counter()
        self.has_fault = False

    def fault(self, path: str, position: int | None, reason: str) -> None:
        """Report that the file is damaged."""
        self.has_fault = True
        self._printer.fault(path, position, reason)
        self._say(path, position, reason)

    def remark(self, path: str, position: int | None, reason: str) -> None:
        """Report what Kafka's tool reports, too, and a sound file may have."""
        self._say(path, position, reason)

    def _say(self, path: str, position: int | None, reason: str) -> None:
        self._lines[path] += 1
        if self._lines[path] > LINES_MAX:
            return
        sys.stdout.flush()
        place = "" if position is None else f" at byte {position}"
        print(f"kraft: {safe(path)}{place}: {safe(reason)}", file=sys.stderr)
        if self._lines[path] == LINES_MAX:
            print(f"kraft: {safe(path)}: more problems of this file are not shown", file=sys.stderr)
