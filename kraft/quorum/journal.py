"""The journal of a voter: membership, term, vote and log entries, in append-only files.

The files are synced before a voter acts on what they hold.

What the engine adds is buffered until it is taken as a write, which puts it into one frame and waits for the disk; no
message that depends on it is sent earlier. A write touches only the files, so any one thread may carry it out, one
write after the other. The whole journal is kept in memory and read again at every start. Entries that a durable
snapshot contains are trimmed from its front; the last trimmed entry stays as the base, without its content. A record
notes the trim, and files that hold nothing else are removed: nothing is rewritten. The commit index is not stored: a
voter learns it again from the leader, and a low one does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never, overload

from msgspec import Struct
from pysyncobj.journal import Journal

from kraft.log.disk import Disk
from kraft.model.errors import Corruption
from kraft.quorum import journal_format, journal_segments
from kraft.quorum.command import NO_OP
from kraft.quorum.config import QuorumConfig
from kraft.quorum.journal_format import (
    NO_VOTE,
    BaseRecord,
    EntryRecord,
    MembershipRecord,
    StartRecord,
    TrimRecord,
    TruncationRecord,
    VoteRecord,
)
from kraft.quorum.journal_segments import Segments
from kraft.quorum.membership import Membership, before_incarnations, check_membership
from kraft.quorum.snapshots import SnapshotId

DIRECTORY_NAME = journal_segments.DIRECTORY_NAME
FILE_NAME = journal_segments.FILE_NAME

FIRST_INDEX = 1
"""The engine writes a no-op here in every new journal, the same on all voters."""

FRAME_BODY_BYTES = 8 * 1024 * 1024
"""A frame ends with the record that reaches this size, so that no frame comes near its maximum."""


class JournalWrite(Struct, frozen=True, kw_only=True):
    """Everything added since the previous write; carried out in this order, each step durable before the next."""

    bodies: tuple[bytes, ...]
    """Bodies of frames, written one at a time: otherwise a crash could leave the second without the first."""

    begins_segment: tuple[int, int, bytes] | None
    """Index and term of the last entry before a new segment, and the records of the vote and the membership."""

    superfluous_segments: int
    """Number of segments, the oldest first, that a start no longer needs."""


Entry = tuple[bytes, int, int]
"""Command, index, term, in the engine's order."""


