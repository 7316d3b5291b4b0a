from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.high_watermarks import (
    EARLIER_SUFFIX,
    FILE_NAME,
    HighWatermarks,
    _decode,
    read_high_watermarks,
    write_high_watermarks,
)
from kraft.server.replica.log_directories import as_log_directory
from tests.support.disks.memory_disk import MemoryDisk

OFFSETS = {TopicPartition("orders", 0): Offset(5), TopicPartition("orders", 10): Offset(2**40)}
LATER = {TopicPartition("orders", 0): Offset(6)}
DISK = RealDisk()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_high_watermarks(DISK, as_log_directory(tmp_path), OFFSETS)
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == OFFSETS


def test_the_file_is_kafkas_with_a_checksum_line(tmp_path: Path) -> None:
    write_high_watermarks(DISK, as_log_directory(tmp_path), OFFSETS)
    lines = (tmp_path / FILE_NAME).read_text().splitlines()
    assert lines[:4] == ["0", "2", "orders 0 5", f"orders 10 {2**40}"]
    assert lines[4].startswith("# crc32c=")


def test_no_partitions_are_written_and_read(tmp_path: Path) -> None:
    write_high_watermarks(DISK, as_log_directory(tmp_path), {})
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == {}


def test_without_a_file_there_are_no_high_watermarks(tmp_path: Path) -> None:
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == {}


@pytest.mark.parametrize(
    "damage", [b"", b"0\n", b"0\n1\norders 0 7\n", b"\xff\xfe", b"0\n1\norders 0 7\n# crc32c=zz\n"]
)
def test_a_damaged_file_is_replaced_by_the_one_before_it(tmp_path: Path, damage: bytes) -> None:
    write_high_watermarks(DISK, as_log_directory(tmp_path), OFFSETS)
    write_high_watermarks(DISK, as_log_directory(tmp_path), LATER)
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == LATER
    (tmp_path / FILE_NAME).write_bytes(damage)
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == OFFSETS


def test_with_both_files_damaged_there_are_no_high_watermarks(tmp_path: Path) -> None:
    for offsets in (OFFSETS, LATER):
        write_high_watermarks(DISK, as_log_directory(tmp_path), offsets)
    for name in (FILE_NAME, FILE_NAME + EARLIER_SUFFIX):
        (tmp_path / name).write_bytes(b"damaged")
    assert read_high_watermarks(DISK, as_log_directory(tmp_path)) == {}


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_passes_for_what_was_written(position: int, bit: int) -> None:
    disk = MemoryDisk()
    write_high_watermarks(disk, LogDirectory("data"), OFFSETS)
    damaged = bytearray(disk.read_file(f"data/{FILE_NAME}"))
    damaged[position % len(damaged)] ^= 1 << bit
    try:
        assert _decode(bytes(damaged)) == OFFSETS, "a digit of the checksum in another case, or a line break"
    except ValueError:
        return


def read_at_start(*directories: LogDirectory) -> HighWatermarks:
    high_watermarks = HighWatermarks(DISK, directories)
    high_watermarks.read()
    return high_watermarks


def test_what_was_read_counts_until_its_partition_is_held(tmp_path: Path) -> None:
    directory = as_log_directory(tmp_path)
    write_high_watermarks(DISK, directory, OFFSETS)
    high_watermarks = read_at_start(directory)
    assert high_watermarks.contains(TopicPartition("orders", 0))
    assert high_watermarks.take(TopicPartition("orders", 0)) == 5
    assert high_watermarks.take(TopicPartition("orders", 0)) is None
    assert not high_watermarks.contains(TopicPartition("orders", 0))
    high_watermarks.forget_unopened()
    assert not high_watermarks.contains(TopicPartition("orders", 10))
    high_watermarks.write(directory, LATER)
    assert read_high_watermarks(DISK, directory) == LATER


def test_each_directory_has_its_own_file(tmp_path: Path) -> None:
    a, b = as_log_directory(tmp_path / "a"), as_log_directory(tmp_path / "b")
    for directory, offsets in ((a, OFFSETS), (b, LATER)):
        DISK.make_dir(directory)
        write_high_watermarks(DISK, directory, offsets)
    high_watermarks = read_at_start(a, b)
    assert high_watermarks.is_complete
    assert high_watermarks.take(TopicPartition("orders", 0), b) == 6, "as it was where its log is"
    assert high_watermarks.take(TopicPartition("orders", 10), b) is None
    assert not high_watermarks.contains(TopicPartition("orders", 10))


def test_a_directory_without_a_file_that_can_be_read_is_noticed(tmp_path: Path) -> None:
    assert not read_at_start(as_log_directory(tmp_path)).is_complete
    write_high_watermarks(DISK, as_log_directory(tmp_path), {})
    assert read_at_start(as_log_directory(tmp_path)).is_complete
    (tmp_path / FILE_NAME).write_bytes(b"damaged")
    assert not read_at_start(as_log_directory(tmp_path)).is_complete
