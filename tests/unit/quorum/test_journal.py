from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kraft.log.disk import Disk
from kraft.model.errors import Corruption
from kraft.quorum import journal_format
from kraft.quorum.command import NO_OP
from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME, QuorumJournal, join_snapshot
from kraft.quorum.journal_format import HEADER_BYTES
from kraft.quorum.snapshots import SnapshotId
from kraft.runtime.disk import RealDisk
from tests.support.disks.sim_content import CrashMode, SyncFailure
from tests.support.disks.sim_disk import PowerFailure, SimDisk


def file_of(directory: Path) -> Path:
    return directory / DIRECTORY_NAME / FILE_NAME


def contents(directory: Path) -> tuple[list[tuple[bytes, int, int]], int, int | None]:
    journal = QuorumJournal(directory, RealDisk())
    try:
        return journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId()
    finally:
        journal.close()


def write_three_frames(directory: Path) -> list[int]:
    """A journal of one entry a frame; the size of the file before and after each frame."""
    journal = QuorumJournal(directory, RealDisk())
    sizes = [file_of(directory).stat().st_size]
    for index in (1, 2, 3):
        journal.add(b"command %d" % index, index, 7)
        journal.sync()
        sizes.append(file_of(directory).stat().st_size)
    journal.close()
    return sizes


def test_a_new_journal_is_empty_without_term_or_vote(tmp_path: Path) -> None:
    assert contents(tmp_path) == ([], 0, None)


