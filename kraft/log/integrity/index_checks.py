"""Integrity of a segment's indexes: compares each entry with the batches while these are read one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, NamedTuple, TypeVar

from kraft.log.disk import Disk, File
from kraft.log.format.record_batch import BatchHeader
from kraft.log.integrity.inspection import (
    INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
    IndexEntry,
    TimeIndexEntry,
    aborted_entries,
    index_entries,
    time_index_entries,
)
from kraft.log.transactions.aborted import ENTRY_BYTES as ABORTED_ENTRY_BYTES
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.errors import Corruption

FAULTS_MAX: Final = 20
"""Faults reported per index: if the first entries are wrong, so are the others."""

_NO_TIMESTAMP: Final = -1

_Entry = TypeVar("_Entry", IndexEntry, TimeIndexEntry, AbortedTxn)


class Mismatch(NamedTuple):
    """A wrong entry. `position` is the entry's; `log_position` is how far the log had been read when it was found."""

    position: int
    log_position: int
    reason: str


class _IndexCheck(ABC, Generic[_Entry]):
    """Check of one index. Entries ascend like batches, so both are read once, side by side.

    The index may be missing: then there is nothing to compare, and `exists` is False. It is opened before the log.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        base_offset: int,
        entries: Callable[[File, str, int], Iterator[_Entry]],
        entry_bytes: int,
    ) -> None:
        self.path = path
        self.mismatches: list[Mismatch] = []
        self.unfinished: Mismatch | None = None
        """The first entry beyond the end of the log."""
        self._entry_bytes = entry_bytes
        self._number = -1
        self._entry: _Entry | None = None
        self._file: File | None = None
        self._entries: Iterator[_Entry] = iter(())
        with suppress(FileNotFoundError):
            self._file = disk.open(path, create=False)
            self._entries = entries(self._file, path, base_offset)
        self._advance(0)

    @property
    def exists(self) -> bool:
        return self._file is not None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def finish(self, log_bytes: int) -> None:
        """Finish the check: the log was read to its end."""
        if self._entry is not None:
            reason = f"{self._described()}, beyond the end of the log"
            self.unfinished = Mismatch(self._entry_position, log_bytes, reason)

    @property
    def _entry_position(self) -> int:
        return self._number * self._entry_bytes

    def _advance(self, log_position: int) -> None:
        earlier = self._entry
        try:
            self._entry = next(self._entries, None)
            self._number += 1
        except Corruption as broken:
            self._entry = None
            self.mismatches.append(Mismatch(broken.position, log_position, broken.reason))
        if earlier is not None and self._entry is not None and not self._ascends(earlier, self._entry):
            self._wrong(log_position, f"{self._described()} does not ascend from the previous entry")

    def _wrong(self, log_position: int, reason: str) -> None:
        self.mismatches.append(Mismatch(self._entry_position, log_position, reason))
        if len(self.mismatches) >= FAULTS_MAX:
            self._entries, self._entry = iter(()), None

    def _ascends(self, earlier: _Entry, later: _Entry) -> bool:
        return all(before < after for before, after in zip(earlier, later, strict=True))

    @abstractmethod
    def _described(self) -> str:
        """Return the current entry in words."""


class OffsetIndexCheck(_IndexCheck[IndexEntry]):
    """Check of the offset index: an entry has the last offset and the position of a batch."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, index_entries, INDEX_ENTRY_BYTES)

    def batch(self, position: int, header: BatchHeader) -> None:
        while self._entry is not None and self._entry.position <= position:
            if self._entry.position < position:
                self._wrong(position, f"{self._described()}, where no batch begins")
            elif self._entry.offset != header.last_offset:
                self._wrong(position, f"{self._described()}, where the batch ends at offset {header.last_offset}")
            self._advance(position)

    def _described(self) -> str:
        assert self._entry is not None
        return f"the entry names offset {self._entry.offset} at byte {self._entry.position}"


