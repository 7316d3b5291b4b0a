from __future__ import annotations

from collections.abc import Collection

from structlog.testing import capture_logs

from kraft.quorum.membership import Membership
from kraft.quorum.reminders import Obstacle, Peers, Reminder, obstacle

A, B, C, OTHER = (bytes([number]) * 16 for number in (1, 2, 3, 9))
NEW = Membership(node_id=3, incarnation=OTHER)
LEARNER = NEW.joining({1: A, 2: B, 3: C})
PEERS = (1, 2)


def remedy(membership: Membership, connected: set[int], learners: Collection[int] = ()) -> str | None:
    found = obstacle(membership, Peers(all=PEERS, connected=connected, learners=learners))
    return None if found is None else found.remedy


def test_a_first_start_names_the_controllers_that_are_missing() -> None:
    assert obstacle(NEW, Peers(all=PEERS, connected={1})) == Obstacle(
        event="quorum not formed yet: it needs all controllers once", waits_for=[2], remedy="start controller 2"
    )
    assert remedy(NEW, set()) == "start controllers 1, 2"
    assert remedy(NEW, {1, 2}) is None


def test_a_controller_that_forms_no_quorum_with_this_one_is_named_with_its_reason() -> None:
    reason = "controller.quorum.voters differ: node 1 has [1], node 2 has [1, 2, 3]"
    found = obstacle(NEW, Peers(all=PEERS, connected={2}, refusals={1: reason, 2: ""}))
    assert found is not None
    assert reason in found.remedy
    assert "grow that one first" in found.remedy


def test_a_learner_names_the_controllers_that_a_leader_needs() -> None:
    assert remedy(LEARNER, {1}) == "start controller 2"
    assert "if this lasts" in (remedy(LEARNER, {1, 2}) or "")
    assert remedy(LEARNER.admitted(4), {1}) is None


def test_of_five_controllers_only_as_many_as_are_needed_are_to_be_started() -> None:
    five = Membership(node_id=5, incarnation=OTHER).joining({node_id: bytes(16) for node_id in range(1, 6)})
    found = obstacle(five, Peers(all=(1, 2, 3, 4), connected={1, 2}))
    assert found is not None
    assert (found.waits_for, found.remedy) == ([3, 4], "start 1 of controllers 3, 4")


def test_after_the_loss_of_a_majority_the_last_metadata_log_is_not_to_be_deleted() -> None:
    said = remedy(LEARNER, {1, 2}, {1})
    assert said is not None
    assert said.endswith("only controller 2 may have it: do not delete it")
    assert remedy(LEARNER, {1, 2}, {1, 2}) == "none: no controller has the metadata log any more"


def test_a_reminder_comes_after_a_second_and_then_every_30_s_while_the_obstacle_lasts() -> None:
    waits = obstacle(NEW, Peers(all=PEERS, connected={1}))
    reminder = Reminder(3, 0)
    with capture_logs() as lines:
        for now_ms in range(0, 91_000, 100):
            reminder.check(waits, now_ms)
    assert [(line["log_level"], line["waits_for"]) for line in lines] == [("warning", [2])] * 3
    with capture_logs() as lines:
        reminder.check(None, 91_000)
        reminder.check(waits, 91_900)
        assert not lines, "it was gone, and has not lasted"
        reminder.check(waits, 92_000)
        reminder.check(obstacle(NEW, Peers(all=PEERS)), 96_900)
        assert len(lines) == 1
        reminder.check(obstacle(NEW, Peers(all=PEERS)), 97_000)
    assert [line["waits_for"] for line in lines] == [[2], [1, 2]]
