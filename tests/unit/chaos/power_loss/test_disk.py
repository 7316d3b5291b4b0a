"""A disk as programs meet it: mounted, through the kernel."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.nemesis.power_loss import AtStake, CannotMount, Loss, PowerLossDisk, check_fuse
from kraft.runtime.disk import RealDisk
from tests.support.disks.disk_calls import what_a_log_does


def is_mounted(directory: Path) -> bool:
    return str(directory) in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerLossDisk]:
    try:
        check_fuse()
        entered = PowerLossDisk(tmp_path / "disk", tmp_path / "mounted").__enter__()
    except CannotMount as reason:
        pytest.skip(f"not run: {reason}")
    try:
        yield entered
    finally:
        entered.__exit__(None, None, None)
    assert not is_mounted(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_disk_like_any_other(disk: PowerLossDisk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = RealDisk()
    assert what_a_log_does(real, str(disk.mount_point)) == what_a_log_does(real, str(elsewhere))
    real.remove_tree(str(elsewhere))


def test_what_programs_do_to_files_is_done(disk: PowerLossDisk) -> None:
    path = disk.mount_point / "f"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    again = os.open(path, os.O_WRONLY | os.O_APPEND)
    assert os.pwritev(file, [b"one", b"two"], 0) == 6
    assert os.write(again, b"three") == 5
    os.ftruncate(file, 8)
    os.posix_fallocate(file, 0, 10)
    assert os.pread(file, 100, 0) == b"onetwoth\0\0"
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # More than the kernel hands on at once.
    large = bytes(range(256)) * 16_384
    assert os.pwrite(file, large, 10) == len(large)
    assert os.pread(file, len(large), 10) == large
    path.unlink()
    assert os.pread(file, 3, 0) == b"one"
    assert os.statvfs(disk.mount_point).f_bavail > 0
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        os.symlink("f", disk.mount_point / "link")
    os.close(again)
    os.close(file)


def test_the_loss_of_power_leaves_what_was_synced(disk: PowerLossDisk) -> None:
    root, real = disk.mount_point, RealDisk()
    real.make_dir(str(root / "d"))
    real.sync_dir(str(root))
    real.write_atomically(str(root / "d" / "checkpoint"), b"first")
    log = real.open(str(root / "d" / "log"), create=True)
    log.append([b"synced"])
    log.sync()
    real.sync_dir(str(root / "d"))
    log.append([b" and not"])
    (root / "d" / "checkpoint").write_bytes(b"second")
    (root / "d" / "new").touch()
    (root / "d" / "log").rename(root / "d" / "moved")
    assert sorted(os.listdir(root / "d")) == ["checkpoint", "moved", "new"]
    disk.cut_power()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        log.append([b"too late"])
    assert disk.restore_power(Loss.ALL, seed=1) == AtStake(files=2, written_bytes=14, names=2)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        log.append([b"too late"])
    log.close()
    assert sorted(os.listdir(root / "d")) == ["checkpoint", "log"]
    assert (root / "d" / "checkpoint").read_bytes() == b"first"
    assert (root / "d" / "log").read_bytes() == b"synced"


def test_a_synchronous_write_is_never_lost(disk: PowerLossDisk) -> None:
    for name, flags in (("durable", os.O_SYNC), ("also", os.O_DSYNC), ("lost", 0)):
        file = os.open(disk.mount_point / name, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        os.write(file, b"written")
        os.close(file)
    RealDisk().sync_dir(str(disk.mount_point))
    disk.cut_power()
    disk.restore_power(Loss.ALL, seed=1)
    found = {name: (disk.mount_point / name).read_bytes() for name in ("durable", "also", "lost")}
    assert found == {"durable": b"written", "also": b"written", "lost": b""}


def test_nothing_stays_mounted_when_the_process_of_the_disk_dies(tmp_path: Path) -> None:
    try:
        check_fuse()
    except CannotMount as reason:
        pytest.skip(f"not run: {reason}")
    with PowerLossDisk(tmp_path / "disk", tmp_path / "mounted") as dying:
        os.kill(dying.pid, signal.SIGKILL)
        # Dead, and left for its parent: everything that it had open is closed.
        os.waitid(os.P_PID, dying.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(CannotMount, match="does not answer"):
            dying.cut_power()
    assert not is_mounted(tmp_path)


@pytest.mark.parametrize(
    ("missing", "words"), [("device", "/dev/fuse is missing"), ("library", "libfuse3 is not installed")]
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "access", lambda path, mode: missing != "device")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(CannotMount, match=words) as refused, PowerLossDisk(tmp_path / "disk", tmp_path / "mounted"):
        pass
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_user_who_may_not_mount_gets_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    with pytest.raises(CannotMount, match="takes root"):
        check_fuse()
