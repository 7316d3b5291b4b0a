from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.runtime import spare_files
from kraft.runtime.spare_files import SpareFiles

_WITHOUT_FILES = """
import os, resource, sys
from kraft.runtime.disk import RealDisk
from kraft.runtime.spare_files import SpareFiles

directory = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
spare = SpareFiles(4)
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    RealDisk().open(f"{directory}/refused", create=True)
except OSError as error:
    print(error.errno)
disk = RealDisk(spare)
disk.write_atomically(f"{directory}/checkpoint", b"kept")
file = disk.open(f"{directory}/log", create=True)
file.append([b"record"])
file.sync()
print(disk.list(directory), disk.read_file(f"{directory}/checkpoint"), file.read_at(0, 6))
"""


class Disk:
    """Opens fail so many times for want of files, while the test's clock goes on with each pause."""

    def __init__(self, failures: int, number: int = errno.EMFILE) -> None:
        self.number = number
        self.failures = failures
        self.now_s = 0.0
        self.opened = 0
        self.spare = SpareFiles(2, self.sleep, lambda: self.now_s)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def open(self) -> str:
        self.opened += 1
        if self.opened <= self.failures:
            raise OSError(self.number, "Too many open files")
        return "opened"


def in_a_thread(disk: Disk) -> list[str]:
    opened: list[str] = []
    thread = threading.Thread(target=lambda: opened.append(disk.spare.opening(disk.open)))
    thread.start()
    thread.join(30)
    return opened


@pytest.fixture
def disks() -> Iterator[list[Disk]]:
    made: list[Disk] = []
    yield made
    for disk in made:
        disk.spare.close()


def test_a_process_without_files_still_writes_to_its_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT_FILES, str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    refused, found = finished.stdout.splitlines()
    assert int(refused) == errno.EMFILE
    assert found == "['checkpoint', 'log'] b'kept' b'record'"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_an_open_waits_until_others_have_closed_files(disks: list[Disk], number: int) -> None:
    disks.append(disk := Disk(failures=5, number=number))
    assert in_a_thread(disk) == ["opened"]
    # Once with a file of the reserve, at once.
    assert disk.now_s == pytest.approx(4 * spare_files.RETRY_S)


def test_other_errors_are_the_disks_own(disks: list[Disk]) -> None:
    disks.append(disk := Disk(failures=0))

    def broken() -> None:
        disk.opened += 1
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        disk.spare.opening(broken)
    assert disk.opened == 1


def test_the_event_loop_does_not_wait(disks: list[Disk]) -> None:
    disks.append(disk := Disk(failures=1 << 30))
    with pytest.raises(OSError, match="Too many open files"):
        disk.spare.opening(disk.open)
    assert (disk.now_s, disk.opened) == (0, 3)


def test_a_thread_waits_as_long_as_it_takes_and_says_so(disks: list[Disk]) -> None:
    disks.append(disk := Disk(failures=5_000))
    with capture_logs() as logged:
        assert in_a_thread(disk) == ["opened"]
    assert disk.now_s == pytest.approx(4_999 * spare_files.RETRY_S)
    assert [each["event"] for each in logged] == ["open file limit reached"] * 5


def test_the_reserve_is_filled_again(disks: list[Disk]) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    disks.append(disk := Disk(failures=2))
    for _ in range(3):
        disk.opened = 0
        assert disk.spare.opening(disk.open) == "opened"
    assert disk.now_s == 0
    if before:
        assert len(os.listdir("/proc/self/fd")) == before + 2