class QuorumJournal(Journal):  # type: ignore[misc]  # PySyncObj has no type information.
    """The journal behind the engine's interface; indexes start at 1 and have no gaps."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Open or create the journal in `<directory>/__cluster_metadata`; the caller keeps other processes out.

        Cuts off a torn tail. Raises Corruption if anything before it is corrupt. Syncs what it finds before it is used:
        the process that wrote it may have died before its own sync.
        """
        self._entries: list[Entry] = []
        self._term = 0
        self._voted_for = NO_VOTE
        self._membership: Membership | None = None
        self._buffer: list[bytes] = []
        self._under_way: JournalWrite | None = None
        self._was_trimmed = False
        self._synced_index = 0
        self._index_under_way = 0
        self._reaches_back_to: list[int] = []
        """Lowest base that a start would have at any time if this segment were the first, by segment."""
        self.sync_count = 0
        self.start_index = FIRST_INDEX
        """The last entry in the snapshot that the voter started from."""
        self._segments = Segments(directory, disk)
        try:
            self._load()
        except BaseException:
            self._segments.close()
            raise
        self._synced_index = self.last_index

    def _load(self) -> None:
        for number, path, records in self._segments.read():
            self._reaches_back_to.append(0)
            if number and not (records and isinstance(records[0], StartRecord) and records[0].number == number):
                raise Corruption(path, 0, f"the first record does not start segment {number} of a journal")
            for record in records:
                self._replay(path, record)
        if self._segments.last_is_of_an_earlier_format or self._segments.last_is_full:
            self._segments.roll(*self._begin_segment())

    def _begin_segment(self) -> tuple[int, int, bytes]:
        """Note that a segment begins here; return what its first frame is made of."""
        index, standing = self.last_index, journal_format.encode_vote(self._term, self._voted_for)
        if self._membership is not None:
            standing += journal_format.encode_membership(self._membership)
        self._reaches_back_to.append(index)
        return index, self.term_at(index) or 0, standing

    def _replay(self, path: str, record: journal_format.JournalRecord) -> None:
        match record:
            case EntryRecord(index=index, term=term, command=command):
                if index != self.last_index + 1:
                    raise Corruption(path, 0, f"entry {index} follows entry {self.last_index}")
                self._entries.append((command, index, term))
            case VoteRecord(term=term, voted_for=voted_for):
                self._term, self._voted_for = term, voted_for
            case MembershipRecord(membership=membership):
                self._membership = membership
            case TruncationRecord(from_index=from_index, previous_term=previous_term):
                self._replay_truncation(path, from_index, previous_term)
            case BaseRecord(index=index, term=term):
                self._entries = [_base(index, term)]
                self._reaches_back_to[-1] = index
            case TrimRecord(index=index, term=term):
                # If earlier segments were removed, the first one left may begin after that entry.
                if index >= self.first_index:
                    if self.term_at(index) != term:
                        raise Corruption(path, 0, f"trimmed to entry {index} of term {term}, which is missing")
                    self._forget_before(index)
            case StartRecord(index=index, term=term):
                self._replay_start(path, index, term)
            case _:
                assert_never(record)

    def _replay_start(self, path: str, index: int, term: int) -> None:
        if len(self._reaches_back_to) == 1:
            self._entries = [_base(index, term)] if index else []
        elif index != self.last_index or self.term_at(index) not in (term, None):
            raise Corruption(
                path, 0, f"the segment continues entry {index}, but the one before ends at {self.last_index}"
            )
        self._reaches_back_to[-1] = index

    def _replay_truncation(self, path: str, from_index: int, previous_term: int | None) -> None:
        self._reaches_back_to[-1] = min(self._reaches_back_to[-1], from_index - 1)
        if from_index > self.first_index or self.first_index == FIRST_INDEX:
            del self._entries[max(from_index - self.first_index, 0) :]
        elif previous_term is not None:
            # The truncation reaches into a segment that was removed; nothing before it is needed.
            self._entries = [_base(from_index - 1, previous_term)]
        else:
            raise Corruption(path, 0, f"truncated from entry {from_index}, before the first entry {self.first_index}")

    # --- called by our own code ----------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Path of the segment that is written to."""
        return Path(self._segments.last_path)

    @property
    def first_index(self) -> int:
        """Index of the base, which has no content; in a journal that was never trimmed, of the first entry."""
        return self._entries[0][1] if self._entries else FIRST_INDEX

    @property
    def last_index(self) -> int:
        """Index of the last entry; 0 for an empty journal."""
        return self._entries[-1][1] if self._entries else 0

    @property
    def membership(self) -> Membership | None:
        """The voter's membership; None in a new journal, or one of a version without memberships."""
        return self._membership

    def set_membership(self, membership: Membership) -> None:
        """Change the membership, with the next write."""
        self._membership = membership
        self._buffer.append(journal_format.encode_membership(membership))

    @property
    def synced(self) -> bool:
        """True if everything that was added is on disk."""
        return not self._buffer and self._under_way is None

    @property
    def synced_index(self) -> int:
        """Index up to which every entry is on disk unchanged, or in a snapshot on disk."""
        return self._synced_index

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry, None if there is no such entry."""
        position = index - self.first_index
        return self._entries[position][2] if 0 <= position < len(self._entries) else None

    def next_write(self) -> JournalWrite | None:
        """Return everything added since the last write, None if nothing was. The last one must be `written`."""
        assert self._under_way is None, "a write is under way"
        if not self._buffer:
            return None
        bodies = tuple(_joined(self._buffer))
        self._buffer = []
        begins_segment = None
        if self._segments.would_be_full(bodies):
            begins_segment = self._begin_segment()
        superfluous_segments = self._take_superfluous_segments() if self._was_trimmed else 0
        self._was_trimmed = False
        self._index_under_way = self.last_index
        self._under_way = JournalWrite(
            bodies=bodies, begins_segment=begins_segment, superfluous_segments=superfluous_segments
        )
        return self._under_way

    def carry_out(self, write: JournalWrite) -> None:
        """Carry out the write; blocks on the disk, in any thread. An OSError ends the process: never retry it."""
        for body in write.bodies:
            self._segments.append(body)
        if write.begins_segment is not None:
            self._segments.roll(*write.begins_segment)
        self._segments.remove_oldest(write.superfluous_segments)

    def written(self) -> None:
        """Note that the write under way is durable."""
        self._under_way = None
        self._synced_index = self._index_under_way
        self.sync_count += 1

    def sync(self) -> None:
        """Write everything added; return once it is on disk. An OSError ends the process: never retry it."""
        write = self.next_write()
        if write is not None:
            self.carry_out(write)
            self.written()

    def trim(self, index: int) -> None:
        """Do what `begin_trim` does, durable on return."""
        self.begin_trim(index)
        self.sync()

    def rebase(self, index: int, term: int) -> None:
        """Do what `begin_rebase` does, durable on return."""
        self.begin_rebase(index, term)
        self.sync()

    def begin_trim(self, index: int) -> None:
        """Drop the entries before `index`, whose entry becomes the base."""
        if index <= self.first_index:
            return
        term = self.term_at(index)
        assert term is not None, f"entry {index} is not in the journal, which ends at {self.last_index}"
        self.begin_rebase(index, term)

    def begin_rebase(self, index: int, term: int) -> None:
        """Make that entry the base. Later entries stay if exactly this entry is in the journal; otherwise none do.

        A snapshot that contains it must be durable. The next write puts this on disk and removes segments that are no
        longer needed.
        """
        if self.term_at(index) == term:
            self._forget_before(index)
            self._buffer.append(journal_format.encode_trim(index, term))
        else:
            self._entries = [_base(index, term)]
            self._buffer.append(journal_format.encode_base(index, term))
            self._reaches_back_to[-1] = index
            self._lower_synced_index(index)
        self._was_trimmed = True

    def _lower_synced_index(self, last_index: int) -> None:
        """Lower the synced index: entries above `last_index` were replaced."""
        self._synced_index = min(self._synced_index, last_index)
        self._index_under_way = min(self._index_under_way, last_index)

    def _forget_before(self, index: int) -> None:
        del self._entries[: index - self.first_index]
        self._entries[0] = _base(index, self._entries[0][2])

    def _take_superfluous_segments(self) -> int:
        """Forget the oldest segments, which a start does not need any more, and return their number."""
        superfluous, reaches_back_to = 0, self.last_index
        for position in reversed(range(len(self._reaches_back_to))):
            reaches_back_to = min(reaches_back_to, self._reaches_back_to[position])
            if reaches_back_to <= self.first_index:
                superfluous = position
                break
        del self._reaches_back_to[:superfluous]
        return superfluous

    def close(self) -> None:
        """Close the files. What was not synced is dropped; no message depended on it."""
        self._segments.close()

    # --- called by the engine, under its names ---------------------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        assert idx == self.last_index + 1, f"entry {idx} was added after entry {self.last_index}"
        self._entries.append((command, idx, term))
        self._buffer.append(journal_format.encode_entry(idx, term, command))

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        from_index = entryFrom + self.first_index
        del self._entries[entryFrom:]
        self._buffer.append(journal_format.encode_truncation(from_index, self.term_at(from_index - 1) or 0))
        self._reaches_back_to[-1] = min(self._reaches_back_to[-1], from_index - 1)
        self._lower_synced_index(from_index - 1)

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        self._term = term
        self._voted_for = NO_VOTE if votedForNodeId is None else votedForNodeId
        self._buffer.append(journal_format.encode_vote(term, self._voted_for))

    def getCurrentTerm(self) -> int:
        return self._term

    def getVotedForNodeId(self) -> int | None:
        return None if self._voted_for == NO_VOTE else self._voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Do nothing: the commit index is not stored."""

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
    """Make a journal that was just opened continue from the snapshot. Raises Corruption if the two do not fit.

    A voter that stops while it installs another voter's snapshot leaves that snapshot beside an older journal, which is
    advanced here. That voter had reached the snapshot's term; a journal that did not is another voter's, or new.
    """
    path, first, last = str(journal.path), journal.first_index, journal.last_index
    if snapshot_id is None:
        if first > FIRST_INDEX:
            raise Corruption(
                path, 0, f"the journal begins at entry {first}, and the snapshot of the entries before it is missing"
            )
        return
    index, term = snapshot_id.index, snapshot_id.term
    if journal.getCurrentTerm() < term:
        raise Corruption(
            path,
            0,
            f"the journal ends at entry {last} in term {journal.getCurrentTerm()}, but the snapshot ends at"
            f" entry {index} of term {term}: the journal was lost, and with it this voter's vote",
        )
    if index < first:
        raise Corruption(path, 0, f"the journal begins at entry {first}, after the snapshot's last entry {index}")
    if journal.term_at(index) != term:
        journal.rebase(index, term)
    journal.start_index = index


