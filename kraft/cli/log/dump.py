"""Reads one file of a partition, passes its content to a printer, and reports what cannot be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from msgspec import Struct

from kraft.cli.log.printer import Printer
from kraft.log.cleaning.segment_swap import SWAP_SUFFIX
from kraft.log.disk import Disk, File
from kraft.log.format.record_batch import HEADER_BYTES, decode_batch, read_header
from kraft.log.integrity.index_checks import TimeIndexCheck
from kraft.log.integrity.inspection import (
    INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
    IndexEntry,
    InspectedBatch,
    TimeIndexEntry,
    aborted_entries,
    index_entries,
    inspect_batches,
    time_index_entries,
)
from kraft.log.leader_epochs import CHECKPOINT_NAME as EPOCH_CHECKPOINT_NAME
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME as LOG_CHECKPOINT_NAME
from kraft.log.recovery.log_checkpoint import EARLIER_SUFFIX, LogCheckpoint
from kraft.log.recovery.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from kraft.log.segment.paths import ABORTED_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from kraft.model.errors import Corruption, InvalidBatch

NO_LIMIT: Final = 0x7FFFFFFF
"""Kafka's default for --max-bytes."""

_TEMPORARY_SUFFIXES: Final = (".deleted", ".cleaned")
"""Suffixes of a segment's files while they are created or deleted; the content has the same format."""

Report = Callable[[str, int | None, str], None]
"""Takes the file, the position or None, and the reason."""

_Entry = TypeVar("_Entry", IndexEntry, TimeIndexEntry)


class DumpOptions(Struct, frozen=True, kw_only=True):
    """`deep` decodes records. Index entries are compared with the log, or with `sanity_only` among themselves."""

    deep: bool = False
    sanity_only: bool = False
    verify_only: bool = False
    message_bytes_max: int = 5 << 20
    bytes_max: int = NO_LIMIT


