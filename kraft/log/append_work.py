"""Input and result of an append, and the work that must precede it if that takes too long for the event loop.

An append that needs such work raises AppendMustWait before it has changed anything. The caller runs the work in a
thread and appends again; see `kraft.server.replica.waiting_appends`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from kraft.log.change import Change
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.topic_config import TopicConfig
from kraft.log.transactions.verification import VerificationGuard
from kraft.model.ids import Offset


class CheckedRecords(Struct, frozen=True, kw_only=True):
    """Batches of a produce request, ready to append: checked and recompressed as `config` demands."""

    batches: list[tuple[BatchHeader, memoryview]]
    config: TopicConfig
    """The config of the checks; under another one they have to be repeated."""

    @property
    def size_bytes(self) -> int:
        return sum(header.size_bytes for header, _ in self.batches)


ProducedRecords = Buffer | CheckedRecords
"""Records of a producer: as received, or already checked."""


class AppendOrigin(Struct, frozen=True, kw_only=True):
    """Sender of the records of an append to a leader's log: a client, or a coordinator on this broker.

    A coordinator writes markers, and records without sequences.
    """

    is_coordinator: bool = False
    guard: VerificationGuard | None = None
    """Guard of the verification that allows these records to open a transaction."""

    is_any_size: bool = False
    """True if `max.message.bytes` and `segment.bytes` do not apply: a coordinator has its own limits."""

    is_verified_again: bool = False
    """True if these records are verified anew when they are sent again: their sender named its transactional id."""

    transaction_version: int = 0
    """Transaction version of a marker: from 2 on the coordinator bumps the producer epoch for it (KIP-890)."""


CLIENT: Final = AppendOrigin()

COORDINATOR_RECORDS: Final = AppendOrigin(is_any_size=True)
"""Origin of a coordinator's records outside transactions: checked and recompressed as those of clients."""

TRANSACTIONAL_CLIENT: Final = AppendOrigin(is_verified_again=True)
"""Origin of records for which no verification was begun, because their transaction was open or nobody led here."""

RunChange = Callable[[Change[None]], object]
"""Runs a change that an append needs, or schedules it and raises."""


class AppendResult(Struct, frozen=True):
    """Offsets of the appended records. A `duplicate` was already in the log at these offsets; nothing was written.

    `log_append_time_ms` is -1 if the timestamps are the producer's.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    duplicate: bool
    batches: int


class AppendWork(Protocol):
    """Work of one append, on records whose bytes do not change meanwhile."""

    def run(self, records: ProducedRecords) -> ProducedRecords:
        """Return the records to append. Runs in a thread and uses nothing that the event loop may change.

        Raises Refusal if these records cannot be appended.
        """


@runtime_checkable
class AwaitedChange(Protocol):
    """A change of the log that must end before the log accepts records."""

    async def wait(self) -> None:
        """Wait until the change ends. Raises Refusal if its outcome forbids appending these records."""


class AppendMustWait(Exception):
    """Nothing was appended: the caller must run `work` and then append again."""

    def __init__(self, work: AppendWork | AwaitedChange) -> None:
        super().__init__()
        self.work = work
