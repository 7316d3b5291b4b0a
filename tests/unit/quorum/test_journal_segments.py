from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.model.errors import Corruption
from kraft.quorum import journal_format, journal_segments
from kraft.quorum.command import NO_OP
from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME, QuorumJournal
from kraft.quorum.journal_format import FORMAT_VERSION
from kraft.quorum.journal_segments import segment_name, segment_paths
from kraft.runtime.disk import RealDisk
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk

SMALL = 200
"""Size of a segment in bytes: three or four entries."""


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_segments, "SEGMENT_BYTES", SMALL)


def add(journal: QuorumJournal, index: int, term: int) -> None:
    """One entry in a frame of its own."""
    journal.add(b"\0command %d" % index, index, term)
    journal.sync()


def grown(disk: Disk, count: int) -> QuorumJournal:
    """Return a journal of many segments, with a vote only in the first."""
    journal = QuorumJournal(Path("node"), disk)
    journal.setCurrentTerm(3, 2)
    for index in range(1, count + 1):
        add(journal, index, 3)
    return journal


State = tuple[list[tuple[bytes, int, int]], int, int | None]


def state(journal: QuorumJournal) -> State:
    return journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId()


def segment_count(disk: Disk) -> int:
    return len(segment_paths(Path("node"), disk))


@pytest.mark.usefixtures("small_segments")
def test_a_journal_of_many_segments_comes_back_and_goes_on() -> None:
    disk = SimDisk()
    journal = grown(disk, 20)
    assert segment_count(disk) > 3
    again = QuorumJournal(Path("node"), disk)
    assert state(again) == state(journal)
    add(again, 21, 4)
    assert state(QuorumJournal(Path("node"), disk)) == state(again)


@pytest.mark.usefixtures("small_segments")
def test_trimming_removes_whole_segments_and_rewrites_nothing() -> None:
    disk = SimDisk()
    journal = grown(disk, 40)
    before = segment_count(disk)
    written: list[str] = []
    disk.on_point = lambda: written.append(disk.last_operation)
    journal.trim(30)
    assert segment_count(disk) < before // 2
    sizes = [int(operation.split()[1]) for operation in written if operation.startswith("write")]
    assert sum(sizes) < SMALL, "however long the journal is"
    assert state(QuorumJournal(Path("node"), disk)) == state(journal)
    assert journal.first_index == 30


@pytest.mark.usefixtures("small_segments")
def test_a_snapshot_in_the_place_of_everything_leaves_one_segment() -> None:
    disk = SimDisk()
    journal = grown(disk, 20)
    journal.rebase(50, 3)
    assert segment_count(disk) == 1
    assert state(QuorumJournal(Path("node"), disk)) == ([(bytes([NO_OP]), 50, 3)], 3, 2)
    add(journal, 51, 3)
    assert state(QuorumJournal(Path("node"), disk)) == state(journal)


@pytest.mark.usefixtures("small_segments")
def test_a_truncation_that_reaches_back_into_removed_segments_is_understood() -> None:
    """Entries are cut off and written again in later segments; then the ones in which they were first are removed."""
    disk = SimDisk()
    journal = grown(disk, 12)
    segments = segment_count(disk)
    journal.deleteEntriesFrom(4)
    journal.setCurrentTerm(4, None)
    for index in range(5, 25):
        add(journal, index, 4)
    for trimmed_to in (4, 6, 9, 11, 20):
        journal.trim(trimmed_to)
        assert state(QuorumJournal(Path("node"), disk)) == state(journal), trimmed_to
    assert disk.exists("node/__cluster_metadata/" + segment_name(segments)) is False


