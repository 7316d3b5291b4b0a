from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraft.model.errors import Corruption
from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME, JournalInUse, QuorumJournal
from kraft.quorum.journal_format import HEADER_BYTES


def file_of(directory: Path) -> Path:
    return directory / DIRECTORY_NAME / FILE_NAME


def contents(directory: Path) -> tuple[list[tuple[bytes, int, int]], int, int | None]:
    journal = QuorumJournal(directory)
    try:
        return journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId()
    finally:
        journal.close()


def write_three_frames(directory: Path) -> list[int]:
    """A journal of one entry a frame; the size of the file before and after each frame."""
    journal = QuorumJournal(directory)
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
    journal = QuorumJournal(tmp_path)
    journal.add(b"\1", 1, 0)
    journal.setCurrentTerm(3, 2)
    journal.add(b"\0first", 2, 3)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([(b"\1", 1, 0), (b"\0first", 2, 3)], 3, 2)


def test_a_term_without_a_vote_is_not_a_vote_for_node_0(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path)
    journal.setCurrentTerm(4, 0)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([], 4, 0)
    journal = QuorumJournal(tmp_path)
    journal.setCurrentTerm(5, None)
    journal.sync()
    journal.close()
    assert contents(tmp_path) == ([], 5, None)


def test_a_truncation_survives_and_what_is_added_after_it_counts(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path)
    for index in (1, 2, 3):
        journal.add(b"old", index, 1)
    journal.sync()
    journal.deleteEntriesFrom(1)
    journal.add(b"new", 2, 2)
    journal.sync()
    journal.close()
    assert contents(tmp_path)[0] == [(b"old", 1, 1), (b"new", 2, 2)]


def test_what_was_not_synced_is_not_there_and_one_sync_serves_all(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path)
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
    journal = QuorumJournal(tmp_path)
    journal.sync()
    journal.close()
    assert journal.sync_count == 0


def test_the_first_act_after_opening_is_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_three_frames(tmp_path)
    synced: list[int] = []
    real_fsync = os.fsync

    def counting_fsync(file: int) -> None:
        synced.append(file)
        real_fsync(file)

    monkeypatch.setattr(os, "fsync", counting_fsync)
    QuorumJournal(tmp_path).close()
    assert len(synced) == 1


def test_a_tail_torn_at_any_byte_is_cut_and_the_journal_goes_on(tmp_path: Path) -> None:
    _, _, before_last, end = write_three_frames(tmp_path)
    whole = file_of(tmp_path).read_bytes()
    for length in range(before_last, end):
        file_of(tmp_path).write_bytes(whole[:length])
        journal = QuorumJournal(tmp_path)
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
            QuorumJournal(tmp_path)
        assert refusal.value.position <= position
        assert file_of(tmp_path).read_bytes() == bytes(damaged), "a damaged journal is left as it is"


def test_a_journal_inside_a_command_does_not_pass_for_what_follows_a_torn_frame(tmp_path: Path) -> None:
    write_three_frames(tmp_path / "inner")
    inner = file_of(tmp_path / "inner").read_bytes()
    journal = QuorumJournal(tmp_path)
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
        QuorumJournal(tmp_path)


def test_a_second_process_cannot_open_the_journal(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path)
    with pytest.raises(JournalInUse, match=FILE_NAME):
        QuorumJournal(tmp_path)
    journal.close()
    QuorumJournal(tmp_path).close()


def test_more_than_a_buffer_holds_is_synced_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft.quorum.journal.BUFFER_BYTES_MAX", 1000)
    journal = QuorumJournal(tmp_path)
    for index in range(1, 101):
        journal.add(bytes(100), index, 1)
    journal.sync()
    journal.close()
    assert journal.sync_count > 5
    assert len(contents(tmp_path)[0]) == 100
