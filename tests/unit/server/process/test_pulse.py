from __future__ import annotations

import pytest

from kraft.server.process import pulse as pulses
from kraft.server.process.pulse import HANGS_AFTER_S, Pulse
from kraft.server.process.service_manager import ServiceManager


class FakeManager(ServiceManager):
    def __init__(self, *, has_watchdog: bool = False) -> None:
        super().__init__({})
        self.has_watchdog = has_watchdog
        self.told: list[str] = []

    def tell(self, *lines: str) -> None:
        self.told += lines

    def news(self) -> list[str]:
        """What was told since the last call."""
        told, self.told = self.told, []
        return told


class Node:
    """A node whose pulse beats when the test says so, by a clock of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_watchdog: bool = False) -> None:
        self.now_s = 100.0
        self.reason: str | None = "it is not registered yet"
        self.manager = FakeManager(has_watchdog=has_watchdog)
        monkeypatch.setattr(pulses, "monotonic", lambda: self.now_s)
        self.pulse = Pulse(lambda: self.reason, self.manager)

    def beats(self, reason: str | None) -> list[str]:
        self.reason = reason
        self.pulse.beat()
        return self.manager.news()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_a_loop_that_turns_is_alive_and_one_that_hangs_is_not(node: Node) -> None:
    node.beats(None)
    node.now_s += HANGS_AFTER_S
    assert node.pulse.why_not_alive() is None
    assert node.pulse.why_not_ready() is None
    node.now_s += 3
    assert node.pulse.why_not_alive() == "the event loop has not turned for 8 s"
    assert node.pulse.why_not_ready() == "the event loop has not turned for 8 s"
    node.beats(None)
    assert node.pulse.why_not_alive() is None


def test_a_node_is_not_ready_before_its_first_beat_and_once_it_stops(node: Node) -> None:
    assert node.pulse.why_not_ready() == "it is starting"
    node.beats(None)
    assert node.pulse.why_not_ready() is None
    node.pulse.stopping()
    assert node.pulse.why_not_ready() == "it stops"
    assert node.pulse.why_not_alive() is None


def test_the_service_manager_hears_of_the_start_the_service_and_the_stop(node: Node) -> None:
    more_time = "EXTEND_TIMEOUT_USEC=30000000"
    assert node.beats("it waits") == ["STATUS=not ready: it waits", more_time]
    assert node.beats("it waits") == [more_time]
    assert node.beats(None) == ["READY=1", "STATUS=in service"]
    assert node.beats(None) == []
    assert node.beats("it is fenced") == ["STATUS=not ready: it is fenced"]
    assert node.beats(None) == ["STATUS=in service"]
    node.pulse.stopping()
    assert node.manager.news() == ["STOPPING=1", "STATUS=not ready: it stops", more_time]


def test_the_watchdog_hears_each_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, has_watchdog=True)
    assert node.beats(None) == ["READY=1", "STATUS=in service", "WATCHDOG=1"]
    assert node.beats(None) == ["WATCHDOG=1"]
