"""Ctrl-C, SIGTERM and a closed terminal stop the demo in order, and do not interrupt that stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt inside for each of the signals, until `ignore_signals` is called."""
    previous = {number: signal.signal(number, signal.default_int_handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore the signals. The stop has its own deadlines, and a second Ctrl-C would leave processes running."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
