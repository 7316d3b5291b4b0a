"""Snapshots and trimmed journals under random faults, each of their guards removed in turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from kraft.model.errors import Corruption
from kraft.quorum.command import NO_OP
from kraft.quorum.journal import QuorumJournal, join_snapshot
from kraft.quorum.snapshots import SnapshotId, SnapshotStore, encode
from tests.simulation import quorum_snapshots
from tests.simulation.quorum_runs import run
from tests.simulation.sim_disk import CrashMode, PowerFailure, SimDisk

WEAKENED_SEEDS = 60


class UndurableStore(SnapshotStore):
    """Without syncs."""

    def write(self, snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> int:
        self._disk.make_dir(self.directory)
        file = self._disk.open(self.path(snapshot_id), create=True)
        file.write_at(0, encode(snapshot_id, chunks))
        file.close()
        self._tidy()
        return 1


class NamelessStore(SnapshotStore):
    """Its directory may be gone after a power failure."""

    def _make_directory(self) -> None:
        self._disk.make_dir(self.directory)


@pytest.mark.parametrize("store", [UndurableStore, NamelessStore])
def test_the_simulation_notices_snapshots_that_are_not_durable(
    store: type[SnapshotStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_snapshots, "SnapshotStore", store)
    assert is_noticed()


def test_the_simulation_notices_a_vote_that_is_lost_with_the_front_of_a_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebase = QuorumJournal.rebase

    def forget_the_vote(journal: QuorumJournal, index: int, term: int) -> None:
        journal._term = 0
        rebase(journal, index, term)

    monkeypatch.setattr(QuorumJournal, "rebase", forget_the_vote)
    assert is_noticed()


def test_the_simulation_notices_entries_that_are_lost_with_the_front_of_a_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebase = QuorumJournal.rebase

    def forget_the_rest(journal: QuorumJournal, index: int, term: int) -> None:
        del journal._entries[index + 1 - journal.first_index :]
        rebase(journal, index, term)

    monkeypatch.setattr(QuorumJournal, "rebase", forget_the_rest)
    assert is_noticed()


def lost_by_trimming() -> list[str]:
    """A journal is trimmed to entry 6 of 10, behind a durable snapshot, and the power fails at every point of it."""
    losses = []
    for point in range(1, 20):
        for mode in CrashMode:
            disk = SimDisk()
            journal = QuorumJournal(Path("metadata"), disk)
            journal.setCurrentTerm(3, 2)
            for index in range(1, 11):
                journal.add(bytes([NO_OP]), index, 3)
            journal.sync()
            snapshot_id = SnapshotId(index=6, term=3)
            SnapshotStore(disk, quorum_snapshots.DIRECTORY).write(snapshot_id, [b"state"])
            disk.stop_at = disk.points + point
            with suppress(PowerFailure):
                journal.trim(6)
            disk.crash(mode, Random(point))
            try:
                found = QuorumJournal(Path("metadata"), disk)
                join_snapshot(found, snapshot_id)
            except Corruption as corruption:
                losses.append(f"{mode}: {corruption}")
                continue
            if (found.getCurrentTerm(), found.getVotedForNodeId(), found.last_index) != (3, 2, 10):
                losses.append(f"{mode}: {found.last_index} entries are left")
    return losses


def test_a_journal_is_trimmed_or_not_wherever_the_power_fails() -> None:
    assert lost_by_trimming() == []


def test_a_journal_that_is_cleared_and_filled_again_is_lost_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine compacts its own journal: bug 4."""

    def clear_and_fill(journal: QuorumJournal, index: int, term: int) -> None:
        journal._entries = [(bytes([NO_OP]), index, term), *journal[index - journal.first_index + 1 :]]
        journal._file.truncate(0)
        journal._file.sync()
        journal._file.append([quorum_snapshots.journal_content(journal)])
        journal._file.sync()

    monkeypatch.setattr(QuorumJournal, "rebase", clear_and_fill)
    assert lost_by_trimming() != []


def test_the_simulation_notices_a_journal_that_is_trimmed_before_its_snapshot_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the engine writes its own snapshots, in a child process that may never end: bug 4."""
    write = quorum_snapshots.SimKeeper.write

    def write_later(keeper: quorum_snapshots.SimKeeper) -> int:
        captured = keeper.captured
        assert captured is not None
        if captured.id.index % 2:
            return write(keeper)
        keeper.captured = None
        return captured.id.index

    monkeypatch.setattr(quorum_snapshots.SimKeeper, "write", write_later)
    assert is_noticed()


def is_noticed() -> bool:
    for seed in range(WEAKENED_SEEDS):
        try:
            run(seed)
        except AssertionError:
            return True
    return False
