"""What a process tells the service manager that started it, such as systemd: sd_notify(3).

The protocol is a datagram of `KEY=VALUE` lines to a socket that the environment names. So little needs no library:
those there are either bind to C or are maintained no more.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Final

import structlog

log = structlog.get_logger()

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
_WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"

EXTENDED_S: Final = 30
"""Time that a process asks for again and again while it starts or stops: a start may wait for other nodes, or recover
logs, for as long as it takes."""


def more_time(seconds: int = EXTENDED_S) -> str:
    """Return the line that asks for so much more time, from now on, to start or to stop."""
    return f"EXTEND_TIMEOUT_USEC={seconds * 1_000_000}"


class ServiceManager:
    """The service manager, or nobody. What it is told is lost if it does not take it: nothing here waits for it."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes the variables out of the environment: the processes that this one starts are not the service."""
        address = environment.pop(SOCKET_VARIABLE, "")
        period, process_id = (environment.pop(each, "") for each in (WATCHDOG_VARIABLE, _WATCHDOG_PID_VARIABLE))
        self._socket = _connected(address) if address else None
        self.has_watchdog = bool(period) and process_id in ("", str(os.getpid()))
        """Whether it ends this process unless it hears `WATCHDOG=1` regularly."""
        self._was_lost = False

    @property
    def is_there(self) -> bool:
        return self._socket is not None

    def tell(self, *lines: str) -> None:
        """Send lines such as `READY=1`."""
        if self._socket is None or not lines:
            return
        try:
            self._socket.send("\n".join(lines).encode())
        except OSError as error:
            # Its queue may be full, or it may be restarting.
            if not self._was_lost:
                log.warning("service manager not told", lines=list(lines), reason=str(error))
            self._was_lost = True
        else:
            self._was_lost = False


def _connected(address: str) -> socket.socket | None:
    """Return a socket that never blocks; None, with a warning, if the address is of a kind that is not known."""
    if address[0] not in "/@":
        log.warning("service manager not told", reason=f"{SOCKET_VARIABLE}={address} is no path and no abstract socket")
        return None
    sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sending.setblocking(False)
    try:
        # An abstract address is written with @ in place of its first byte.
        sending.connect("\0" + address[1:] if address[0] == "@" else address)
    except OSError as error:
        sending.close()
        log.warning("service manager not told", reason=f"{SOCKET_VARIABLE}={address}: {error}")
        return None
    return sending
