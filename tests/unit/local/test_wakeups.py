from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kraft.local.wakeups import Wakeups

DEADLINE_S = 60.0


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    try:
        with Wakeups() as taken:
            yield taken
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_wait_ends_it(wakeups: Wakeups, number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    wakeups.wait(DEADLINE_S)
    assert wakeups.stop_requested
    # A request to stop stays one.
    wakeups.wait(DEADLINE_S)
    assert wakeups.stop_requested


def test_the_end_of_a_child_is_a_wakeup_and_no_request_to_stop(wakeups: Wakeups) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    wakeups.wait(DEADLINE_S)
    assert child.wait(DEADLINE_S) == 0
    assert not wakeups.stop_requested


def test_without_a_signal_the_wait_ends_in_time(wakeups: Wakeups) -> None:
    wakeups.wait(0.01)
    assert not wakeups.stop_requested
