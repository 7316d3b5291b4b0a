"""Notes the operations of many threads in one history file."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos import history
from chaos.history import Operation, OperationType, Send, Value


class Recorder:
    """A context manager around an open history file. May be used from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w", encoding="utf-8")
        self._guard = threading.Lock()
        self._index = 0
        self._start_ns = time.monotonic_ns()
        self._acknowledged_at: dict[str, float] = {}
        self._acknowledged = 0

    def note(self, process: str, kind: OperationType, value: Value) -> None:
        """Operations stand in the file in the order of these calls, and so do their times."""
        with self._guard:
            now_ns = time.monotonic_ns()
            operation = Operation(
                index=self._index, process=process, time_ns=now_ns - self._start_ns, type=kind, value=value
            )
            self._index += 1
            self._file.write(history.encode(operation) + "\n")
            if isinstance(value, Send) and kind is OperationType.OK:
                self._acknowledged += len(value.values)
                self._acknowledged_at[value.key] = now_ns / 1e9

    @property
    def acknowledged(self) -> int:
        """Values acknowledged so far."""
        return self._acknowledged

    def keys_acknowledged_since(self, monotonic_s: float) -> set[str]:
        """Keys with an acknowledgement at or after that time of the monotonic clock."""
        with self._guard:
            return {key for key, at_s in self._acknowledged_at.items() if at_s >= monotonic_s}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read(path: Path) -> Iterator[Operation]:
    """The operations of a history file. Raises MalformedHistory."""
    with path.open(encoding="utf-8") as lines:
        yield from history.decode_all(lines)