def do_anything(journal: QuorumJournal, random: Random) -> None:
    """Make a random change, as the engine and the snapshots of a voter do; applied entries are never truncated."""
    first, last, term = journal.first_index, journal.last_index, journal.getCurrentTerm()
    chosen = random.random()
    if chosen < 0.6 or last == 0:
        journal.add(b"\0%d" % random.randrange(1000), last + 1, max(term, 1))
    elif chosen < 0.7:
        journal.setCurrentTerm(term + random.randint(0, 1), random.choice([None, 1, 2]))
    elif chosen < 0.8 and last > first:
        journal.deleteEntriesFrom(random.randint(first + 1, last) - first)
        journal.setCurrentTerm(term + 1, None)
    elif chosen < 0.9:
        journal.trim(random.randint(first, last))
    elif chosen < 0.93:
        journal.rebase(random.randint(first, last + 3), term + 1)
        journal.setCurrentTerm(term + 1, None)
    journal.sync()


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_done_to_a_journal_a_start_finds_it_as_it_was(seed: int) -> None:
    random, disk = Random(seed), SimDisk()
    journal = QuorumJournal(Path("node"), disk)
    for _ in range(150):
        do_anything(journal, random)
        assert state(QuorumJournal(Path("node"), disk)) == state(journal)
        if random.random() < 0.1:
            disk.crash(random.choice(list(CrashMode)), random)
            journal = QuorumJournal(Path("node"), disk)


def at_every_crash(act: Callable[[QuorumJournal], object], count: int) -> Iterator[tuple[State, str]]:
    """Yield the journal after each kind of crash at each point of the act, with the place of the crash."""
    whole = SimDisk()
    journal = grown(whole, count)
    begun = whole.points
    act(journal)
    for point in range(begun + 1, whole.points + 1):
        for mode in CrashMode:
            for seed in range(5):
                disk = SimDisk()
                journal = grown(disk, count)
                disk.stop_at = point
                with pytest.raises(PowerFailure):
                    act(journal)
                operation = disk.last_operation
                disk.crash(mode, Random(seed))
                found = QuorumJournal(Path("node"), disk)
                yield state(found), f"{mode} at {operation}"
                add(found, found.last_index + 1, 9)
                disk.crash(CrashMode.DROP, Random(seed))
                assert QuorumJournal(Path("node"), disk).last_index == found.last_index, "it goes on durably"


@pytest.mark.usefixtures("small_segments")
def test_power_lost_anywhere_while_a_segment_is_followed_by_another_loses_nothing() -> None:
    for count in range(1, 8):
        before = state(grown(SimDisk(), count))
        after = state(grown(SimDisk(), count + 1))
        for found, place in at_every_crash(lambda journal: add(journal, journal.last_index + 1, 3), count):
            assert found in (before, after), place


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("base", [(3, 3), (11, 3), (15, 3), (16, 3), (50, 3), (12, 2)])
def test_power_lost_anywhere_while_a_journal_is_trimmed_leaves_the_old_or_the_new_one(base: tuple[int, int]) -> None:
    journal = grown(SimDisk(), 16)
    before = state(journal)
    journal.rebase(*base)
    after = state(journal)
    found = list(at_every_crash(lambda journal: journal.rebase(*base), 16))
    for found_state, place in found:
        assert found_state in (before, after), place
    assert {found_state == after for found_state, _ in found} == {False, True}


@pytest.mark.usefixtures("small_segments")
def test_a_segment_that_is_missing_damaged_or_another_one_is_refused() -> None:
    for damage, words in (
        (remove_second, "missing"),
        (cut_second, "a later segment"),
        (swap_first_two_further, "segment 1"),
    ):
        disk = SimDisk()
        grown(disk, 20)
        damage(disk, segment_paths(Path("node"), disk))
        with pytest.raises(Corruption, match=words):
            QuorumJournal(Path("node"), disk)


def remove_second(disk: SimDisk, paths: list[str]) -> None:
    disk.remove(paths[1])


def cut_second(disk: SimDisk, paths: list[str]) -> None:
    disk.write_file(paths[1], disk.read_file(paths[1])[:-1])


def swap_first_two_further(disk: SimDisk, paths: list[str]) -> None:
    first, second = (disk.read_file(path) for path in paths[1:3])
    disk.write_file(paths[1], second)
    disk.write_file(paths[2], first)


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize(
    ("record", "words"),
    [
        (journal_format.encode_trim(18, 9), "trimmed to entry 18 of term 9, which is missing"),
        (journal_format.encode_trim(30, 3), "trimmed to entry 30 of term 3, which is missing"),
        (journal_format.encode_entry(30, 3, b"command"), "entry 30 follows entry 20"),
        (journal_format.encode_entry(21, 3, b"command")[:-1], "an entry is longer than its frame"),
        (b"\xff", "record type 255"),
        (journal_format.encode_start(99, 20, 9), "the segment continues entry 20, but the one before ends at 20"),
        (journal_format.encode_start(99, 18, 3), "the segment continues entry 18, but the one before ends at 20"),
    ],
)
def test_a_record_that_is_unreadable_or_does_not_fit_the_entries_is_refused(record: bytes, words: str) -> None:
    disk = SimDisk()
    path = str(grown(disk, 20).path)
    before = disk.read_file(path)
    disk.write_file(path, before + journal_format.encode_frame(len(before), record))
    with pytest.raises(Corruption, match=words):
        QuorumJournal(Path("node"), disk)