def test_entries_term_and_vote_come_back(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(b"\1", 1, 0)
    journal.setCurrentTerm(3, 2)
    journal.add(b"\0first", 2, 3)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([(b"\1", 1, 0), (b"\0first", 2, 3)], 3, 2)


def test_a_term_without_a_vote_is_not_a_vote_for_node_0(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.setCurrentTerm(4, 0)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([], 4, 0)
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.setCurrentTerm(5, None)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([], 5, None)


def test_a_truncation_survives_and_what_is_added_after_it_counts(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    for index in (1, 2, 3):
        journal.add(b"old", index, 1)
    journal.sync()
    journal.deleteEntriesFrom(1)
    journal.add(b"new", 2, 2)
    journal.sync()
    journal.close()
    assert contents(tmp_path)[0] == [(b"old", 1, 1), (b"new", 2, 2)]


def test_what_was_not_synced_is_not_there_and_one_sync_serves_all(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(b"synced", 1, 1)
    journal.setCurrentTerm(1, 1)
    journal.sync()
    assert journal.sync_count == 1
    journal.add(b"not synced", 2, 1)
    assert not journal.synced
    assert journal.term_at(2) == 1
    journal.close()
    assert contents(tmp_path) == ([(b"synced", 1, 1)], 1, 1)


def test_a_sync_without_anything_new_does_not_touch_the_disk(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.sync()
    journal.close()
    assert journal.sync_count == 0


def test_what_is_found_at_a_start_is_on_disk_before_it_is_believed() -> None:
    disk, directory = SimDisk(), Path("node")
    journal = QuorumJournal(directory, disk)
    journal.add(b"unsynced", 1, 7)
    disk.stop_at = disk.points + 2
    with pytest.raises(PowerFailure, match="sync"):
        journal.sync()
    disk.crash(CrashMode.KEEP, Random(1))
    assert QuorumJournal(directory, disk)[:] == [(b"unsynced", 1, 7)]
    disk.crash(CrashMode.DROP, Random(1))
    assert QuorumJournal(directory, disk)[:] == [(b"unsynced", 1, 7)]


@pytest.mark.parametrize("failure", SyncFailure)
def test_after_a_failed_sync_the_next_start_writes_the_last_frame_again(failure: SyncFailure) -> None:
    disk, directory = SimDisk(), Path("node")
    journal = QuorumJournal(directory, disk)
    journal.add(b"synced", 1, 7)
    journal.sync()
    journal.add(b"not synced", 2, 7)
    disk.fail_next_sync(failure)
    with pytest.raises(OSError, match="Input/output error"):
        journal.sync()
    disk.crash(CrashMode.KEEP, Random(1))
    journal = QuorumJournal(directory, disk)
    found = journal[:]
    journal.add(b"later", len(found) + 1, 7)
    journal.sync()
    disk.crash(CrashMode.DROP, Random(1))
    assert QuorumJournal(directory, disk)[:] == [*found, (b"later", len(found) + 1, 7)]


def test_a_journal_exists_whole_or_not_at_all_wherever_the_power_fails() -> None:
    whole = SimDisk()
    QuorumJournal(Path("node"), whole)
    for point in range(1, whole.points + 1):
        for mode in CrashMode:
            disk = SimDisk()
            disk.stop_at = point
            with pytest.raises(PowerFailure):
                QuorumJournal(Path("node"), disk)
            disk.crash(mode, Random(point))
            journal = QuorumJournal(Path("node"), disk)
            journal.add(b"synced", 1, 7)
            journal.sync()
            disk.crash(CrashMode.DROP, Random(point))
            assert QuorumJournal(Path("node"), disk)[:] == [(b"synced", 1, 7)], f"{mode} at {point}"


def test_a_tail_torn_at_any_byte_is_cut_and_the_journal_goes_on(tmp_path: Path) -> None:
    _, _, before_last, end = write_three_frames(tmp_path)
    whole = file_of(tmp_path).read_bytes()
    for length in range(before_last, end):
        file_of(tmp_path).write_bytes(whole[:length])
        journal = QuorumJournal(tmp_path, RealDisk())
        assert journal.last_index == 2, f"torn at byte {length}"
        journal.add(b"again", 3, 8)
        journal.sync()
        journal.close()
        assert [entry[0] for entry in contents(tmp_path)[0]] == [b"command 1", b"command 2", b"again"]


def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path) -> None:
    write_three_frames(tmp_path)
    whole = file_of(tmp_path).read_bytes()
    for tail in (bytes(5000), b"\xf1KQF" + bytes(range(256)), b"\xff" * 3):
        file_of(tmp_path).write_bytes(whole + tail)
        assert len(contents(tmp_path)[0]) == 3
        assert file_of(tmp_path).read_bytes() == whole


def test_one_wrong_byte_anywhere_before_the_last_frame_is_refused_by_file_and_byte(tmp_path: Path) -> None:
    _, _, before_last, _ = write_three_frames(tmp_path)
    whole = file_of(tmp_path).read_bytes()
    for position in range(before_last):
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        file_of(tmp_path).write_bytes(damaged)
        with pytest.raises(Corruption, match=f"{FILE_NAME} at byte") as refusal:
            QuorumJournal(tmp_path, RealDisk())
        assert refusal.value.position <= position
        assert file_of(tmp_path).read_bytes() == bytes(damaged), "a damaged journal is left as it is"


def test_a_journal_inside_a_command_does_not_pass_for_what_follows_a_torn_frame(tmp_path: Path) -> None:
    write_three_frames(tmp_path / "inner")
    inner = file_of(tmp_path / "inner").read_bytes()
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(b"kept", 1, 1)
    journal.sync()
    journal.add(inner + inner[HEADER_BYTES:], 2, 1)
    journal.sync()
    journal.close()
    whole = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(whole[:-1])
    assert contents(tmp_path)[0] == [(b"kept", 1, 1)]


def test_a_file_of_another_kind_or_version_is_refused(tmp_path: Path) -> None:
    write_three_frames(tmp_path)
    file_of(tmp_path).write_bytes(b"")
    with pytest.raises(Corruption, match="not a quorum journal"):
        QuorumJournal(tmp_path, RealDisk())


def test_a_write_of_more_than_a_frame_holds_takes_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.quorum.journal.FRAME_BODY_BYTES", 1000)
    journal = QuorumJournal(tmp_path, RealDisk())
    for index in range(1, 101):
        journal.add(bytes(100), index, 1)
    journal.sync()
    journal.close()
    assert file_of(tmp_path).read_bytes().count(journal_format.FRAME_MAGIC) > 5
    assert len(contents(tmp_path)[0]) == 100


def test_a_write_holds_what_was_added_before_it_was_begun_and_the_next_one_the_rest(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.setCurrentTerm(1, 2)
    journal.add(b"\0a", 1, 1)
    first = journal.next_write()
    assert first is not None
    journal.add(b"\0b", 2, 1)
    assert (journal.synced_index, journal.synced) == (0, False)
    journal.carry_out(first)
    journal.written()
    assert (journal.synced_index, journal.synced, journal.last_index) == (1, False, 2)
    assert contents(tmp_path)[0] == [(b"\0a", 1, 1)]
    journal.sync()
    assert (journal.synced_index, journal.synced, journal.next_write()) == (2, True, None)


def test_what_is_cut_off_while_it_is_written_does_not_count_as_durable(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1)
    journal.add(b"\0c", 3, 1)
    write = journal.next_write()
    assert write is not None
    journal.deleteEntriesFrom(1)
    journal.add(b"\0of another leader", 2, 2)
    journal.carry_out(write)
    journal.written()
    assert (journal.synced_index, journal.last_index) == (1, 2)
    journal.sync()
    assert journal.synced_index == 2


# --- trimming ----------------------------------------------------------------------------------------------------


def journal_of(directory: Path, *terms: int, disk: Disk | None = None) -> QuorumJournal:
    """An entry a term, from index 1 on, in the last of these terms, in which it voted for node 2."""
    journal = QuorumJournal(directory, disk or RealDisk())
    journal.setCurrentTerm(terms[-1], 2)
    for index, term in enumerate(terms, start=1):
        journal.add(b"\0command %d" % index, index, term)
    journal.sync()
    return journal


def test_what_is_before_the_base_is_forgotten_and_all_else_is_kept(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2, 3)
    journal.trim(3)
    for _ in range(2):
        assert (journal.first_index, journal.last_index, len(journal)) == (3, 4, 2)
        assert [journal.term_at(index) for index in (2, 3, 4, 5)] == [None, 2, 3, None]
        assert journal[0] == (bytes([NO_OP]), 3, 2)
        assert journal[1] == (b"\0command 4", 4, 3)
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (3, 2)
        journal.close()
        journal = QuorumJournal(tmp_path, RealDisk())
    journal.close()


def test_a_trimmed_journal_goes_on_growing_and_is_truncated_by_index(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2, 3)
    journal.trim(3)
    journal.add(b"\0command 5", 5, 3)
    journal.add(b"\0command 6", 6, 3)
    # By the engine's count of what is there: base, 4, and then away with 5 and 6.
    journal.deleteEntriesFrom(2)
    journal.add(b"\0other 5", 5, 4)
    journal.sync()
    journal.trim(4)
    expected = journal[:]
    journal.close()
    assert expected == [(bytes([NO_OP]), 4, 3), (b"\0other 5", 5, 4)]
    assert contents(tmp_path) == (expected, 3, 2)


def test_trimming_to_the_base_or_before_it_changes_nothing(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2)
    journal.trim(2)
    before = file_of(tmp_path).stat().st_size
    journal.trim(2)
    journal.trim(1)
    assert file_of(tmp_path).stat().st_size == before
    journal.close()


def test_a_base_that_is_not_in_the_journal_takes_the_place_of_everything(tmp_path: Path) -> None:
    for base in ((9, 3), (2, 2)):
        directory = tmp_path / str(base[0])
        journal = journal_of(directory, 1, 1, 3)
        journal.rebase(*base)
        assert (journal.first_index, journal.last_index) == (base[0], base[0])
        journal.close()
        assert contents(directory) == ([(bytes([NO_OP]), *base)], 3, 2)


# --- with a snapshot ---------------------------------------------------------------------------------------------


def at(index: int, term: int) -> SnapshotId:
    return SnapshotId(index=index, term=term)


@pytest.mark.parametrize("has_write_under_way", [False, True])
def test_entries_after_a_base_that_replaced_others_are_durable_when_they_are_written(
    tmp_path: Path, *, has_write_under_way: bool
) -> None:
    journal = journal_of(tmp_path, 1, 1, 1, 1)
    if has_write_under_way:
        journal.add(b"\0command 5", 5, 1)
    write = journal.next_write()
    assert (write is not None) == has_write_under_way
    journal.begin_rebase(2, 3)
    journal.add(b"\0of another leader", 3, 3)
    if write is not None:
        journal.carry_out(write)
        journal.written()
    assert (journal.synced_index, journal.last_index) == (2, 3)
    journal.sync()
    assert journal.synced_index == 3


def test_a_journal_goes_on_from_a_snapshot_that_it_reaches_beyond(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2)
    join_snapshot(journal, at(2, 1))
    assert (journal.getRaftCommitIndex(), journal.first_index, journal.last_index) == (2, 1, 3)
    journal.close()


def test_a_journal_that_an_installed_snapshot_went_past_is_brought_up_to_it(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2)
    join_snapshot(journal, at(50, 2))
    assert (journal.getRaftCommitIndex(), journal.first_index, journal.last_index) == (50, 50, 50)
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (2, 2)
    journal.close()


def test_a_journal_that_is_younger_than_its_snapshot_was_lost(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    with pytest.raises(Corruption, match="the journal was lost, and with it this voter's vote"):
        join_snapshot(journal, at(50, 2))
    journal.close()


def test_a_trimmed_journal_without_the_snapshot_of_what_was_before_is_refused(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 1, 2)
    join_snapshot(journal, None)
    journal.trim(3)
    with pytest.raises(Corruption, match="begins at entry 3, and the snapshot of the entries before it is missing"):
        join_snapshot(journal, None)
    with pytest.raises(Corruption, match="begins at entry 3, after the snapshot's last entry 2"):
        join_snapshot(journal, at(2, 1))
    journal.close()
