"""The voter's memory: term, vote and log entries, in one append-only file that is synced before anything is told.

What the engine adds is buffered until `sync` writes it as one frame and waits for the disk; nobody is told about it
before. The whole journal is kept in memory and read again at every start; what a durable snapshot contains is cut off
its front, and the last entry that was cut off stays as the base, without its content. The commit index is not stored: a
voter learns it again from the leader, at no risk of believing too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import overload

from pysyncobj.journal import Journal

from kraft.log.disk import Disk, File
from kraft.model.errors import Corruption
from kraft.quorum import journal_format
from kraft.quorum.command import NO_OP
from kraft.quorum.journal_format import NO_VOTE, BaseRecord, EntryRecord, TruncationRecord, VoteRecord
from kraft.quorum.snapshots import SnapshotId

DIRECTORY_NAME = "__cluster_metadata"
FILE_NAME = "quorum.journal"

FIRST_INDEX = 1
"""The engine itself puts a no-op there in every new journal, the same on all voters."""

BUFFER_BYTES_MAX = 8 * 1024 * 1024
"""A buffer that grows beyond this is synced at once, so that no frame nears its own limit."""

Entry = tuple[bytes, int, int]
"""Command, index, term: the order that the engine uses."""


class QuorumJournal(Journal):  # type: ignore[misc]  # PySyncObj has no type information.
    """A journal as the engine wants one, with indexes from 1 upwards without gaps."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Opens, or creates, `<directory>/__cluster_metadata/quorum.journal`. To keep other processes out of there is
        the caller's business.

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
        self.start_index = FIRST_INDEX
        """Everything up to here is in the snapshot that the voter was started from."""
        self._disk = disk
        self._file = _open(path, disk)
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

    def _load(self) -> None:
        data = self._file.read_at(0, self._file.size)
        found = journal_format.scan(str(self.path), data)
        for record in found.records:
            self._replay(record)
        if found.valid_bytes < self._file.size:
            self._file.truncate(found.valid_bytes)
        # The process before may have ended because its sync failed. The kernel then shows the last frame, takes it for
        # written, and would sync nothing: written anew, it is.
        self._file.write_at(found.last_frame, data[found.last_frame : found.valid_bytes])
        self._file.sync()

    def _replay(self, record: journal_format.Record) -> None:
        match record:
            case EntryRecord(index=index, term=term, command=command):
                if index != self.last_index + 1:
                    raise Corruption(str(self.path), 0, f"entry {index} follows entry {self.last_index}")
                self._entries.append((command, index, term))
            case VoteRecord(term=term, voted_for=voted_for):
                self._term, self._voted_for = term, voted_for
            case TruncationRecord(from_index=from_index):
                if from_index < self.first_index:
                    raise Corruption(str(self.path), 0, f"a truncation to {from_index}, before {self.first_index}")
                del self._entries[from_index - self.first_index :]
            case BaseRecord(index=index, term=term):
                if self._entries:
                    raise Corruption(str(self.path), 0, f"a base at {index} behind entry {self.last_index}")
                self._entries.append(_base(index, term))

    # --- what our own code asks ----------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """The base, of which only index and term are here; in a journal that was never trimmed, the first entry."""
        return self._entries[0][1] if self._entries else FIRST_INDEX

    @property
    def last_index(self) -> int:
        """0 for an empty journal."""
        return self._entries[-1][1] if self._entries else 0

    @property
    def synced(self) -> bool:
        """Everything that was added is on disk."""
        return not self._buffer

    def term_at(self, index: int) -> int | None:
        """Term of the entry, None where there is none."""
        position = index - self.first_index
        return self._entries[position][2] if 0 <= position < len(self._entries) else None

    def sync(self) -> None:
        """Returns once everything added is on disk. An OSError from here ends the process: it is never retried."""
        if not self._buffer:
            return
        self._file.append([journal_format.encode_frame(self._file.size, b"".join(self._buffer))])
        self._file.sync()
        self._buffer.clear()
        self._buffered_bytes = 0
        self.sync_count += 1

    def trim(self, index: int) -> None:
        """Forgets what is before the entry at `index`, which becomes the base. Durable on return."""
        if index <= self.first_index:
            return
        term = self.term_at(index)
        assert term is not None, f"entry {index} is not in the journal, which ends at {self.last_index}"
        self.rebase(index, term)

    def rebase(self, index: int, term: int) -> None:
        """Makes that entry the base. What follows it stays if the very entry is here; else nothing does.

        A snapshot that contains it must be durable. Durable on return; an OSError from here ends the process.
        """
        self.sync()
        is_here = self.term_at(index) == term
        kept = self._entries[index - self.first_index + 1 :] if is_here else []
        self._entries = [_base(index, term), *kept]
        content = journal_format.encode_header()
        for body in self._bodies():
            content += journal_format.encode_frame(len(content), body)
        self._disk.write_atomically(str(self.path), content)
        self._file.close()
        self._file = self._disk.open(str(self.path), create=False)

    def _bodies(self) -> Iterator[bytes]:
        """What the frames of a journal with this base, term, vote and entries hold."""
        (_, index, term), *entries = self._entries
        records = [journal_format.encode_base(index, term), journal_format.encode_vote(self._term, self._voted_for)]
        size = 0
        for command, index, term in entries:
            records.append(journal_format.encode_entry(index, term, command))
            size += len(records[-1])
            if size > BUFFER_BYTES_MAX:
                yield b"".join(records)
                records, size = [], 0
        if records:
            yield b"".join(records)

    def close(self) -> None:
        """Closes the file. What was not synced was told to nobody and is forgotten."""
        self._file.close()

    def _put(self, record: bytes) -> None:
        self._buffer.append(record)
        self._buffered_bytes += len(record)
        if self._buffered_bytes > BUFFER_BYTES_MAX:
            self.sync()

    # --- what the engine asks, by the engine's names ---------------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        assert idx == self.last_index + 1, f"entry {idx} was added behind entry {self.last_index}"
        self._entries.append((command, idx, term))
        self._put(journal_format.encode_entry(idx, term, command))

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        from_index = entryFrom + self.first_index
        del self._entries[entryFrom:]
        self._put(journal_format.encode_truncation(from_index))

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
        return self.start_index

    @overload
    def __getitem__(self, item: int) -> Entry: ...

    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        raise NotImplementedError("the journal is never cleared by the engine: its snapshots are off")

    def deleteEntriesTo(self, entryTo: int) -> None:
        raise NotImplementedError("the journal is never trimmed by the engine: its snapshots are off")

    def _destroy(self) -> None:
        self.close()