class TimeIndexCheck(_IndexCheck[TimeIndexEntry]):
    """Check of the time index: an entry has the last offset and the timestamp of a batch, the largest so far."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, time_index_entries, TIME_INDEX_ENTRY_BYTES)
        self._max_timestamp_ms = _NO_TIMESTAMP
        self._last_timestamp_ms = _NO_TIMESTAMP

    def batch(self, position: int, header: BatchHeader) -> None:
        if header.record_count:
            # A batch that compaction has emptied has a timestamp without a record; the index may have it or not.
            self._max_timestamp_ms = max(self._max_timestamp_ms, header.max_timestamp_ms)
        while self._entry is not None and self._entry.offset <= header.last_offset:
            self._last_timestamp_ms = self._entry.timestamp_ms
            if self._entry.offset < header.last_offset:
                self._wrong(position, f"{self._described()}, where no batch ends")
            elif self._entry.timestamp_ms != header.max_timestamp_ms:
                self._wrong(position, f"{self._described()}, where the batch has {header.max_timestamp_ms}")
            elif self._max_timestamp_ms > header.max_timestamp_ms:
                self._wrong(position, f"{self._described()}, after a batch with {self._max_timestamp_ms}")
            self._advance(position)

    def missing_maximum(self) -> str | None:
        """Return what is wrong if the last entry lacks the largest timestamp of a closed segment; None if it has it.

        Retention uses that timestamp.
        """
        if self.mismatches or self._last_timestamp_ms >= self._max_timestamp_ms:
            return None
        return f"the last timestamp is {self._last_timestamp_ms}, but the segment has {self._max_timestamp_ms}"

    def _described(self) -> str:
        assert self._entry is not None
        return f"the entry names timestamp {self._entry.timestamp_ms} at offset {self._entry.offset}"


class AbortedIndexCheck(_IndexCheck[AbortedTxn]):
    """Check of the index of aborted transactions: an entry has the offset of an abort marker, and where it began."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, _aborted_entries, ABORTED_ENTRY_BYTES)
        self.has_aborted = False
        """True if the segment aborts a transaction of which the log has a batch, so that there must be an index."""

    def marker(self, position: int, header: BatchHeader, start: int | None, *, may_begin_before: bool) -> None:
        """Compare with the next abort marker, whose transaction begins at `start`; None if the log has no batch of it.

        If it `may_begin_before`, earlier batches of it may have been deleted.
        """
        offset = header.last_offset
        while self._entry is not None and self._entry.last_offset < offset:
            self._wrong(position, f"{self._described()}, where no transaction is aborted")
            self._advance(position)
        if self._entry is not None and self._entry.last_offset == offset:
            self._compare(position, self._entry, header.producer_id, start, may_begin_before=may_begin_before)
            self._advance(position)
        elif start is not None:
            self.has_aborted = True
            if self.exists and len(self.mismatches) < FAULTS_MAX:
                what = f"the transaction of producer {header.producer_id} from offset {start} to {offset}"
                self.mismatches.append(Mismatch(max(0, self._entry_position), position, f"{what} is missing"))

    def _compare(
        self, position: int, entry: AbortedTxn, producer_id: int, start: int | None, *, may_begin_before: bool
    ) -> None:
        if entry.producer_id != producer_id:
            self._wrong(position, f"{self._described()}, where the producer is {producer_id}")
        elif not (entry.first_offset == start or (may_begin_before and (start is None or entry.first_offset < start))):
            begins = "has no batch" if start is None else f"begins at offset {start}"
            self._wrong(position, f"{self._described()}, but in the log it {begins}")

    def _ascends(self, earlier: AbortedTxn, later: AbortedTxn) -> bool:
        # A transaction that begins earlier may end later.
        return earlier.last_offset < later.last_offset

    def _described(self) -> str:
        assert self._entry is not None
        producer_id, first, last, _ = self._entry
        return f"the entry names the transaction of producer {producer_id} from offset {first} to {last}"


def _aborted_entries(file: File, path: str, _: int) -> Iterator[AbortedTxn]:
    return aborted_entries(file, path)
