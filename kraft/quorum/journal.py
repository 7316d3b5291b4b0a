"""The voter's memory: term, vote and log entries, in one append-only file that is synced before anything is told.

What the engine adds is buffered until `sync` writes it as one frame and waits for the disk; nobody is told about it
before. The whole journal is kept in memory and read again at every start: there are no snapshots yet, so it is never
compacted. The commit index is not stored: a voter learns it again from the leader, at no risk of believing too much.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import overload

from pysyncobj.journal import Journal

from kraft.model.errors import Corruption
from kraft.quorum import journal_format
from kraft.quorum.journal_format import NO_VOTE, EntryRecord, TruncationRecord, VoteRecord

DIRECTORY_NAME = "__cluster_metadata"
FILE_NAME = "quorum.journal"

FIRST_INDEX = 1
"""The engine itself puts a no-op there in every new journal, the same on all voters."""

BUFFER_BYTES_MAX = 8 * 1024 * 1024
"""A buffer that grows beyond this is synced at once, so that no frame nears its own limit."""

Entry = tuple[bytes, int, int]
"""Command, index, term: the order that the engine uses."""


class JournalInUse(Exception):
    """Another process has this journal open."""


class QuorumJournal(Journal):  # type: ignore[misc]  # PySyncObj has no type information.
    """A journal as the engine wants one, with indexes from 1 upwards without gaps."""

    def __init__(self, directory: Path) -> None:
        """Opens, or creates, `<directory>/__cluster_metadata/quorum.journal`.

        A torn tail is cut off; Corruption is raised for damage before it. Everything found is synced before it is
        believed: the process that wrote it may have died before its own sync.
        """
        path = directory / DIRECTORY_NAME / FILE_NAME
        self.path = path
        self._entries: list[Entry] = []
        self._term = 0
        self._voted_for = NO_VOTE
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self.sync_count = 0
        _create_if_missing(path)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._lock()
            self._position = self._load()
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalInUse(f"{self.path} is in use by another process") from None

    def _load(self) -> int:
        size = os.fstat(self._file).st_size
        found = journal_format.scan(str(self.path), _read_exactly(self._file, size))
        for record in found.records:
            self._replay(record)
        if found.valid_bytes < size:
            os.ftruncate(self._file, found.valid_bytes)
        os.fsync(self._file)
        return found.valid_bytes

    def _replay(self, record: journal_format.Record) -> None:
        match record:
            case EntryRecord(index=index, term=term, command=command):
                if index != len(self._entries) + FIRST_INDEX:
                    raise Corruption(str(self.path), 0, f"entry {index} follows entry {len(self._entries)}")
                self._entries.append((command, index, term))
            case VoteRecord(term=term, voted_for=voted_for):
                self._term, self._voted_for = term, voted_for
            case TruncationRecord(from_index=from_index):
                del self._entries[from_index - FIRST_INDEX :]

    # --- what our own code asks ----------------------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        """0 for an empty journal."""
        return len(self._entries)

    @property
    def synced(self) -> bool:
        """Everything that was added is on disk."""
        return not self._buffer

    def term_at(self, index: int) -> int | None:
        """Term of the entry, None where there is none."""
        position = index - FIRST_INDEX
        return self._entries[position][2] if 0 <= position < len(self._entries) else None

    def sync(self) -> None:
        """Returns once everything added is on disk. An OSError from here ends the process: it is never retried."""
        if not self._buffer:
            return
        frame = journal_format.encode_frame(self._position, b"".join(self._buffer))
        _write_exactly(self._file, frame, self._position)
        os.fdatasync(self._file)
        self._position += len(frame)
        self._buffer.clear()
        self._buffered_bytes = 0
        self.sync_count += 1

    def close(self) -> None:
        """Closes the file. What was not synced was told to nobody and is forgotten."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _put(self, record: bytes) -> None:
        self._buffer.append(record)
        self._buffered_bytes += len(record)
        if self._buffered_bytes > BUFFER_BYTES_MAX:
            self.sync()

    # --- what the engine asks, by the engine's names ---------------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        assert idx == len(self._entries) + FIRST_INDEX, f"entry {idx} was added behind entry {len(self._entries)}"
        self._entries.append((command, idx, term))
        self._put(journal_format.encode_entry(idx, term, command))

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        del self._entries[entryFrom:]
        self._put(journal_format.encode_truncation(entryFrom + FIRST_INDEX))

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        self._term = term
        self._voted_for = NO_VOTE if votedForNodeId is None else votedForNodeId
        self._put(journal_format.encode_vote(term, self._voted_for))

    def getCurrentTerm(self) -> int:
        return self._term

    def getVotedForNodeId(self) -> int | None:
        return None if self._voted_for == NO_VOTE else self._voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Not stored, see above."""

    def getRaftCommitIndex(self) -> int:
        return FIRST_INDEX

    @overload
    def __getitem__(self, item: int) -> Entry: ...

    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        raise NotImplementedError("the journal is never cleared: the engine's snapshots are switched off")

    def deleteEntriesTo(self, entryTo: int) -> None:
        raise NotImplementedError("the journal is never compacted: the engine's snapshots are switched off")

    def _destroy(self) -> None:
        self.close()


def _create_if_missing(path: Path) -> None:
    """Under a temporary name first, so that the journal never exists without its header."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(journal_format.encode_header())
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    for directory in (path.parent, path.parent.parent):
        _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_exactly(file: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.pread(file, size - len(data), len(data))
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _write_exactly(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        view = view[written:]
        position += written
