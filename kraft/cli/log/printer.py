"""The interface from a dump to its output: lines for people, or JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from kraft.log.format.record_batch import BatchHeader
from kraft.log.format.record_codec import Record
from kraft.log.integrity.inspection import IndexEntry, InspectedBatch, TimeIndexEntry
from kraft.log.leader_epochs import EpochStart
from kraft.log.recovery.log_checkpoint import LogCheckpoint
from kraft.log.recovery.producer_state import ProducerState
from kraft.log.transactions.aborted import AbortedTxn

Contents: TypeAlias = Callable[[Record], tuple[Any, Any]]
"""Returns key and value of a record as text or values of JSON; None if there is none."""


class Printer(Protocol):
    """Prints the content of files; every call is about the file of the last `begin`."""

    def begin(self, path: str) -> None: ...

    def log_starts(self, base_offset: int) -> None: ...

    def batch(self, batch: InspectedBatch) -> None: ...

    def record(self, header: BatchHeader, record: Record) -> None: ...

    def trailing_bytes(self, count: int) -> None:
        """Print the number of bytes after the last whole batch of a `.log`."""
        ...

    def index_entry(self, entry: IndexEntry) -> None: ...

    def time_index_entry(self, entry: TimeIndexEntry) -> None: ...

    def aborted_transaction(self, entry: AbortedTxn) -> None: ...

    def is_empty(self) -> None: ...

    def is_sane(self) -> None: ...

    def producer(self, producer_id: int, state: ProducerState) -> None: ...

    def leader_epoch(self, entry: EpochStart) -> None: ...

    def checkpoint(self, checkpoint: LogCheckpoint) -> None: ...

    def fault(self, path: str, position: int | None, reason: str) -> None:
        """Print a fault for programs; people read it on standard error."""
        ...


def write_line(line: str) -> None:
    """Write to standard output, in UTF-8 whatever the locale."""
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
