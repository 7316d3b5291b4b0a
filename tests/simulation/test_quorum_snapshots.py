"""The quorum under random faults while snapshots are written, journals trimmed, and snapshots taken over."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kraft.quorum.journal import QuorumJournal
from kraft.quorum.snapshots import SnapshotId, SnapshotStore, encode
from tests.simulation.quorum_runs import Tally, run
from tests.simulation.quorum_snapshots import SnapshotTally, snapshots_taken

SEEDS = 40
WEAKENED_SEEDS = 60


def test_invariants_hold_while_journals_are_trimmed_and_snapshots_taken_over() -> None:
    total, snapshots = Tally(), SnapshotTally()
    for seed in range(SEEDS):
        try:
            with snapshots_taken(snapshots):
                total.add(run(seed))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert total.acknowledged > 100 * SEEDS, "runs that acknowledge nothing show nothing"
    assert snapshots.trims > 5 * SEEDS
    assert snapshots.starts > 3 * SEEDS
    assert snapshots.installed > SEEDS // 10


def test_a_seed_replays_exactly() -> None:
    def once() -> tuple[Tally, SnapshotTally]:
        snapshots = SnapshotTally()
        with snapshots_taken(snapshots):
            return run(11), snapshots

    assert once() == once()


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
def test_the_simulation_notices_snapshots_that_are_not_durable(store: type[SnapshotStore]) -> None:
    assert is_noticed(store), f"{WEAKENED_SEEDS} seeds did not notice: {store.__name__}"


def test_the_simulation_notices_a_vote_that_is_lost_with_the_front_of_a_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebase = QuorumJournal.rebase

    def forget_the_vote(journal: QuorumJournal, index: int, term: int) -> None:
        journal._term = 0
        rebase(journal, index, term)

    monkeypatch.setattr(QuorumJournal, "rebase", forget_the_vote)
    assert is_noticed(SnapshotStore)


def test_the_simulation_notices_entries_that_are_lost_with_the_front_of_a_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebase = QuorumJournal.rebase

    def forget_the_rest(journal: QuorumJournal, index: int, term: int) -> None:
        del journal._entries[index + 1 - journal.first_index :]
        rebase(journal, index, term)

    monkeypatch.setattr(QuorumJournal, "rebase", forget_the_rest)
    assert is_noticed(SnapshotStore)


def is_noticed(store: type[SnapshotStore]) -> bool:
    for seed in range(WEAKENED_SEEDS):
        try:
            with snapshots_taken(SnapshotTally(), store):
                run(seed)
        except AssertionError:
            return True
    return False