GOLDEN_1 = bytes.fromhex(
    "4b52414654514a0000000001f5a2c75cf14b51460000007fdf923be104000000000000000400000000000000030200000000"
    "00000003000000000000000201000000000000000500000000000000030000000a00636f6d6d616e64203501000000000000"
    "000600000000000000030000000a00636f6d6d616e64203601000000000000000700000000000000030000000a00636f6d6d"
    "616e642037f14b5146000000114f779906020000000000000004fffffffffffffffff14b5146000000260d4e9eaf03000000"
    "0000000006010000000000000006000000000000000400000008006f746865722036f14b5146000000309c3a59e702000000"
    "0000000005000000000000000101000000000000000700000000000000050000000a00636f6d6d616e642037"
)
"""A journal as format version 1 wrote it: trimmed to entry 4, entries 5 to 7 of which 6 and 7 were cut off, others in
their place, and a vote for voter 1 in term 5."""

GOLDEN_1_STATE: State = (
    [(bytes([NO_OP]), 4, 3), (b"\0command 5", 5, 3), (b"\0other 6", 6, 4), (b"\0command 7", 7, 5)],
    5,
    1,
)


def test_a_journal_of_format_1_is_read_and_goes_on_in_a_segment_of_this_format() -> None:
    disk = SimDisk()
    QuorumJournal(Path("node"), disk).close()
    path = f"node/{DIRECTORY_NAME}/{FILE_NAME}"
    disk.write_file(path, GOLDEN_1)
    journal = QuorumJournal(Path("node"), disk)
    assert state(journal) == GOLDEN_1_STATE
    assert disk.read_file(path) == GOLDEN_1
    assert segment_count(disk) == 2
    add(journal, 8, 5)
    assert state(QuorumJournal(Path("node"), disk)) == state(journal)
    assert segment_count(disk) == 2, "a second start makes no further one"
    journal.trim(5)
    assert disk.exists(path), "it has entry 6, which no later segment has"
    assert state(QuorumJournal(Path("node"), disk)) == state(journal)
    journal.trim(7)
    assert not disk.exists(path)
    assert state(QuorumJournal(Path("node"), disk)) == state(journal)


def test_a_journal_of_format_1_with_a_torn_tail_is_cut_first() -> None:
    disk = SimDisk()
    QuorumJournal(Path("node"), disk).close()
    disk.write_file(f"node/{DIRECTORY_NAME}/{FILE_NAME}", GOLDEN_1 + b"\xf1KQF torn")
    assert state(QuorumJournal(Path("node"), disk)) == GOLDEN_1_STATE
    assert state(QuorumJournal(Path("node"), disk)) == GOLDEN_1_STATE


def test_a_truncation_of_format_1_before_the_first_entry_is_refused() -> None:
    """It does not say which entry it leaves as the last."""
    disk = SimDisk()
    QuorumJournal(Path("node"), disk).close()
    record = journal_format._TRUNCATION_1.pack(journal_format._Type.TRUNCATION_1, 3)
    frame = journal_format.encode_frame(len(GOLDEN_1), record)
    disk.write_file(f"node/{DIRECTORY_NAME}/{FILE_NAME}", GOLDEN_1 + frame)
    with pytest.raises(Corruption, match="truncated from entry 3, before the first entry 4"):
        QuorumJournal(Path("node"), disk)


def test_a_journal_of_a_later_format_is_refused(tmp_path: Path) -> None:
    header = bytearray(GOLDEN_1[:12])
    header[11] = FORMAT_VERSION + 1
    path = tmp_path / DIRECTORY_NAME / FILE_NAME
    path.parent.mkdir()
    path.write_bytes(bytes(header) + crc32c(bytes(header)).to_bytes(4, "big"))
    with pytest.raises(Corruption, match="format version 4; this version of Kraft reads versions 1 to 3"):
        QuorumJournal(tmp_path, RealDisk())
