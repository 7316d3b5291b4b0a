"""A disk whose power can fail, for the program that makes it fail: mounts it, commands it, unmounts it."""

from __future__ import annotations

import ctypes.util
import errno
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from chaos.nemesis.power_loss.loss import AtStake, Loss

_FUSE_DEVICE: Final = Path("/dev/fuse")
_ANSWER_DEADLINE_S: Final = 30.0
_END_DEADLINE_S: Final = 10.0
_DETACH: Final = 2
"""MNT_DETACH: gone at once, even while somebody has a file open."""


class CannotMount(Exception):
    """This machine does not let us mount a file system of our own; the text says why."""


def check_fuse() -> None:
    """Raises CannotMount, with what is missing on this machine."""
    if not os.access(_FUSE_DEVICE, os.R_OK | os.W_OK):
        raise CannotMount(f"{_FUSE_DEVICE} is missing, or not ours to open")
    if os.geteuid() != 0:
        raise CannotMount("mounting takes root")
    if ctypes.util.find_library("fuse3") is None:
        raise CannotMount("libfuse3 is not installed (on Debian and Ubuntu: apt install libfuse3-3)")
    if importlib.util.find_spec("mfusepy") is None:
        raise CannotMount("mfusepy is not installed")


class PowerLossDisk:
    """A context manager: an empty disk, mounted at `mount_point`; gone afterwards, with all that was on it.

    `directory` is for what it keeps, and must not exist yet. A sync takes up to `sync_ms_max` milliseconds, by chance,
    so that a loss of power meets some of them under way. Raises CannotMount. Calls block, each with a deadline; not for
    several threads at once.
    """

    def __init__(self, directory: Path, mount_point: Path, *, sync_ms_max: float = 0, seed: int = 0) -> None:
        self.mount_point = mount_point
        self._directory = directory
        self._medium = directory / "medium"
        self._said = directory / "said"
        self._settings = (str(sync_ms_max), str(seed))
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the file system."""
        assert self._process is not None, "the disk is not mounted"
        return self._process.pid

    def hold_syncs(self) -> None:
        """Make every sync hang until the power is cut, as on a disk that hangs; unsynced data accumulates."""
        self._command({"do": "hold syncs"})

    def slow_syncs(self, seconds: float) -> None:
        """Make every sync take that much longer, as on a disk that is about to die, or that others use up."""
        self._command({"do": "slow syncs", "seconds": seconds})

    def fail_syncs(self, path_ends_with: str) -> None:
        """Make syncs of files opened by such a path fail with EIO. What they should have written stays
        readable, and no later sync writes it: the kernel has said so once."""
        self._command({"do": "fail syncs", "path_ends_with": path_ends_with})

    def heal_syncs(self) -> int:
        """They succeed again. Returns how many bytes can be read that no sync has written."""
        failed_bytes: int = self._command({"do": "heal syncs"})["failed_bytes"]
        return failed_bytes

    def cut_power(self) -> None:
        """Cut the power: nothing becomes durable any more, and every call fails. Kill the users of the disk first."""
        self._command({"do": "cut power"})

    def restore_power(self, loss: Loss, seed: int) -> AtStake:
        """The disk works again, with what survived. Those who used it before have to be gone."""
        return AtStake(**self._command({"do": "restore power", "loss": loss.value, "seed": seed}))

    def __enter__(self) -> Self:
        check_fuse()
        self._medium.mkdir(parents=True)
        self.mount_point.mkdir(parents=True)
        command = [sys.executable, "-m", "chaos.nemesis.power_loss"]
        command += [str(self._medium), str(self.mount_point), *self._settings]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                # Ctrl-C is for those who use the disk, which is needed until they have ended.
                start_new_session=True,
                cwd=Path(__file__).parents[3],
            )
        try:
            self._read_answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _command(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None, "the disk is not mounted"
        assert self._process.stdin is not None
        # A process that has died closed its end: then there is no answer to read.
        with suppress(BrokenPipeError):
            print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        # One line answers one command, so none is ever left in the buffer, where `poll` would not see it.
        waiting = select.poll()
        waiting.register(self._process.stdout, select.POLLIN)
        line = self._process.stdout.readline() if waiting.poll(_ANSWER_DEADLINE_S * 1_000) else ""
        if not line:
            raise CannotMount(f"the process of the disk does not answer: {self._said.read_text().strip()}")
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        try:
            # The end of its input is what ends it.
            process.communicate(timeout=_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        # A process that was killed leaves its mount behind.
        unmount(self.mount_point)
        self.mount_point.rmdir()
        shutil.rmtree(self._directory)


def unmount(mount_point: Path) -> None:
    """Returns at once, also when nothing was mounted. Raises OSError where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(mount_point), _DETACH) != 0:
        number = ctypes.get_errno()
        # There is nothing mounted (any more).
        if number not in (errno.EINVAL, errno.ENOENT):
            raise OSError(number, os.strerror(number), str(mount_point))
