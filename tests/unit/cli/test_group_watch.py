from __future__ import annotations

import threading

import pytest

from kraft.cli import group_watch
from kraft.cli.group_watch import THREAD_NAME, GroupWatch, why_waiting
from kraft.client import GroupDescription, GroupMember, TopicPartition
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.coordinators import found

DEADLINE_S = 10.0
NOT_THERE = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "__consumer_offsets-7 has no leader")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_watch, "LOOK_EVERY_S", 0.001)


def member(number: int, assigned: int = 0, target: int | None = None) -> GroupMember:
    def partitions(count: int) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition("orders", each) for each in range(count))

    return GroupMember(
        member_id=f"m{number}",
        group_instance_id=None,
        client_id=f"reader-{number}",
        host="/10.0.0.1",
        assignment=partitions(assigned),
        target=None if target is None else partitions(target),
    )


def group(state: str, *members: GroupMember) -> GroupDescription:
    return GroupDescription(
        group_id="g",
        type="classic",
        protocol_type="consumer",
        state=state,
        assignor="",
        coordinator=found("g", 1, "h"),
        members=members,
    )


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (group("Stable", member(1, 2)), None),
        (group("Empty"), None),
        (
            group("PreparingRebalance", member(1), member(2)),
            (
                "waiting for all members of group 'g' to join again, 2 members (reader-1 on 10.0.0.1, reader-2 on"
                " 10.0.0.1); one that ended without leaving is removed when its session ends, after session.timeout.ms"
            ),
        ),
        (
            group("Reconciling", member(1, 4, 2), member(2, 0, 2)),
            (
                "waiting for partitions of group 'g' that have to be given up by 1 member (reader-1 on 10.0.0.1); one"
                " that ended without leaving is removed when its session ends, after session.timeout.ms"
            ),
        ),
        (
            group("Assigning", member(1, 6), member(2)),
            "waiting for a new assignment of group 'g', which is computed when no more members join",
        ),
        (
            group("Stable", member(1, 2), member(2)),
            "group 'g' has more members than partitions: all are read by 1 member (reader-1 on 10.0.0.1)",
        ),
    ],
)
def test_a_group_says_what_its_new_member_waits_for(described: GroupDescription, reason: str | None) -> None:
    assert why_waiting(described) == reason


def watched(outcomes: list[GroupDescription | Exception]) -> tuple[list[str], str | None]:
    """Return what was said of a group that is described so, and the problem in the end."""
    said, all_seen = list[str](), threading.Event()

    def describe() -> GroupDescription:
        if len(outcomes) == 1:
            all_seen.set()
        outcome = outcomes[0] if len(outcomes) == 1 else outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with GroupWatch("g", describe, lambda: True, said.append).running() as watch:
        assert all_seen.wait(DEADLINE_S)
        (thread,) = (each for each in threading.enumerate() if each.name == THREAD_NAME)
    thread.join(DEADLINE_S)
    return said, watch.problem


def test_a_group_without_a_coordinator_is_said_once_and_is_the_problem_in_the_end() -> None:
    said, problem = watched([NOT_THERE, NOT_THERE, NOT_THERE])
    reason = "group 'g' has no coordinator: COORDINATOR_NOT_AVAILABLE: __consumer_offsets-7 has no leader"
    assert (said, problem) == ([f"kraft: {reason}"], reason)


def test_a_coordinator_that_comes_back_ends_the_problem() -> None:
    said, problem = watched([NOT_THERE, group("Stable", member(1, 2))])
    assert (len(said), problem) == (1, None)


def test_a_group_that_does_not_exist_yet_says_nothing() -> None:
    assert watched([Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "")] * 3) == ([], None)


def test_brokers_that_do_not_answer_are_said_once_whatever_the_time() -> None:
    """Whether there is a coordinator is not known then."""
    silent = [NoBrokerReachable({"node:9094": f"reason {each}"}, 1_500 - each) for each in range(3)]
    said, problem = watched([*silent, silent[0]])
    reason = "the state of group 'g' is unknown: no broker answers"
    assert (said, problem) == ([f"kraft: {reason}"], reason)


def test_one_refusal_is_said_once_whatever_its_text() -> None:
    other = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "__consumer_offsets-7 has no leader for 2 s")
    loading = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded")
    said, _ = watched([NOT_THERE, other, loading, loading])
    assert [each.rpartition(": ")[2] for each in said] == ["__consumer_offsets-7 has no leader", "it is being loaded"]


def test_any_other_error_is_said_and_the_watch_goes_on() -> None:
    said, problem = watched([ValueError("not enough values"), NOT_THERE, group("Stable", member(1, 2))])
    assert said[0] == "kraft: the state of group 'g' is unknown: not enough values"
    assert (len(said), problem) == (2, None)


@pytest.mark.parametrize("what_happened", ["partitions came", "the block ended"])
def test_nothing_is_said_of_what_was_over_before_the_look_was(what_happened: str) -> None:
    said, waiting = list[str](), [True]

    def describe() -> GroupDescription:
        if what_happened == "partitions came":
            waiting.clear()
        else:
            watch._ended.set()
        raise NOT_THERE

    watch = GroupWatch("g", describe, lambda: bool(waiting), said.append)
    watch._look()
    assert said == []


def test_a_watch_has_one_client_for_all_looks_and_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client warns anew of brokers that do not answer."""
    steps, looked = list[str](), threading.Semaphore(0)

    class Admin:
        def describe_consumer_groups(self, group_ids: list[str]) -> list[GroupDescription]:
            looked.release()
            return [group("Empty") for _ in group_ids]

        def close(self) -> None:
            steps.append("closed")

    def open_admin(*_: object) -> Admin:
        steps.append("opened")
        return Admin()

    monkeypatch.setattr(group_watch, "open_admin", open_admin)
    with group_watch.group_watch("node:9094", "g", lambda: True):
        for _ in range(3):
            assert looked.acquire(timeout=DEADLINE_S)
        assert steps == ["opened"]
    assert steps == ["opened", "closed"]
