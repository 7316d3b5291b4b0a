from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LogDirectory
from kraft.runtime.disk import RealDisk
from kraft.server.upkeep.disk_space import RECHECK_AFTER_BYTES, RECHECK_AFTER_MS, DiskSpace

MIB = 1 << 20
DIRECTORY = LogDirectory("data/node-1")


class SizedDisk(RealDisk):
    """Says of its directories what it is told to, and counts how often it was asked."""

    def __init__(self, free_bytes: int) -> None:
        self.free: int | OSError = free_bytes
        self.asked = 0

    def free_bytes(self, directory: str) -> int:
        self.asked += 1
        if isinstance(self.free, OSError):
            raise self.free
        return self.free


class Watched:
    def __init__(self, free_bytes: int, free_bytes_min: int) -> None:
        self.disk = SizedDisk(free_bytes)
        self.now_ms = 5_000
        self.space = DiskSpace(self.disk, free_bytes_min, lambda: self.now_ms)

    def is_admitted(self, size_bytes: int = 100, directory: LogDirectory = DIRECTORY) -> bool:
        try:
            self.space.admit(directory, size_bytes)
        except Refusal:
            return False
        return True


def test_appends_are_admitted_while_enough_is_free() -> None:
    assert Watched(64 * MIB, 64 * MIB).is_admitted()


def test_appends_are_refused_below_the_minimum_naming_the_disk_and_the_config() -> None:
    watched = Watched(64 * MIB - 1, 64 * MIB)
    with pytest.raises(Refusal) as refusal:
        watched.space.admit(DIRECTORY, 1)
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal.value.error_code.retriable
    assert refusal.value.message == (
        "the disk of data/node-1 has 67,108,863 bytes free, below log.free.space.min.bytes=67,108,864; free some space,"
        " or lower that"
    )


def test_without_a_minimum_no_disk_is_measured() -> None:
    watched = Watched(0, 0)
    assert watched.is_admitted()
    watched.space.recheck()
    assert watched.disk.asked == 0


def test_the_disk_is_measured_again_only_after_some_time() -> None:
    watched = Watched(1 << 40, MIB)
    for _ in range(1_000):
        assert watched.is_admitted()
    assert watched.disk.asked == 1
    watched.now_ms += RECHECK_AFTER_MS
    assert watched.is_admitted()
    assert watched.disk.asked == 2


def test_the_disk_is_measured_again_after_many_bytes_were_appended() -> None:
    watched = Watched(1 << 40, MIB)
    for _ in range(RECHECK_AFTER_BYTES // MIB):
        assert watched.is_admitted(MIB)
    assert watched.disk.asked == 1
    assert watched.is_admitted()
    assert watched.disk.asked == 2


def test_near_the_minimum_the_disk_is_measured_more_often() -> None:
    watched = Watched(MIB + 1_000, MIB)
    assert watched.is_admitted(600)
    assert watched.is_admitted(600)
    watched.disk.free = MIB - 200
    assert not watched.is_admitted(1)


def test_work_resumes_when_space_is_back() -> None:
    watched = Watched(10, MIB)
    assert not watched.is_admitted()
    watched.disk.free = MIB
    assert not watched.is_admitted(), "a full disk is not asked for every request"
    watched.now_ms += RECHECK_AFTER_MS
    assert watched.is_admitted()


def test_the_shortage_and_its_end_are_logged_once_each_without_an_append() -> None:
    watched = Watched(10, MIB)
    with capture_logs() as logged:
        for _ in range(20):
            assert not watched.is_admitted()
            watched.now_ms += RECHECK_AFTER_MS
        watched.disk.free = MIB
        for _ in range(3):
            watched.space.recheck()
            watched.now_ms += RECHECK_AFTER_MS
    assert [(each["log_level"], each["event"]) for each in logged] == [
        ("warning", "disk full, appends refused"),
        ("info", "disk space recovered"),
    ]
    assert not watched.space.is_full(DIRECTORY)


def test_each_directory_has_its_own_measurement() -> None:
    watched = Watched(10, MIB)
    assert not watched.is_admitted(directory=LogDirectory("data/full"))
    watched.disk.free = MIB
    assert watched.is_admitted(directory=LogDirectory("data/roomy"))
    assert watched.space.is_full(LogDirectory("data/full"))
    assert not watched.space.is_full(LogDirectory("data/roomy"))


def test_a_disk_that_cannot_be_measured_refuses_appends() -> None:
    watched = Watched(MIB, MIB)
    watched.disk.free = OSError(5, "Input/output error")
    with pytest.raises(Refusal) as refusal, capture_logs() as lines:
        watched.space.admit(DIRECTORY, 1)
    assert "cannot be read: [Errno 5] Input/output error" in refusal.value.message
    assert lines[0]["event"] == "free disk space unknown, appends refused"
