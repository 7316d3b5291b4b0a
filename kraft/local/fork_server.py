"""Forks Python commands from a process that has imported their modules: `python -m kraft.local.fork_server`.

The imports of a node take most of its time from start to listening, and most of the processor time of a short life.
Here they are paid once. Each request on the socket is for one command; the response is its process id. When the
command ends, its wait status is written to the pipe that came with the request. The server ends when its socket has
closed and all its commands have ended.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import runpy
import selectors
import socket
import sys
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

REQUEST: Final = b"fork"
"""Content of a request. The command itself may be larger than a message, and is in the file that comes with it."""

DESCRIPTORS_MAX: Final = 6
"""Those of the pipe for the status, the file, input and both outputs, and a descriptor to pass on if any."""

STATUS_BYTES: Final = 4
PID_BYTES: Final = 4


class Command(Struct, frozen=True, kw_only=True):
    """A module that is run as `python -m` runs it. What the user gives need not be UTF-8."""

    module: str
    arguments: tuple[bytes, ...]
    directory: bytes
    environment: dict[bytes, bytes]
    passed_in: str
    """The variable that has the number of the descriptor passed on; empty without one."""


class _LastStep:
    """Ends the process of a command that has left with an exit code, after everything else that is done at an end.

    The interpreter would now free all objects, and copy the pages of the server that they are in: 0.1 s.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def __call__(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def main(descriptor: int, preload: str) -> None:
    """Call `preload` (`module:function`), and serve. In a child, run its command."""
    last_step = _LastStep()
    # What is registered first is called last.
    atexit.register(last_step)
    module, _, function = preload.partition(":")
    getattr(importlib.import_module(module), function)()
    # A child would look for garbage among these objects when it ends, and copy their pages for that: 0.2 s.
    gc.freeze()
    with socket.socket(fileno=descriptor) as server:
        request = _served(server)
    if request is not None:
        command = _become(request)
        sys.argv[1:] = [os.fsdecode(each) for each in command.arguments]
        try:
            runpy.run_module(command.module, run_name="__main__", alter_sys=True)
            last_step.code = 0
        except SystemExit as left:
            # Anything else is printed by the interpreter, which then ends as ever.
            if left.code is None or isinstance(left.code, int):
                last_step.code = left.code or 0
            raise


def _served(server: socket.socket) -> list[int] | None:
    """Return the descriptors of this process, in a child; None when nothing is left to serve."""
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fileobj is not server:
                    _report(selector, key)
                    continue
                descriptors = _received(server)
                if not descriptors:
                    selector.unregister(server)
                    continue
                status, *inherited = descriptors
                pid = os.fork()
                if pid == 0:
                    return inherited
                for each in inherited:
                    os.close(each)
                handle = os.pidfd_open(pid)
                selector.register(handle, selectors.EVENT_READ, (pid, status))
                with suppress(BrokenPipeError):
                    socket.send_fds(server, [pid.to_bytes(PID_BYTES)], [handle])
    return None


def _received(server: socket.socket) -> list[int]:
    """Return the descriptors of a request; none when the launcher has closed its end."""
    try:
        _, descriptors, _, _ = socket.recv_fds(server, len(REQUEST), DESCRIPTORS_MAX)
    except ConnectionResetError:  # It had not read the last response.
        return []
    return descriptors


def _report(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Write the status of a command that has ended."""
    pid, status = key.data
    selector.unregister(key.fileobj)
    os.close(key.fd)
    _, wait_status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # The launcher may have ended.
        os.write(status, wait_status.to_bytes(STATUS_BYTES))
    os.close(status)


def _become(inherited: list[int]) -> Command:
    """Make this process what a new one would be: a session and an environment of its own, and no other descriptors."""
    file, given, output, errors, *passed = inherited
    with open(file, "rb") as encoded:
        command = msgspec.msgpack.decode(encoded.read(), type=Command)
    os.setsid()
    os.chdir(command.directory)
    os.dup2(given, 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.environ.clear()
    os.environb.update(command.environment)
    first = 3
    for descriptor in passed:
        os.closerange(first, descriptor)
        first = descriptor + 1
        os.environ[command.passed_in] = str(descriptor)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    return command


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
