from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.integrity import inspection
from kraft.log.integrity.inspection import index_entries, inspect_batches, time_index_entries
from kraft.model.errors import Corruption
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile

PATH = "orders-0/00000000000000000000.log"
BATCHES = [build_batch([Record(0, 1000, None, bytes(size))], base_offset=at) for at, size in enumerate((1, 5_000, 70))]


def file_of(data: bytes) -> MemoryFile:
    disk = MemoryDisk()
    disk.write_file(PATH, data)
    return disk.open(PATH, create=False)


def test_every_batch_is_found_with_its_place_and_its_checksum() -> None:
    found = list(inspect_batches(file_of(b"".join(BATCHES)), PATH))
    assert [batch.position for batch in found] == [0, len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])]
    assert [batch.header.base_offset for batch in found] == [0, 1, 2]
    assert all(batch.is_valid for batch in found)


def test_a_wrong_checksum_is_returned_and_the_next_batch_found() -> None:
    data = bytearray(b"".join(BATCHES))
    data[len(BATCHES[0]) + 100] ^= 1
    assert [batch.is_valid for batch in inspect_batches(file_of(bytes(data)), PATH)] == [True, False, True]


def test_a_batch_larger_than_the_window_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_WINDOW_BYTES", 200)
    assert all(batch.is_valid for batch in inspect_batches(file_of(b"".join(BATCHES)), PATH))


def test_what_ends_inside_a_batch_is_corrupt_behind_the_whole_ones() -> None:
    data = b"".join(BATCHES)
    start_of_last = len(data) - len(BATCHES[2])
    for cut in (1, 30, 60, 62, len(BATCHES[2]) - 1):
        batches = inspect_batches(file_of(data[: start_of_last + cut]), PATH)
        assert [next(batches).header.base_offset for _ in range(2)] == [0, 1]
        with pytest.raises(Corruption) as caught:
            next(batches)
        assert (caught.value.file, caught.value.position) == (PATH, start_of_last)


@given(st.binary(max_size=300), st.integers(0, 2), st.integers(0, 300), st.binary(max_size=4))
def test_any_bytes_are_batches_or_corrupt(noise: bytes, sound: int, position: int, patch: bytes) -> None:
    whole = b"".join(BATCHES)
    damaged = whole[:position] + patch + whole[position + len(patch) :]
    for data in (noise, b"".join(BATCHES[:sound]) + noise, damaged):
        with suppress(Corruption):
            list(inspect_batches(file_of(data), PATH))


def test_index_entries_end_where_nothing_but_zeros_follows() -> None:
    data = struct.pack(">IIII", 3, 0, 9, 4_000)
    assert [tuple(entry) for entry in index_entries(file_of(data + bytes(80)), PATH, 100)] == [(103, 0), (109, 4_000)]


def test_time_index_entries_are_read_over_more_than_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_ENTRIES_AT_ONCE", 2)
    data = b"".join(struct.pack(">qI", 1_000 + number, number + 1) for number in range(5))
    found = [tuple(entry) for entry in time_index_entries(file_of(data), PATH, 100)]
    assert found == [(1_000 + number, 101 + number) for number in range(5)]


def test_a_piece_of_an_entry_is_corrupt_behind_the_whole_ones() -> None:
    entries = index_entries(file_of(struct.pack(">II", 3, 0) + b"abc"), PATH, 0)
    assert tuple(next(entries)) == (3, 0)
    with pytest.raises(Corruption, match="3 bytes at the end") as caught:
        next(entries)
    assert caught.value.position == 8
