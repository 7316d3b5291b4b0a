"""Work that an append needs first, and that is too long for the event loop.

An append that meets it raises AppendMustWait before it has changed anything. The caller runs the work in a thread and
appends again, see `kraft.server.replica.waiting_appends`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.log_config import LogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecords:
    """Batches of a produce request as they are to be appended: all checks of `config` are done, codecs included."""

    batches: list[tuple[BatchHeader, memoryview]]
    config: LogConfig
    """Under another config they are not checked."""

    @property
    def size_bytes(self) -> int:
        return sum(header.size_bytes for header, _ in self.batches)


ProducedRecords = Buffer | CheckedRecords
"""Records of a producer: as they came, or checked already."""


class AppendWork(Protocol):
    """Belongs to one append. Its records are bytes that nobody changes."""

    def run(self, records: ProducedRecords) -> ProducedRecords:
        """Called in a thread, and touches nothing that the event loop may change. Returns what is to be appended.

        Raises Refusal when these records cannot be appended.
        """


@runtime_checkable
class AwaitedChange(Protocol):
    """A change of the log, before which it takes no records."""

    async def wait(self) -> None:
        """Raises Refusal when these records cannot be appended because of how it ended."""


class AppendMustWait(Exception):
    """Nothing was appended: `work` has to be done first, then the append is tried again."""

    def __init__(self, work: AppendWork | AwaitedChange) -> None:
        super().__init__()
        self.work = work
