from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.change import run_now
from kraft.log.segment import aborted_index
from kraft.log.segment.aborted_index import ENTRIES_PER_BLOCK, AbortedEntries, AbortedIndex, collect_aborted
from kraft.log.transactions.aborted import ENTRY_BYTES, AbortedTxn
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile


class CountingDisk(MemoryDisk):
    bytes_read = 0

    def open(self, path: str, create: bool) -> MemoryFile:
        return CountingFile(self, super().open(path, create)._content)


class CountingFile(MemoryFile):
    def read_at(self, position: int, size: int) -> bytes:
        assert isinstance(self._disk, CountingDisk)
        self._disk.bytes_read += size
        return super().read_at(position, size)


def index_of(entries: list[AbortedTxn], disk: MemoryDisk, path: str = "/index") -> AbortedIndex:
    index = AbortedIndex(disk, path)
    index.require_file()
    for entry in entries:
        index.append(entry)
    return index


def store(index: AbortedIndex) -> None:
    run_now(index.write())
    index.release()


def entries_of(index: AbortedIndex, end_offset: int = 1 << 40) -> AbortedEntries:
    return index.entries(Offset(end_offset), copied=False)


def aborted(choices: list[int]) -> list[AbortedTxn]:
    """Begin and end transactions of six producers as the choices say, of one rarely, and commit a third of them."""
    is_open: dict[int, int] = {}
    found = []
    for offset, choice in enumerate(choices):
        producer_id = choice % 5 if choice % 20 else 5
        if producer_id not in is_open:
            is_open[producer_id] = offset
            continue
        first_offset = is_open.pop(producer_id)
        if choice % 3:
            stable = min(is_open.values(), default=offset + 1)
            found.append(AbortedTxn(producer_id, first_offset, offset, stable))
    return found


@given(
    random=st.randoms(use_true_random=False),
    bounds=st.tuples(st.integers(0, 120), st.integers(0, 120)).map(sorted),
    split_at=st.integers(0, 120),
    cut_at=st.integers(0, 120),
    is_stored=st.booleans(),
)
def test_a_look_up_finds_every_transaction_in_the_range_and_no_other(
    random: Random, bounds: list[int], split_at: int, cut_at: int, is_stored: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aborted_index, "ENTRIES_PER_BLOCK", 3)
        start, upper = bounds
        disk, entries = MemoryDisk(), aborted([random.randrange(1_000) for _ in range(120)])
        first = index_of([each for each in entries if each.last_offset < split_at], disk, "/first")
        second = index_of([each for each in entries if each.last_offset >= split_at], disk, "/second")
        segments = [(first, split_at), (second, 200)]
        if is_stored:
            for index, _ in segments:
                store(index)
        if cut_at > split_at:
            second.cut(Offset(cut_at))
            entries = [each for each in entries if each.last_offset < cut_at]
        found = collect_aborted([entries_of(*segment) for segment in segments], start, upper)
        assert found == [each for each in entries if each.last_offset >= start and each.first_offset < upper]


def behind_one_that_stays_open(count: int) -> list[AbortedTxn]:
    """Short transactions, during which the one that began at offset 5 is open."""
    return [AbortedTxn(number, 10 + 2 * number, 11 + 2 * number, 5) for number in range(count)]


def bytes_read(disk: CountingDisk, index: AbortedIndex, start: int, upper: int) -> int:
    before = disk.bytes_read
    found = collect_aborted([entries_of(index)], start, upper)
    assert len(found) == (upper - start) // 2
    return disk.bytes_read - before


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_look_up_behind_a_transaction_that_stays_open_reads_only_what_is_near(is_reopened: bool) -> None:
    disk = CountingDisk()
    entries = behind_one_that_stays_open(40 * ENTRIES_PER_BLOCK)
    index = index_of(entries, disk)
    store(index)
    if is_reopened:
        index = AbortedIndex(disk, "/index")
        assert index.open(Offset(0), Offset(1 << 20))
        index.release()
    assert bytes_read(disk, index, 1_010, 1_050) <= 3 * ENTRIES_PER_BLOCK * ENTRY_BYTES


def test_a_replaced_index_is_looked_up_by_its_new_entries() -> None:
    index = index_of(behind_one_that_stays_open(1_000), MemoryDisk())
    index.replace([AbortedTxn(7, 3, 900, 1)])
    assert collect_aborted([entries_of(index)], 0, 10) == [AbortedTxn(7, 3, 900, 1)]
    index.append(AbortedTxn(8, 1, 950, 951))
    assert [each.producer_id for each in collect_aborted([entries_of(index)], 0, 2)] == [8]


def test_a_cut_index_is_looked_up_by_what_is_left_and_what_follows() -> None:
    index = index_of(behind_one_that_stays_open(1_000), MemoryDisk())
    index.cut(Offset(30))
    later = AbortedTxn(8, 5, 40, 41)
    index.append(later)
    assert collect_aborted([entries_of(index)], 0, 6) == [later]
    assert len(collect_aborted([entries_of(index)], 0, 1_000)) == 11


def test_a_file_with_half_an_entry_is_damaged() -> None:
    disk = MemoryDisk()
    index = index_of(behind_one_that_stays_open(2), disk)
    store(index)
    disk.write_atomically("/index", disk.read_file("/index")[:-1])
    with pytest.raises(ValueError, match="not a whole number of entries"):
        collect_aborted([entries_of(index)], 0, 100)
