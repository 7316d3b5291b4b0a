"""Batches that a shard writes: records, with the states after them."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from kraft.coordinator.shard import Reply
from kraft.log.append_work import AppendOrigin
from kraft.log.format.record_batch import HEADER_BYTES
from kraft.log.format.record_codec import Record as LogRecord
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset

Replicated = TypeVar("Replicated")

_RECORD_BYTES_MAX: Final = 32
"""Upper bound of the bytes of a record in a batch, besides its key and its value."""


class WrittenRecord(NamedTuple, Generic[Replicated]):
    """A record as it is written, and the state after it."""

    record: LogRecord
    after: Replicated

    @property
    def size(self) -> int:
        return size_bound(self.record)


class DecisionWrite(NamedTuple, Generic[Replicated]):
    """Write of one decision: its records, and their batch if they are part of a transaction."""

    records: list[WrittenRecord[Replicated]]
    transactional: TransactionalBatch | None = None


def size_bound(record: LogRecord) -> int:
    """Return an upper bound of the record's bytes in a batch."""
    return _RECORD_BYTES_MAX + len(record.key or b"") + len(record.value or b"")


class TransactionalBatch(Struct, frozen=True, kw_only=True):
    """A batch of a producer's transaction, or the marker that ends it, as it is appended."""

    producer_id: int
    batch: bytes
    origin: AppendOrigin


class Happening(NamedTuple):
    """An event of a decision, and when that was made."""

    event: object
    at_ms: int
    """Wall time."""

    is_written: bool
    """True if the decision has records; otherwise a failed append undoes it, with the rest of the volatile state."""


class ShardBatch(Generic[Replicated]):
    """Records of decisions, to be appended together."""

    after: Replicated
    """The state after its records."""

    def __init__(self, number: int, transactional: TransactionalBatch | None = None) -> None:
        self.number = number
        self.transactional = transactional
        """Its bytes, if they are part of a transaction. Nothing is added to it then."""
        self.records: list[LogRecord] = []
        self.size = HEADER_BYTES
        """Upper bound of its bytes in the log."""
        self.replies: list[Reply] = []
        self.events: list[Happening] = []
        """Events of its decisions, and of those without records that were made after them."""
        self.end = Offset(-1)
        """The offset after its records, once they are appended."""
        self.is_overdue = False
        """True once its commit has taken too long; replies do not wait for it any more."""

    def has_room(self, size: int, size_max: int) -> bool:
        """Return whether records of this size can be added."""
        return self.transactional is None and self.size + size <= size_max


class TooLarge(Refusal):
    """Refusal of a decision whose records are too large to be written."""

    def __init__(self, size: int, size_max: int) -> None:
        """The records take `size` bytes or more."""
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the coordinator would have to write {size} bytes or more at once, and its log accepts {size_max}: "
            "raise max.message.bytes of the coordinator's topic",
        )
