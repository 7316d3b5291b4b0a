"""What an append takes, what comes of it, and the work that it needs first when that is too long for the event loop.

An append that meets such work raises AppendMustWait before it has changed anything. The caller runs it in a thread and
appends again, see `kraft.server.replica.waiting_appends`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from kraft.log.change import Change
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.log_config import LogConfig
from kraft.model.ids import Offset


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


MakeReady = Callable[[Change[None]], object]
"""Runs a change that an append needs, or sees to it that it is run and raises."""


class AppendResult(NamedTuple):
    """Where the records are. A `duplicate` was in the log already, at these offsets, and nothing was written.

    `log_append_time_ms` is -1 when the timestamps are the producer's. A tuple, because one is made for every append.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    duplicate: bool
    batches: int


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
