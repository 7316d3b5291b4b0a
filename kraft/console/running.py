"""Runs the console in the foreground, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import uvicorn

from kraft.console.app import application
from kraft.console.config import ConsoleConfig
from kraft.console.connections import HEAD_S_MAX, BoundedConnection, Places
from kraft.console.console import Console
from kraft.model.errors import KraftError
from kraft.tls.contexts import server_context
from kraft.tls.store_files import StoreError

STOP_S: Final = 5
"""Longest wait for requests that are being answered, when the console is stopped."""


class CannotListen(KraftError):
    """The console cannot serve its address; one line, with the reason."""


def run(config: ConsoleConfig, say: Callable[[str], None]) -> None:
    """Serve until a signal comes. Raises CannotListen."""
    context = _context(config)
    listening = _listen(config)
    server = uvicorn.Server(
        uvicorn.Config(
            application(Console(config)),
            http=cast(Any, partial(BoundedConnection, places=Places(config.trusted_proxies))),
            ws="none",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            # The address of who logs in is counted, and a header can say any.
            proxy_headers=False,
            timeout_keep_alive=int(HEAD_S_MAX),
            timeout_graceful_shutdown=STOP_S,
            ssl_context_factory=None if context is None else lambda *_: context,
        )
    )
    # Lines for each request that a stranger cuts off, and a second traceback for what the console has logged.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    say(f"Console at {config.origin}/ (Ctrl-C ends it)")
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        # uvicorn has stopped in order, and raises the signal again.
        return


def _context(config: ConsoleConfig) -> ssl.SSLContext | None:
    if config.tls is None:
        return None
    try:
        return server_context(config.tls).context
    except StoreError as error:
        raise CannotListen(str(error)) from None


def _listen(config: ConsoleConfig) -> socket.socket:
    family: Any = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=128)
    except OSError as error:
        # Python adds the address, which is said already.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        remedy = ": set listeners to another port, or end what listens there" if error.errno == errno.EADDRINUSE else ""
        raise CannotListen(f"listeners: the console cannot listen at {config.origin}: {reason}{remedy}") from None
