from __future__ import annotations

import threading

import pytest

from kraft.cli import quorum_watch
from kraft.cli.quorum_watch import QuorumWatch
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.model.errors import NoActiveController
from kraft.model.describe_quorum import QuorumDescription
from kraft.model.errors import ErrorCode, Refusal

LOST = NoActiveController(QuorumDescription(error_message="no controller is active: node 1 reaches 1 of 3 voters"))
TIMED_OUT = NoBrokerReachable({"node:9094": "connection refused"}, 10_000)
DEADLINE_S = 10.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_watch, "LOOK_EVERY_S", 0.001)


class Quorum:
    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.looks = 0
        self.was_seen = threading.Event()
        """Set when a second look begins, so that the first one has been told."""

    def describe(self) -> None:
        self.looks += 1
        if self.looks > 1:
            self.was_seen.set()
        if self._error is not None:
            raise self._error


def fail_under(watch: QuorumWatch, quorum: Quorum, error: Exception) -> None:
    """Raise the error in a block that has waited for a look at the quorum."""
    with watch:
        assert quorum.was_seen.wait(DEADLINE_S)
        raise error


def test_a_block_that_waits_says_once_that_no_controller_is_active_and_ends_with_it() -> None:
    quorum, said = Quorum(LOST), list[str]()
    with pytest.raises(NoActiveController):
        fail_under(QuorumWatch(quorum.describe, said.append), quorum, TIMED_OUT)
    assert said == [f"{LOST.message}; trying again"]


def test_each_loss_of_a_long_wait_is_said_once() -> None:
    losses, said, all_seen = [LOST, LOST, None, LOST, None], list[str](), threading.Event()

    def describe() -> None:
        if not losses:
            all_seen.set()
            return
        error = losses.pop(0)
        if error is not None:
            raise error

    with QuorumWatch(describe, said.append, every_s_max=0.002):
        assert all_seen.wait(DEADLINE_S)
    assert said == [f"{LOST.message}; trying again"] * 2


class Waits(threading.Event):
    """The end of a block, after this many waits; it notes how long they would have been."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count
        self.waited_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout)
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize(
    ("is_waiting", "expected_s"),
    [([True] * 5, [1, 2, 4, 5, 5, 5]), ([True, True, False, True, False], [1, 2, 4, 1, 2, 1])],
)
def test_looks_become_rarer_only_while_the_block_waits(
    monkeypatch: pytest.MonkeyPatch, is_waiting: list[bool], expected_s: list[float]
) -> None:
    monkeypatch.setattr(quorum_watch, "LOOK_EVERY_S", 1)
    waits, turns = Waits(len(is_waiting)), iter(is_waiting)
    watch = QuorumWatch(lambda: None, lambda _: None, lambda: next(turns), every_s_max=5)
    watch._ended = waits
    with watch:
        watch._thread.join(DEADLINE_S)
    assert waits.waited_s == expected_s


@pytest.mark.parametrize(
    "error", [None, TIMED_OUT, Refusal(ErrorCode.UNSUPPORTED_VERSION, "an older broker"), ValueError("anything")]
)
def test_the_error_of_a_block_stays_while_a_controller_is_active_or_nothing_is_known(error: Exception | None) -> None:
    quorum, said = Quorum(error), list[str]()
    with pytest.raises(NoBrokerReachable):
        fail_under(QuorumWatch(quorum.describe, said.append), quorum, TIMED_OUT)
    assert not said


def test_an_error_that_no_election_prevents_is_passed_on() -> None:
    quorum, missing = Quorum(LOST), Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'a' does not exist")
    with pytest.raises(Refusal, match="does not exist"):
        fail_under(QuorumWatch(quorum.describe, lambda _: None), quorum, missing)


def test_nobody_is_asked_while_the_block_does_not_wait() -> None:
    quorum, polled = Quorum(LOST), threading.Event()

    def is_waiting() -> bool:
        polled.set()
        return False

    with QuorumWatch(quorum.describe, lambda _: None, is_waiting):
        assert polled.wait(DEADLINE_S)
    assert not quorum.looks


def test_a_watch_has_one_client_for_all_looks_and_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client warns anew of brokers that do not answer."""
    steps, looked = list[str](), threading.Semaphore(0)

    class Admin:
        def describe_quorum(self, *, wait_for_leader: bool) -> None:
            assert not wait_for_leader
            looked.release()

        def close(self) -> None:
            steps.append("closed")

    def open_admin(*_: object) -> Admin:
        steps.append("opened")
        return Admin()

    monkeypatch.setattr(quorum_watch, "open_admin", open_admin)
    with quorum_watch.quorum_watch("node:9094"):
        for _ in range(3):
            assert looked.acquire(timeout=DEADLINE_S)
        assert steps == ["opened"]
    assert steps == ["opened", "closed"]
