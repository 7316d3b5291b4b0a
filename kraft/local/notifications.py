"""What the processes of one file tell the service manager: their supervisor hears each of them, and tells it of all.

The service manager believes the process that it has started, which is the supervisor, and knows of no other. So each
process tells the supervisor in its place, and the kernel says which process has sent what.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Final

from msgspec import Struct

from kraft.server.process.pulse import HANGS_AFTER_S, IN_SERVICE
from kraft.server.process.service_manager import SOCKET_VARIABLE, WATCHDOG_VARIABLE, ServiceManager, more_time

STOP_S: Final = 120
"""Time for which a stop of all processes may take; the supervisor kills them before."""

_MESSAGE_BYTES_MAX: Final = 4_096
_CREDENTIALS: Final = struct.Struct("iII")
"""Ids of a process, a user and a group, as Linux sends them beside a message."""


class _Process(Struct):
    status: str = "it is starting"
    is_ready: bool = False
    turned_s: float | None = None
    """When it last said that its event loop turns; None before the first time, and where nobody asks."""


class ServiceState:
    """The state of a service that consists of the processes with these node ids."""

    def __init__(self, node_ids: Iterable[int], *, has_watchdog: bool) -> None:
        self._processes = {each: _Process() for each in node_ids}
        self._has_watchdog = has_watchdog
        self._was_ready = False
        self._told = ""

    def started(self, node_id: int) -> None:
        """Note that the process starts, perhaps again."""
        self._processes[node_id] = _Process()

    def heard(self, node_id: int, message: str, now_s: float) -> None:
        """Note what the process said."""
        process = self._processes[node_id]
        for line in message.splitlines():
            match line.split("=", 1):
                case ["STATUS", status]:
                    process.status = status
                case ["READY", "1"]:
                    process.is_ready = True
                case ["WATCHDOG", "1"]:
                    process.turned_s = now_s
                case _:
                    # What each asks for its start, the supervisor asks for all.
                    pass

    def news(self, now_s: float) -> Iterator[str]:
        """Yield what the service manager has to hear now."""
        if not self._was_ready and all(each.is_ready for each in self._processes.values()):
            self._was_ready = True
            yield "READY=1"
        status = self._status()
        if status != self._told:
            self._told = status
            yield f"STATUS={status}"
        if not self._was_ready:
            yield more_time()
        silent_since_s = now_s - HANGS_AFTER_S
        hangs = any(each.turned_s is not None and each.turned_s < silent_since_s for each in self._processes.values())
        if self._has_watchdog and not hangs:
            yield "WATCHDOG=1"

    def _status(self) -> str:
        others = (
            f"node {node_id}: {each.status}" for node_id, each in self._processes.items() if each.status != IN_SERVICE
        )
        return next(others, f"{IN_SERVICE}, with {len(self._processes)} processes")


class Notifications:
    """The supervisor's end: a socket in place of the service manager's, if there is one."""

    def __init__(self, node_ids: Iterable[int], environment: MutableMapping[str, str]) -> None:
        """Changes the environment that the processes get."""
        self._manager = ServiceManager(environment)
        self._state = ServiceState(node_ids, has_watchdog=self._manager.has_watchdog)
        self._socket: socket.socket | None = None
        if self._manager.is_there:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.setblocking(False)
            # Without a path, the kernel chooses an abstract address.
            self._socket.bind("")
            environment[SOCKET_VARIABLE] = "@" + self._socket.getsockname()[1:].decode()
            if self._manager.has_watchdog:
                # For each of them; the period is the service manager's affair.
                environment[WATCHDOG_VARIABLE] = "1"

    @property
    def files(self) -> list[int]:
        """Descriptors to wait for beside signals."""
        return [] if self._socket is None else [self._socket.fileno()]

    def started(self, node_id: int) -> None:
        self._state.started(node_id)

    def stopping(self) -> None:
        self._manager.tell("STOPPING=1", more_time(STOP_S))

    def pass_on(self, node_ids: Mapping[int, int]) -> None:
        """Tell the service manager what has been heard by now from the processes with these pids."""
        if self._socket is None:
            return
        now_s = monotonic()
        with suppress(BlockingIOError):
            while True:
                message, ancillary, _, _ = self._socket.recvmsg(
                    _MESSAGE_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
                pid = _sender(ancillary)
                # Any process of this machine may send to the address.
                if pid in node_ids:
                    self._state.heard(node_ids[pid], message.decode("utf-8", "replace"), now_s)
        self._manager.tell(*self._state.news(now_s))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _sender(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid: int = _CREDENTIALS.unpack_from(data)[0]
            return pid
    return 0