def join_snapshot(journal: QuorumJournal, snapshot_id: SnapshotId | None) -> None:
    """Makes a journal that was just opened go on from the snapshot. Raises Corruption when the two do not fit.

    A voter that ends between the two halves of taking over another's snapshot leaves it beside an older journal, which
    is brought up here. That voter was in the snapshot's term before; a journal that was not is another's, or new.
    """
    path, first, last = str(journal.path), journal.first_index, journal.last_index
    if snapshot_id is None:
        if first > FIRST_INDEX:
            raise Corruption(
                path, 0, f"the journal begins at entry {first}, and there is no snapshot of what was before"
            )
        return
    index, term = snapshot_id.index, snapshot_id.term
    if journal.getCurrentTerm() < term:
        raise Corruption(
            path,
            0,
            f"the journal ends at entry {last} in term {journal.getCurrentTerm()}, and the snapshot stands at"
            f" entry {index} of term {term}: the journal was lost, and with it whom this voter has voted for",
        )
    if index < first:
        raise Corruption(path, 0, f"the journal begins at entry {first}, behind the snapshot at entry {index}")
    if journal.term_at(index) != term:
        journal.rebase(index, term)
    journal.start_index = index


def _base(index: int, term: int) -> Entry:
    # The content was applied long ago, and is asked for by nobody.
    return bytes([NO_OP]), index, term


def _open(path: Path, disk: Disk) -> File:
    """The journal never exists without its header."""
    disk.make_dir(str(path.parent))
    if not disk.exists(str(path)):
        disk.write_atomically(str(path), journal_format.encode_header())
    # Also when it exists: the process that created it may have died before it synced the names.
    for directory in list(path.parents)[:3]:
        disk.sync_dir(str(directory))
    return disk.open(str(path), create=False)
