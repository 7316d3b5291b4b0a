from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.recovery.log_checkpoint import LogCheckpoint, read_checkpoint, write_checkpoint
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk

PATH = "data/orders-0/log-checkpoint"
FIRST = LogCheckpoint(log_start_offset=Offset(3), recovery_point=Offset(40), cleaned_end_offset=Offset(7))
SECOND = LogCheckpoint(log_start_offset=Offset(5), recovery_point=Offset(20), cleaned_end_offset=Offset(9))


def test_golden_a_checkpoint_is_text_with_a_checksum() -> None:
    data = FIRST.encode()
    assert data == (b"0\nlog_start_offset 3\nrecovery_point 40\ncleaned_end_offset 7\nis_sparse 0\n# crc32c=716d8b44\n")
    assert LogCheckpoint.decode(data, PATH) == FIRST


def test_the_last_one_written_is_read() -> None:
    disk = MemoryDisk()
    assert read_checkpoint(disk, "data/orders-0") == LogCheckpoint()
    write_checkpoint(disk, "data/orders-0", FIRST)
    write_checkpoint(disk, "data/orders-0", SECOND)
    disk.crash()
    assert read_checkpoint(disk, "data/orders-0") == SECOND


@pytest.mark.parametrize("damage", [None, b"", b"0\n", SECOND.encode()[:-1]])
def test_without_the_latest_checkpoint_the_previous_one_is_read_cautiously(damage: bytes | None) -> None:
    disk = MemoryDisk()
    write_checkpoint(disk, "data/orders-0", FIRST)
    write_checkpoint(disk, "data/orders-0", SECOND)
    if damage is None:
        disk.remove(PATH)
    else:
        disk.write_file(PATH, damage)
    found = read_checkpoint(disk, "data/orders-0")
    assert (found.log_start_offset, found.cleaned_end_offset) == (3, 7)
    assert found.recovery_point == 0, "a truncation may have lowered it since"
    assert found.is_sparse, "a compaction may have made holes since"


@given(st.binary(max_size=200) | st.integers(0, 8 * len(FIRST.encode()) - 1))
def test_any_other_bytes_are_corruption(noise: bytes | int) -> None:
    data = bytearray(FIRST.encode())
    if isinstance(noise, int):
        data[noise // 8] ^= 1 << noise % 8
    else:
        data = bytearray(noise)
    with pytest.raises(Corruption, match="not a log checkpoint"):
        LogCheckpoint.decode(bytes(data), PATH)


@pytest.mark.parametrize(
    ("log_start", "left", "missing"),
    [
        pytest.param(0, [0, 40, 80], None, id="all are left"),
        pytest.param(0, [0, 20, 40, 80], None, id="one was begun since"),
        pytest.param(0, [0, 80], 40, id="one in the middle"),
        pytest.param(0, [0, 40], 80, id="the last one"),
        pytest.param(40, [80], 40, id="the one that begins at the log start"),
        pytest.param(79, [0, 80], 40, id="the one that holds the log start"),
        pytest.param(80, [80], None, id="deleted ones"),
        pytest.param(80, [0, 80], None, id="deleted ones of which a power failure brought one back"),
        pytest.param(0, [], None, id="a log that is being restarted"),
    ],
)
def test_segments_that_are_named_must_exist_unless_they_were_deleted(
    log_start: int, left: list[int], missing: int | None
) -> None:
    segments = (Offset(0), Offset(40), Offset(80))
    written = LogCheckpoint(log_start_offset=Offset(log_start), is_sparse=True, segments=segments)
    read = LogCheckpoint.decode(written.encode(), PATH)
    assert read == written
    assert read.missing_segments(left) == ([] if missing is None else [missing])


def test_a_previous_checkpoint_names_no_segments() -> None:
    """A truncation or a compaction may have removed them since."""
    disk = MemoryDisk()
    for start in (3, 5):
        segments = (Offset(0), Offset(40))
        sparse = LogCheckpoint(log_start_offset=Offset(start), is_sparse=True, segments=segments)
        write_checkpoint(disk, "data/orders-0", sparse)
    disk.remove(PATH)
    assert read_checkpoint(disk, "data/orders-0").missing_segments([0]) == []
