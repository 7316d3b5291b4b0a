"""Lines of chosen files that run, while one test runs."""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import TraceFunction


class Lines:
    """Traces calls of functions in `files`, and lines of each function until all of them have run."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files: Final = files
        self._waiting: dict[CodeType, set[int]] = {}
        self._all: dict[CodeType, frozenset[int]] = {}
        """Lines of each function that was called, none for those of other files."""

    def start(self) -> None:
        self._waiting.clear()
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> dict[str, list[int]]:
        """Return the lines that have run since the start, by file."""
        sys.settrace(None)
        # Threads call this on; what they do after their test belongs to none.
        threading.settrace(lambda *_: None)
        found = dict[str, set[int]]()
        for code, waiting in self._waiting.items():
            ran = self._all[code] - waiting
            if ran:
                found.setdefault(code.co_filename, set()).update(ran)
        return {file: sorted(lines) for file, lines in found.items()}

    def _called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        code = frame.f_code
        waiting = self._waiting.get(code)
        if waiting is None:
            lines = self._all.get(code)
            if lines is None:
                lines = self._all[code] = self._lines_of(code)
            waiting = self._waiting[code] = set(lines)
        return self._ran if waiting else None

    def _lines_of(self, code: CodeType) -> frozenset[int]:
        if code.co_filename not in self._files or code.co_name == "<module>":
            return frozenset()
        return frozenset(line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)

    def _ran(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        waiting = self._waiting.get(frame.f_code)
        if not waiting:
            return None
        waiting.discard(frame.f_lineno)
        return self._ran