class Dump:
    """`fault` receives what makes a file bad, `remark` what Kafka reports and a sound file may have."""

    def __init__(self, disk: Disk, printer: Printer, options: DumpOptions, *, fault: Report, remark: Report) -> None:
        self._disk = disk
        self._printer = printer
        self._options = options
        self._fault = fault
        self._remark = remark
        self._base_offset = 0
        self._temporary_suffix = ""

    def file(self, path: str) -> None:
        name = path.rpartition("/")[2]
        kind, temporary_suffix = _kind(name)
        kinds = {
            LOG_SUFFIX: self._log,
            INDEX_SUFFIX: self._index,
            TIME_INDEX_SUFFIX: self._time_index,
            ABORTED_INDEX_SUFFIX: self._aborted_index,
            SNAPSHOT_SUFFIX: self._snapshot,
            EPOCH_CHECKPOINT_NAME: self._leader_epochs,
            LOG_CHECKPOINT_NAME: self._checkpoint,
        }
        if kind not in kinds:
            unknown = f"this kind of file cannot be printed: name one of a partition, such as {0:020}{LOG_SUFFIX}"
            self._fault(path, None, unknown if self._disk.exists(path) else os.strerror(errno.ENOENT))
            return
        base_offset = _base_offset(name)
        if kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX) and base_offset is None:
            self._fault(path, None, "the name does not begin with a base offset")
            return
        self._temporary_suffix = temporary_suffix
        self._base_offset = base_offset or 0
        try:
            kinds[kind](path)
        except Corruption as broken:
            self._fault(broken.file, broken.position, broken.reason)
        except BrokenPipeError:
            # The reader of the output is gone; the file is not at fault.
            raise
        except OSError as error:
            self._fault(error.filename or path, None, error.strerror or str(error))

    # --- .log ------------------------------------------------------------------------------------------------

    def _log(self, path: str) -> None:
        with self._opened(path) as file:
            self._printer.begin(path)
            self._printer.log_starts(self._base_offset)
            is_limited = self._options.bytes_max < min(file.size, NO_LIMIT)
            end = 0
            # None if unknown: after a batch that cannot be trusted.
            previous_offset: int | None = self._base_offset - 1
            try:
                for batch in inspect_batches(file, path):
                    if is_limited and batch.end > self._options.bytes_max:
                        break
                    end = batch.end
                    self._printer.batch(batch)
                    if not batch.is_valid:
                        self._fault(path, batch.position, _checksum_reason(batch))
                        previous_offset = None
                    elif self._options.deep:
                        previous_offset = self._records(file, path, batch, previous_offset)
            except Corruption as broken:
                if not is_limited:
                    self._printer.trailing_bytes(file.size - end)
                if broken.position < self._options.bytes_max:
                    raise

    def _records(self, file: File, path: str, batch: InspectedBatch, previous_offset: int | None) -> int | None:
        """Print the records and return the offset of the last; None if it is unknown."""
        try:
            records = decode_batch(file.read_at(batch.position, batch.header.size_bytes))
        except InvalidBatch as error:
            self._fault(path, batch.position, error.message)
            return None
        for record in records:
            self._printer.record(batch.header, record)
            if previous_offset not in (None, record.offset - 1):
                self._remark(path, batch.position, f"offset {previous_offset} is followed by {record.offset}")
            previous_offset = record.offset
        return previous_offset

    # --- indexes ---------------------------------------------------------------------------------------------

    def _index(self, path: str) -> None:
        self._entries(path, index_entries, INDEX_ENTRY_BYTES, self._printer.index_entry)
        if not self._options.sanity_only:
            log_path = self._beside(path, INDEX_SUFFIX)
            with self._opened(path) as index, self._opened(log_path) as log:
                # Only the batches that entries point to are read.
                for number, entry in enumerate(index_entries(index, path, self._base_offset)):
                    reason = self._contradiction(log, entry)
                    if reason is not None:
                        named = f"the entry names offset {entry.offset} at byte {entry.position} of the log"
                        self._fault(path, number * INDEX_ENTRY_BYTES, f"{named}, where {reason}")

    def _contradiction(self, log: File, entry: IndexEntry) -> str | None:
        try:
            header = read_header(log.read_at(entry.position, HEADER_BYTES))
        except InvalidBatch as error:
            return f"no batch begins: {error.message}"
        if header.last_offset != entry.offset:
            return f"a batch ends at offset {header.last_offset}"
        if header.size_bytes > min(log.size - entry.position, self._options.message_bytes_max):
            return f"a batch of {header.size_bytes} bytes is larger than the log or --max-message-size allows"
        return None

    def _time_index(self, path: str) -> None:
        check = TimeIndexCheck(self._disk, path, self._base_offset)
        try:
            self._entries(path, time_index_entries, TIME_INDEX_ENTRY_BYTES, self._printer.time_index_entry)
            if not self._options.sanity_only:
                log_path = self._beside(path, TIME_INDEX_SUFFIX)
                with self._opened(log_path) as log:
                    for batch in inspect_batches(log, log_path, with_crc=False):
                        check.batch(batch.position, batch.header)
                    check.finish(log.size)
                for mismatch in [*check.mismatches, *([check.unfinished] if check.unfinished else [])]:
                    self._fault(path, mismatch.position, mismatch.reason)
        finally:
            check.close()

    def _aborted_index(self, path: str) -> None:
        with self._opened(path) as file:
            self._printer.begin(path)
            for entry in aborted_entries(file, path):
                self._printer.aborted_transaction(entry)

    def _entries(
        self,
        path: str,
        read: Callable[[File, str, int], Iterator[_Entry]],
        entry_bytes: int,
        print_entry: Callable[[_Entry], None],
    ) -> None:
        """Print the entries of an index. Raises Corruption if `sanity_only` finds them out of order."""
        with self._opened(path) as file:
            self._printer.begin(path)
            # Kafka's tool reports an empty offset index as empty, an empty time index as sane.
            if file.size == 0 and path.endswith(INDEX_SUFFIX + self._temporary_suffix):
                self._printer.is_empty()
                return
            earlier: _Entry | None = None
            for number, entry in enumerate(read(file, path, self._base_offset)):
                if self._options.sanity_only:
                    if earlier is not None and not all(a < b for a, b in zip(earlier, entry, strict=True)):
                        reason = f"the entry {tuple(entry)} does not ascend from {tuple(earlier)}"
                        raise Corruption(path, number * entry_bytes, reason)
                    earlier = entry
                elif not self._options.verify_only:
                    print_entry(entry)
            if self._options.sanity_only:
                self._printer.is_sane()

    # --- the rest --------------------------------------------------------------------------------------------

    def _snapshot(self, path: str) -> None:
        states = decode_snapshot(self._content(path), path)
        for producer_id, state in states.items():
            self._printer.producer(producer_id, state)

    def _leader_epochs(self, path: str) -> None:
        for entry in LeaderEpochCache.decode(self._content(path), path).entries:
            self._printer.leader_epoch(entry)

    def _checkpoint(self, path: str) -> None:
        self._printer.checkpoint(LogCheckpoint.decode(self._content(path), path))

    def _content(self, path: str) -> bytes:
        content = self._disk.read_file(path)
        self._printer.begin(path)
        return content

    def _beside(self, path: str, suffix: str) -> str:
        """Return the path of the `.log` that belongs to an index."""
        return path.removesuffix(suffix + self._temporary_suffix) + LOG_SUFFIX + self._temporary_suffix

    @contextmanager
    def _opened(self, path: str) -> Iterator[File]:
        file = self._disk.open(path, create=False)
        try:
            yield file
        finally:
            file.close()


def _kind(name: str) -> tuple[str, str]:
    """Return the suffix that names the format (or the whole name), and the temporary suffix."""
    if name.endswith(SWAP_SUFFIX):
        return LOG_SUFFIX, ""
    temporary_suffix = next((suffix for suffix in _TEMPORARY_SUFFIXES if name.endswith(suffix)), "")
    name = name.removesuffix(temporary_suffix).removesuffix(EARLIER_SUFFIX)
    return (f".{name.rpartition('.')[2]}" if "." in name else name), temporary_suffix


def _base_offset(name: str) -> int | None:
    digits = name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


def _checksum_reason(batch: InspectedBatch) -> str:
    return f"the checksum of a batch is {batch.computed_crc:#010x}, not {batch.header.crc:#010x} as in its header"
