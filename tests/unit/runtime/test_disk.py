from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kraft.log.change import run_now
from kraft.log.disk import Disk, File
from kraft.log.format.record_batch import build_batch, iter_records
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.runtime.disk import RealDisk


def test_it_is_the_disk_that_the_log_asks_for(tmp_path: Path) -> None:
    disk: Disk = RealDisk()
    file: File = disk.open(f"{tmp_path}/a", create=True)
    file.close()


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("loose_umask")
def test_new_files_and_directories_are_for_this_user_only(tmp_path: Path) -> None:
    disk, tmp_path = RealDisk(), tmp_path / "new" / "directory"
    disk.make_dir(str(tmp_path))
    disk.open(f"{tmp_path}/log", create=True).close()
    disk.write_atomically(f"{tmp_path}/checkpoint", b"1")
    assert {each.name: mode(each) for each in (tmp_path.parent, tmp_path, *tmp_path.iterdir())} == {
        "new": "700",
        "directory": "700",
        "log": "600",
        "checkpoint": "600",
    }


@pytest.mark.usefixtures("loose_umask")
def test_what_exists_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    log = tmp_path / "log"
    log.write_bytes(b"1")
    log.chmod(0o640)
    RealDisk().make_dir(str(tmp_path))
    RealDisk().open(str(log), create=True).close()
    assert (mode(tmp_path), mode(log)) == ("750", "640")


def test_pieces_are_appended_back_to_back(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    assert file.append([b"one ", bytearray(b"two "), memoryview(b"three")]) == 0
    assert file.append([b"!"]) == 13
    assert file.size == 14
    assert file.read_at(0, 100) == b"one two three!"
    assert file.read_at(4, 3) == b"two"
    assert file.read_at(50, 3) == b""
    file.close()


def test_more_pieces_than_the_kernel_takes_at_once_are_all_written(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    pieces = [b"%d," % number for number in range(3000)]
    file.append(pieces)
    assert file.read_at(0, 1 << 20) == b"".join(pieces)
    file.close()


def test_a_write_cut_short_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_pwrite, whole_pwritev = os.pwrite, os.pwritev

    def short_pwrite(descriptor: int, data: bytes | memoryview, position: int) -> int:
        return whole_pwrite(descriptor, data[:3], position)

    def short_pwritev(descriptor: int, pieces: Sequence[bytes], position: int) -> int:
        return whole_pwritev(descriptor, [b"".join(pieces)[:5]], position)

    monkeypatch.setattr(os, "pwrite", short_pwrite)
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append([b"one ", b"two ", b"three"])
    file.append([b" four"])
    assert file.size == 18
    assert file.read_at(0, 100) == b"one two three four"
    file.close()


def test_a_disk_that_takes_nothing_is_an_error_and_not_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(OSError, match="no bytes"):
        file.append([b"one"])
    file.close()


def test_truncating_and_writing_in_place(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append([b"0123456789"])
    file.truncate(5)
    file.write_at(1, b"xy")
    file.append([b"end"])
    file.sync()
    assert (file.size, file.read_at(0, 100)) == (8, b"0xy34end")
    file.close()
    file.close()
    again = RealDisk().open(f"{tmp_path}/a", create=False)
    assert again.size == 8
    again.close()


def test_a_file_that_is_not_there_is_not_made_by_chance(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RealDisk().open(f"{tmp_path}/a", create=False)
    with pytest.raises(FileNotFoundError):
        RealDisk().read_file(f"{tmp_path}/a")


def test_atomic_writes_replace_the_file_and_leave_nothing_else(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.write_atomically(f"{tmp_path}/checkpoint", b"first")
    disk.write_atomically(f"{tmp_path}/checkpoint", b"second")
    assert disk.read_file(f"{tmp_path}/checkpoint") == b"second"
    assert disk.list(str(tmp_path)) == ["checkpoint"]


def test_directories(tmp_path: Path) -> None:
    disk = RealDisk()
    directory = f"{tmp_path}/data/orders-0"
    disk.make_dir(directory)
    disk.make_dir(directory)
    for name in ("b", "a"):
        disk.open(f"{directory}/{name}", create=True).close()
    disk.sync_dir(directory)
    assert disk.list(directory) == ["a", "b"]
    disk.rename(f"{directory}/a", f"{directory}/b")
    disk.remove(f"{directory}/b")
    assert disk.list(directory) == []
    disk.remove_tree(directory)
    assert not disk.exists(directory)
    assert disk.exists(f"{tmp_path}/data")


def test_a_log_lives_on_it(tmp_path: Path) -> None:
    directory = f"{tmp_path}/orders-0"
    config = TopicConfig(segment_bytes=4000)

    def opened() -> PartitionLog:
        return PartitionLog.open(RealDisk(), directory, config, TopicPartition("orders", 0))

    log = opened()
    for number in range(100):
        records = [Record(0, number, None, b"value %d" % number)] * 3
        log.append_as_leader(build_batch(records), LeaderEpoch(1), now_ms=0, run_change=run_now)
    log.truncate_to(Offset(270))
    ticket = log.prepare_sync()
    ticket.run()
    log.complete_sync(ticket, run_now)
    # No close, as if the process had been killed.
    again = opened()
    assert (again.log_end_offset, again.recovery_report.torn_at) == (270, None)
    offset, found = Offset(0), 0
    while offset < again.log_end_offset:
        for record in iter_records(again.read(offset, 1000, again.log_end_offset)):
            assert record.value == b"value %d" % (record.offset // 3)
            offset, found = Offset(record.offset + 1), found + 1
    assert found == 270
    log.close()
    again.close()
    RealDisk().remove_tree(again.directory)
    assert os.listdir(tmp_path) == []
