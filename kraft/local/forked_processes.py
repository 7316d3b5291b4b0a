"""Processes that a `fork_server` starts, with the methods of `subprocess.Popen` that nodes need."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

from kraft.local import fork_server
from kraft.local.fork_server import PID_BYTES, REQUEST, STATUS_BYTES, Command
from kraft.local.launching import environment

_START_DEADLINE_S: Final = 60.0
_END_DEADLINE_S: Final = 10.0

_PYTHON_MODULE: Final = (sys.executable, "-m")


class ForkServer:
    """Starts `python -m MODULE ...` commands in little time. The server itself starts with the first one.

    `preload` is `module:function`, which imports what the commands will import. Thread-safe.
    """

    def __init__(self, preload: str) -> None:
        self._preload = preload
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def prepare(self) -> None:
        """Start the server, which imports while the caller goes on; otherwise the first command starts it."""
        with self._lock:
            if self._socket is None:
                self._socket = self._started()

    def launch(self, command: Sequence[str], output: IO[bytes], passed: int, passed_in: str) -> ForkedProcess:
        """Start a command, as `launching.launch` does. Raises ConnectionError if the server has ended."""
        with open(os.devnull, "rb") as nothing:
            return self._start(command, [nothing.fileno(), output.fileno(), output.fileno(), passed], passed_in)

    def start(self, command: Sequence[str], stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> ForkedProcess:
        """Start a command with these files or ends of pipes, which the caller may close afterwards."""
        return self._start(command, [stdin.fileno(), stdout.fileno(), stderr.fileno()], "")

    def run(self, command: Sequence[str], timeout_s: float, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and return what it printed. Raises subprocess.TimeoutExpired, with it killed."""
        with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
            given.write(stdin)
            given.seek(0)
            process = self.start(command, given, output, errors)
            try:
                code = process.wait(timeout_s)
            finally:
                process.kill()
            texts = [(file.seek(0), file.read().decode())[1] for file in (output, errors)]
        return subprocess.CompletedProcess(list(command), code, *texts)

    def _start(self, command: Sequence[str], inherited: Sequence[int], passed_in: str) -> ForkedProcess:
        *python, module = command[:3]
        assert tuple(python) == _PYTHON_MODULE, f"{command} is no module of this Python"
        message = Command(
            module=module,
            arguments=tuple(os.fsencode(each) for each in command[3:]),
            directory=os.getcwdb(),
            environment={os.fsencode(name): os.fsencode(value) for name, value in environment().items()},
            passed_in=passed_in,
        )
        if self._pid != os.getpid():
            # Both would read the responses of the parent's server, and a thread may have held the lock at the fork.
            self._pid, self._lock, self._socket = os.getpid(), threading.Lock(), None
        reading_end, writing_end = os.pipe()
        try:
            with self._lock, TemporaryFile() as file:
                file.write(msgspec.msgpack.encode(message))
                file.seek(0)
                pid, handle = self._ask([writing_end, file.fileno(), *inherited])
        except BaseException:
            os.close(reading_end)
            raise
        finally:
            os.close(writing_end)
        return ForkedProcess(pid, handle, reading_end)

    def _ask(self, descriptors: list[int]) -> tuple[int, int]:
        if self._socket is None:
            self._socket = self._started()
        try:
            socket.send_fds(self._socket, [REQUEST], descriptors)
            response, handles, _, _ = socket.recv_fds(self._socket, PID_BYTES, 1)
            if not response:
                raise ConnectionError("the process that starts nodes has ended")
        except BaseException:
            # A response that comes later must not be taken for the next one's.
            self._socket.close()
            self._socket = None
            raise
        return int.from_bytes(response), handles[0]

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_START_DEADLINE_S)
        with theirs:
            process = subprocess.Popen(
                [*_PYTHON_MODULE, fork_server.__name__, str(theirs.fileno()), self._preload],
                stdin=subprocess.DEVNULL,
                env=environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        weakref.finalize(self, _end, process, ours)
        return ours


class ForkedProcess:
    """A child of the server."""

    def __init__(self, pid: int, handle: int, status: int) -> None:
        self.pid = pid
        # A signal by number could reach another process that has the number meanwhile.
        self._handle = handle
        self._status = status
        self._exit_code: int | None = None
        weakref.finalize(self, os.close, handle)
        weakref.finalize(self, os.close, status)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        return self._waited(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        code = self._waited(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _waited(self, timeout_s: float | None) -> int | None:
        if self._exit_code is None:
            # Not by the status: its pipe ends with the server, also if that is killed and the process goes on.
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1_000):
                status = os.read(self._status, STATUS_BYTES)
                # The server was killed: nobody knows how the process ended.
                self._exit_code = os.waitstatus_to_exitcode(int.from_bytes(status)) if status else -signal.SIGKILL
        return self._exit_code


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    try:
        process.wait(_END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_DEADLINE_S)
