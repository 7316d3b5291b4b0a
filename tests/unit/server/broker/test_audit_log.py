from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.rpc.on_behalf import Client
from kraft.runtime.clock import SystemClock
from kraft.server.access.audit import AuditEvent
from kraft.server.broker import audit_log
from kraft.server.broker.audit_log import AuditFile, AuditLog, check_audit_file
from kraft.server.config.access_settings import AuditSettings
from kraft.server.config.loading import ConfigError
from tests.support.waiting import until

ALICE: Final = Client(Principal("alice"), "10.0.0.7")


def event(name: str, code: int = ErrorCode.NONE) -> AuditEvent:
    return AuditEvent(ALICE, "SASL", Operation.CREATE, ResourceType.TOPIC, name, code, "CreateTopics")


def opened(path: Path) -> AuditLog:
    return AuditLog(AuditSettings(path=path), SystemClock())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_bytes().splitlines()]


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "audit.log"


class Disk:
    """A disk that fails, or does not answer, for as long as one wants."""

    def __init__(self) -> None:
        self.is_full = False
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()
        self._write = AuditFile.write

    def write(self, file: AuditFile, data: bytes) -> None:
        self.asked.set()
        self.answers.wait(30)
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._write(file, data)


@pytest.fixture(name="disk")
def _disk() -> Iterator[Disk]:
    disk = Disk()

    def write(file: AuditFile, data: bytes) -> None:
        disk.write(file, data)

    with patch.object(AuditFile, "write", write):
        yield disk


# --- the log ---------------------------------------------------------------------------------------------------------


def test_what_is_noted_is_in_the_file_in_its_order_for_this_user_only(path: Path) -> None:
    log = opened(path)
    for number in range(1_200):
        log.note(event(f"t-{number}"))
    log.close()
    assert [each["resource_name"] for each in lines(path)] == [f"t-{number}" for number in range(1_200)]
    assert path.stat().st_mode & 0o077 == 0


def test_failures_that_repeat_are_one_line_and_a_count(path: Path) -> None:
    log = opened(path)
    for _ in range(1_000):
        log.note(event("t", ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    log.close()
    first, *counts = lines(path)
    assert first["outcome"] == "TOPIC_AUTHORIZATION_FAILED"
    # If the second ended meanwhile, there is another pair of lines.
    assert sum(each.get("count", 1) for each in counts) == 999
    assert len(counts) <= 5


def test_lines_that_a_full_disk_does_not_take_are_counted(path: Path, disk: Disk) -> None:
    disk.is_full = True
    log = opened(path)
    log.note(event("lost-1"))
    assert disk.asked.wait(30)
    log.note(event("lost-2"))
    log.close()
    assert not path.exists()
    assert log._lost == 2


def test_the_first_line_after_a_gap_says_how_many_are_missing(path: Path, disk: Disk) -> None:
    disk.answers.clear()
    log = opened(path)
    log.note(event("first"))
    assert disk.asked.wait(30)
    with patch.object(audit_log, "EVENTS_WAITING_MAX", 3):
        for number in range(10):
            log.note(event(f"t-{number}"))
    disk.answers.set()
    log.close()
    first, gap, *rest = lines(path)
    assert first["resource_name"] == "first"
    assert (gap["event"], gap["count"]) == ("lost", 7)
    assert [each["resource_name"] for each in rest] == ["t-0", "t-1", "t-2"]


def test_a_disk_that_does_not_answer_holds_up_neither_requests_nor_the_end(path: Path, disk: Disk) -> None:
    disk.answers.clear()
    log = opened(path)
    log.note(event("first"))
    assert disk.asked.wait(30)
    assert not log._lock.locked(), "while the disk works, nobody waits"
    with patch.object(audit_log, "CLOSE_S_MAX", 0.01):
        log.close()
    assert log._thread.is_alive(), "it still waits for the disk"
    disk.answers.set()
    log._thread.join(30)


def test_a_disk_with_room_again_gets_the_count_at_once(path: Path, disk: Disk) -> None:
    disk.is_full = True
    log = opened(path)
    log.note(event("lost"))
    until(lambda: log._lost == 1, "the line is not lost")
    disk.is_full = False
    until(path.exists, "the count is not written")
    log.close()
    assert [(each["event"], each["count"]) for each in lines(path)] == [("lost", 1)]


# --- the file --------------------------------------------------------------------------------------------------------


def test_a_full_file_is_renamed_and_the_oldest_goes(path: Path) -> None:
    file = AuditFile(path, bytes_max=10, backups_max=2)
    for number in range(5):
        file.write(f"line-{number}\n".encode())
    file.close()
    found = {each.name: each.read_text() for each in path.parent.iterdir()}
    assert found == {"audit.log": "line-4\n", "audit.log.1": "line-3\n", "audit.log.2": "line-2\n"}


@pytest.mark.parametrize("rotation", ["renamed", "replaced", "removed", "cut"])
def test_a_file_that_somebody_else_rotates_is_followed(path: Path, rotation: str) -> None:
    file = AuditFile(path, bytes_max=100, backups_max=2)
    file.write(b"one\n" * 20)
    match rotation:
        case "renamed":
            path.rename(path.with_suffix(".old"))
        case "replaced":
            path.rename(path.with_suffix(".old"))
            path.write_bytes(b"")
        case "removed":
            path.unlink()
        case _:
            os.truncate(path, 0)
    file.write(b"two\n" * 20)
    file.close()
    assert path.read_bytes() == b"two\n" * 20
    assert not path.with_name("audit.log.1").exists(), "its size was counted anew"


def test_a_file_that_cannot_be_opened_is_said_in_one_line(path: Path) -> None:
    check_audit_file(AuditSettings(path=path))
    assert path.read_bytes() == b""
    with pytest.raises(ConfigError, match=r"^audit.log.path: cannot write to .* \(Is a directory\): let the user .*$"):
        check_audit_file(AuditSettings(path=path.parent))
    check_audit_file(AuditSettings())


def test_a_file_is_continued_after_half_a_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"whole\nha")
    file = AuditFile(path, bytes_max=1_000, backups_max=2)
    file.write(b"next\n")
    file.close()
    assert path.read_bytes() == b"whole\nha\nnext\n"


def test_what_was_written_of_lost_lines_is_taken_back(path: Path) -> None:
    file = AuditFile(path, bytes_max=1_000, backups_max=2)
    file.write(b"one\n")
    # A file that writes half of what it is given, as one may that is not buffered.
    whole, file._file = file._file, Halving(file._file)  # type: ignore[assignment]
    with pytest.raises(OSError, match="full"):
        file.write(b"two\n")
    file._file = whole
    file.write(b"three\n")
    file.close()
    assert path.read_bytes() == b"one\nthree\n"


class Halving:
    """A file on a disk that becomes full in the middle of a line."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_full = False

    def fileno(self) -> int:
        return int(self._file.fileno())

    def write(self, data: bytes) -> int:
        if self._is_full:
            raise OSError(errno.ENOSPC, "full")
        self._is_full = True
        return int(self._file.write(data[:2]))