def settle_membership(
    journal: QuorumJournal, config: QuorumConfig, draw_incarnation: Callable[[], bytes]
) -> Membership:
    """Return the membership in a journal that was just opened, durable; a journal without one gets it.

    Only that of one of several voters from a version without memberships is not stored: see `Standing.confirm`.
    Raises MembershipRefused if the configuration contradicts it.
    """
    membership = journal.membership
    if membership is not None:
        check_membership(membership, config.node_id, config.voters, str(journal.path.parent))
        if config.peer_ids or not membership.is_new:
            return membership
    if membership is None and (journal.last_index > FIRST_INDEX or journal.getCurrentTerm() > 0):
        membership = before_incarnations(config.cluster_id, config.node_id, config.voters)
        if config.peer_ids:
            # The configuration may name voters that this quorum never had: it is stored once it is confirmed.
            return membership
    else:
        membership = membership or Membership(node_id=config.node_id, incarnation=draw_incarnation())
        if not config.peer_ids:
            # There is nobody to form the quorum with.
            membership = membership.joining({config.node_id: membership.incarnation})
    journal.set_membership(membership)
    journal.sync()
    return membership


def stored_membership(directory: Path, disk: Disk) -> Membership | None:
    """Return the membership in the journal below `directory`, which a voter may be writing to; None if there is none.

    Raises Corruption and OSError.
    """
    membership = None
    # Every segment begins with it.
    for path in journal_segments.segment_paths(directory, disk)[-1:]:
        for record in journal_format.scan(path, disk.read_file(path)).records:
            if isinstance(record, MembershipRecord):
                membership = record.membership
    return membership


def _joined(records: list[bytes]) -> Iterator[bytes]:
    """Join the records into the bodies of as few frames as possible."""
    pieces: list[bytes] = []
    size = 0
    for record in records:
        pieces.append(record)
        size += len(record)
        if size >= FRAME_BODY_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def _base(index: int, term: int) -> Entry:
    # Nothing reads the content any more: the entry was applied long ago.
    return bytes([NO_OP]), index, term
