"""Ctrl-C, SIGTERM and a closed terminal end the demo alike: all is stopped in order, and that is not cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Each of the signals raises KeyboardInterrupt inside, until `no_more` is called."""
    previous = {number: signal.signal(number, signal.default_int_handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def no_more() -> None:
    """What is being stopped has deadlines of its own; an impatient second Ctrl-C would leave something running."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
