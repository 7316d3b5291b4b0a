"""Snapshots and trimmed journals under random faults, with each of their guards removed in turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from kraft.model.errors import Corruption
from kraft.quorum import journal_segments
from kraft.quorum.command import NO_OP
from kraft.quorum.journal import QuorumJournal, join_snapshot
from kraft.quorum.journal_segments import Segments
from kraft.quorum.snapshots import SnapshotId, SnapshotStore, encode
from tests.simulation import quorum_snapshots
from tests.simulation.quorum_invariants import Invariant
from tests.simulation.quorum_runs import notices
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk

WEAKENED_SEEDS = 60


class UndurableStore(SnapshotStore):
    """A store without syncs."""

    def write(self, snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> int:
        self._disk.make_dir(self.directory)
        file = self._disk.open(self.path(snapshot_id), create=True)
        file.write_at(0, encode(snapshot_id, chunks))
        file.close()
        self._remove_old()
        return 1


class NamelessStore(SnapshotStore):
    """A store whose directory may be gone after a power failure."""

    def _make_directory(self) -> None:
        self._disk.make_dir(self.directory)


@pytest.mark.parametrize(
    ("store", "words"),
    [(UndurableStore, "not a snapshot"), (NamelessStore, "the snapshot of the entries before it is missing")],
)
def test_the_simulation_notices_snapshots_that_are_not_durable(
    store: type[SnapshotStore], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_snapshots, "SnapshotStore", store)
    assert notices(Invariant.VOTERS_GO_ON, range(WEAKENED_SEEDS), words)


def test_the_simulation_notices_a_segment_that_begins_without_term_and_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are lost with the segments before it."""
    roll = Segments.roll
    monkeypatch.setattr(Segments, "roll", lambda self, index, term, vote: roll(self, index, term, b""))
    assert notices(Invariant.VOTERS_GO_ON, range(WEAKENED_SEEDS), "the journal was lost")


def test_the_simulation_notices_a_segment_that_is_not_durable_before_it_is_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write_without_sync(disk: SimDisk, path: str, data: bytes) -> None:
        file = disk.open(path, create=True)
        file.write_at(0, data)
        file.close()

    roll = Segments.roll

    def roll_carelessly(self: Segments, index: int, term: int, vote: bytes) -> None:
        with patch.object(SimDisk, "write_atomically", write_without_sync):
            roll(self, index, term, vote)

    monkeypatch.setattr(Segments, "roll", roll_carelessly)
    assert notices(Invariant.NOTHING_GOES_BACK, range(WEAKENED_SEEDS), "goes back from term")


def test_removing_the_newest_segment_first_leaves_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_newest_first(self: Segments, count: int) -> None:
        for number in reversed(self.numbers[:count]):
            self._disk.remove(self._path(number))
            self._disk.sync_dir(str(self._folder))
        del self.numbers[:count]

    monkeypatch.setattr(Segments, "remove_oldest", remove_newest_first)
    assert any("missing" in loss for loss in lost_by_trimming())


def test_removing_segments_without_a_sync_between_leaves_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_all_at_once(self: Segments, count: int) -> None:
        for number in self.numbers[:count]:
            self._disk.remove(self._path(number))
        self._disk.sync_dir(str(self._folder))
        del self.numbers[:count]

    monkeypatch.setattr(Segments, "remove_oldest", remove_all_at_once)
    assert any("missing" in loss for loss in lost_by_trimming())


def test_the_simulation_notices_entries_that_are_lost_with_the_front_of_a_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebase = QuorumJournal.begin_rebase

    def forget_the_rest(journal: QuorumJournal, index: int, term: int) -> None:
        del journal._entries[index + 1 - journal.first_index :]
        rebase(journal, index, term)

    monkeypatch.setattr(QuorumJournal, "begin_rebase", forget_the_rest)
    assert notices(Invariant.COMMITTED_STAYS, range(WEAKENED_SEEDS), "has lost entry")


def lost_by_trimming() -> list[str]:
    """Trim a journal to entry 16 of 20, after a durable snapshot, and fail the power at every point of it."""
    losses = []
    with patch.object(journal_segments, "SEGMENT_BYTES", 200):
        for point, mode, seed in product(range(1, 20), CrashMode, range(5)):
            disk = SimDisk()
            journal = QuorumJournal(Path("metadata"), disk)
            journal.setCurrentTerm(3, 2)
            for index in range(1, 21):
                journal.add(bytes([NO_OP]), index, 3)
                journal.sync()
            snapshot_id = SnapshotId(index=16, term=3)
            SnapshotStore(disk, quorum_snapshots.DIRECTORY).write(snapshot_id, [b"state"])
            disk.stop_at = disk.points + point
            with suppress(PowerFailure):
                journal.trim(16)
            disk.crash(mode, Random(seed))
            try:
                found = QuorumJournal(Path("metadata"), disk)
                join_snapshot(found, snapshot_id)
            except Corruption as corruption:
                losses.append(f"{mode}: {corruption}")
                continue
            if (found.getCurrentTerm(), found.getVotedForNodeId(), found.last_index) != (3, 2, 20):
                losses.append(f"{mode}: {found.last_index} entries are left")
    return losses


def test_a_journal_is_trimmed_or_not_wherever_the_power_fails() -> None:
    assert lost_by_trimming() == []


def test_a_journal_that_is_cleared_and_filled_again_is_lost_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine compacts its own journal like this: bug 4."""

    def clear_and_fill(self: Segments, count: int) -> None:
        kept = [(self._path(number), self._disk.read_file(self._path(number))) for number in self.numbers[count:]]
        for number in self.numbers:
            self._disk.remove(self._path(number))
            self._disk.sync_dir(str(self._folder))
        for path, content in kept:
            self._disk.write_atomically(path, content)

    monkeypatch.setattr(Segments, "remove_oldest", clear_and_fill)
    assert any("after the snapshot" in loss for loss in lost_by_trimming())


def test_the_simulation_notices_a_journal_that_is_trimmed_before_its_snapshot_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine writes its own snapshots like this, in a child process that may never end: bug 4."""
    write = quorum_snapshots.SimKeeper.write

    def write_later(keeper: quorum_snapshots.SimKeeper) -> int:
        captured = keeper.captured
        assert captured is not None
        if captured.id.index % 2:
            return write(keeper)
        keeper.captured = None
        return captured.id.index

    monkeypatch.setattr(quorum_snapshots.SimKeeper, "write", write_later)
    assert notices(Invariant.VOTERS_GO_ON, range(WEAKENED_SEEDS), "the journal begins at entry")
