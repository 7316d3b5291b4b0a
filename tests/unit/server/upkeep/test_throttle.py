from __future__ import annotations

import threading

import pytest

from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.upkeep.throttle import Stopped, Throttle

SECOND_NS = 1_000_000_000


class VirtualWait:
    """Time passes only where somebody waits."""

    def __init__(self) -> None:
        self.now_ns = 50 * SECOND_NS
        self.waited: list[float] = []

    def now(self) -> int:
        return self.now_ns

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now_ns += round(seconds * SECOND_NS)
        return False


def test_what_passes_stays_below_the_rate() -> None:
    time = VirtualWait()
    throttle = Throttle(1_000, now_ns=time.now, wait=time.wait)
    for _ in range(10):
        throttle.pass_bytes(500)
    assert time.waited == [0.5] * 9


def test_a_pause_is_not_made_up_for() -> None:
    time = VirtualWait()
    throttle = Throttle(1_000, now_ns=time.now, wait=time.wait)
    throttle.pass_bytes(1_000)
    time.now_ns += 60 * SECOND_NS
    throttle.pass_bytes(1_000)
    throttle.pass_bytes(1_000)
    assert time.waited == [1.0]


def test_without_a_limit_no_thread_waits() -> None:
    time = VirtualWait()
    throttle = Throttle(UNLIMITED_BYTES_PER_SECOND, now_ns=time.now, wait=time.wait)
    for _ in range(100):
        throttle.pass_bytes(1 << 30)
    assert time.waited == []


def test_a_waiting_thread_stops_at_once() -> None:
    throttle = Throttle(1)
    ended = threading.Event()

    def work() -> None:
        try:
            for _ in range(10):
                throttle.pass_bytes(3_600)
        except Stopped:
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    throttle.stop()
    assert ended.wait(60)
    thread.join(60)


def test_nothing_passes_a_throttle_that_was_stopped() -> None:
    throttle = Throttle(UNLIMITED_BYTES_PER_SECOND)
    throttle.stop()
    with pytest.raises(Stopped):
        throttle.pass_bytes(1)


def test_a_new_rate_holds_for_what_is_passed_after_it() -> None:
    time = VirtualWait()
    throttle = Throttle(1_000, now_ns=time.now, wait=time.wait)
    throttle.pass_bytes(1_000)
    throttle.set_rate(100)
    throttle.pass_bytes(1_000)
    throttle.pass_bytes(1)
    assert time.waited == pytest.approx([1, 10])
