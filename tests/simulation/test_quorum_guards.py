"""Faults against which the engine has no guard of its own: they happen without Kraft's guard, and not with it.

Each scenario asserts its result. With the guard it passes; with the guard removed (`weakened`) it must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from kraft.quorum.messages import AppendEntries, AppendEntriesResponse, VoteRequest, VoteResponse
from tests.simulation import quorum_weakened as weakened
from tests.simulation.quorum_cluster import Shape
from tests.simulation.quorum_invariants import Invariant
from tests.simulation.quorum_scripted import Stage, acknowledged, append, body, entry, stage, whole_snapshot
from tests.simulation.quorum_weakened import Guard
from tests.support.disks.sim_content import CrashMode

Scenario = Callable[[], None]


def a_late_append_makes_a_follower_forget_nothing() -> None:
    with stage(voter_count=3) as scene:
        whole = append(1, (1, 0), entry(2, 1), entry(3, 1))
        assert scene.answer_to(2, whole, AppendEntriesResponse) == acknowledged(1, 3)
        scene.hears(2, append(1, (1, 0), entry(2, 1)))
        behind_us = VoteRequest(term=2, last_log_index=2, last_log_term=1)
        assert scene.log == [(1, 0), (2, 1), (3, 1)], "an acknowledged entry is forgotten"
        assert scene.answer_to(3, behind_us, VoteResponse) is None, "entry 3 may be committed, and voter 3 lacks it"


def an_acknowledgement_of_an_earlier_leadership_is_not_counted() -> None:
    """Voter 2 acknowledged entries 4 to 6 of term 1, lost them to a leader of term 2, and its answer arrives late."""
    with stage(voter_count=5) as scene:
        assert scene.is_elected_by(2, 3) == 1
        late = acknowledged(1, 6)
        assert scene.log == [(1, 0), (2, 1), (3, 1)]
        scene.hears(4, append(2, (1, 0), entry(2, 2)))
        assert scene.is_elected_by(3, 4) == 3
        while scene.quorum.journal.last_index < 6:
            scene.quorum.engine.append(body(b"after %d" % scene.quorum.journal.last_index, term=3))
            scene.cluster.run_for(0.05)
        scene.hears(2, late)
        scene.hears(3, acknowledged(3, 6))
        assert scene.quorum.commit_index == 1, "this voter and voter 3 are two of five"
        scene.hears(4, acknowledged(3, 6))
        assert scene.quorum.commit_index == 6


def a_voter_that_repeats_its_vote_makes_no_leader() -> None:
    with stage(voter_count=5) as scene:
        term = scene.stands_as_candidate()
        scene.hears(2, VoteResponse(term=term), VoteResponse(term=term))
        scene.hears(2, VoteResponse(term=term))
        assert not scene.quorum.engine.leading, "two of five voters made a leader"
        scene.hears(3, VoteResponse(term=term))
        assert scene.quorum.engine.leading


def an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """Figure 8 of the Raft paper: a leader of another term could still overwrite it."""
    with stage(voter_count=3) as scene:
        assert scene.is_elected_by(2) == 1
        scene.hears(3, append(2, (2, 1)))
        assert scene.is_elected_by(2) == 3
        assert scene.log[:4] == [(1, 0), (2, 1), (3, 1), (4, 3)]
        scene.hears(2, acknowledged(3, 3))
        assert scene.quorum.commit_index == 1, "an entry of an earlier term is committed by counting"
        scene.hears(2, acknowledged(3, 4))
        assert scene.quorum.commit_index == 4


def a_follower_commits_only_what_its_leader_has_shown_to_be_its_own() -> None:
    """Entry 3 is of a former leader; the new one has committed another entry 3, and sends only entry 2."""
    with stage(voter_count=3) as scene:
        scene.hears(2, append(1, (1, 0), entry(2, 1), entry(3, 1)))
        scene.hears(3, append(2, (2, 1), commit_index=3))
        assert scene.quorum.last_applied == 2, "an entry that its leader has not shown is committed"
        scene.hears(3, append(2, (2, 1), entry(3, 2), commit_index=3))
        assert scene.quorum.last_applied == 3
        assert scene.log == [(1, 0), (2, 1), (3, 2)]


def an_acknowledged_entry_outlives_a_power_failure() -> None:
    with stage(voter_count=3) as scene:
        assert scene.answer_to(2, append(1, (1, 0), entry(2, 1)), AppendEntriesResponse) == acknowledged(1, 2)
        scene.restart(CrashMode.DROP)
        assert scene.log == [(1, 0), (2, 1)]


def what_a_start_finds_is_durable_before_it_is_acknowledged() -> None:
    """The last process died between writing entry 2 and syncing it."""
    with stage(voter_count=3) as scene:
        disk = scene.cluster.disks[1]
        scene.cluster.power_losses = (CrashMode.KEEP,)
        disk.stop_at = disk.points + 2
        scene.hears(2, append(1, (1, 0), entry(2, 1)))
        assert disk.last_operation.startswith("sync")
        scene.start()
        assert scene.log == [(1, 0), (2, 1)]
        assert scene.answer_to(2, append(1, (2, 1)), AppendEntriesResponse) == acknowledged(1, 2)
        scene.restart(CrashMode.DROP)
        assert scene.log == [(1, 0), (2, 1)]


def a_voter_votes_once_in_a_term_whatever_becomes_of_it() -> None:
    with stage(voter_count=3) as scene:
        ask = VoteRequest(term=5, last_log_index=1, last_log_term=0)
        assert scene.answer_to(2, ask, VoteResponse) == VoteResponse(term=5)
        scene.restart(CrashMode.DROP)
        for peer in scene.peers.values():
            peer.promises = False
        # Until then it does not vote.
        scene.cluster.run_for(scene.cluster.shape.election_timeout_ms_min / 1000)
        assert scene.answer_to(3, ask, VoteResponse) is None


def a_torn_tail_is_cut_off_and_the_journal_goes_on() -> None:
    with stage(voter_count=3) as scene:
        disk = scene.cluster.disks[1]
        scene.cluster.power_losses = (CrashMode.TEAR,)
        disk.stop_at = disk.points + 2
        scene.hears(2, append(1, (1, 0), entry(2, 1, padding=2000)))
        scene.start()
        assert scene.log == [(1, 0)]
        for index in (2, 3):
            scene.hears(2, append(1, (index - 1, min(index - 2, 1)), entry(index, 1)))
        scene.restart(CrashMode.DROP)
        assert scene.log == [(1, 0), (2, 1), (3, 1)]


def one_gap_is_filled_once_however_many_appends_it_makes_a_follower_refuse() -> None:
    with stage(voter_count=3) as scene:
        term = scene.is_elected_by(2)
        scene.hears(2)
        refusal = AppendEntriesResponse(term=term, next_index=2, success=False, reset=True)
        for _ in range(50):
            scene.cluster.network.send(2, 1, [refusal])
        scene.cluster.run_for(0.02)
        resent = [message for message in scene.peers[2].inbox if isinstance(message, AppendEntries) and message.entries]
        assert len(resent) <= 2, "one gap is filled again and again"


def a_voter_that_loses_power_while_it_installs_a_snapshot_starts_again() -> None:
    """The snapshot is the first message of a leader in term 5. The power fails once at every point of the disk."""
    snapshot = whole_snapshot(5, index=10, index_term=5)
    for point in count(1):
        with stage(shape=Shape(entries_between_snapshots=1_000)) as scene:
            scene.knows(snapshot)
            scene.hears(2, append(1, (1, 0), entry(2, 1)))
            disk = scene.cluster.disks[1]
            scene.cluster.power_losses = (CrashMode.DROP,)
            disk.stop_at = disk.points + point
            scene.hears(2, snapshot)
            if scene.cluster.voters:
                assert scene.quorum.last_applied == 10
                return
            scene.start()
            assert (scene.quorum.term, scene.quorum.last_applied) in ((1, 1), (5, 1), (5, 10))
            assert scene.answer_to(3, snapshot, AppendEntriesResponse) == acknowledged(5, 10)


def a_voter_that_loses_power_while_a_snapshot_waits_for_its_writes_starts_again() -> None:
    """Entry 3 is being written when the snapshot arrives, the first message of a leader in term 5."""
    snapshot = whole_snapshot(5, index=10, index_term=5)
    for point in count(1):
        with stage(shape=Shape(entries_between_snapshots=1_000)) as scene:
            scene.knows(snapshot)
            scene.hears(2, append(1, (1, 0), entry(2, 1)))
            scene.voter.journal_thread.be_busy_for(0.1)
            scene.hears(2, append(1, (2, 1), entry(3, 1)))
            scene.hears(2, snapshot)
            assert (scene.quorum.journal.synced_index, scene.voter.keeper.kept_count) == (2, 0)
            disk = scene.cluster.disks[1]
            scene.cluster.power_losses = (CrashMode.DROP,)
            disk.stop_at = disk.points + point
            scene.cluster.run_for(0.1)
            if scene.cluster.voters:
                assert (scene.quorum.term, scene.quorum.last_applied) == (5, 10)
                return
            scene.start()
            assert (scene.quorum.term, scene.quorum.last_applied) in ((1, 1), (5, 1), (5, 10))
            assert scene.answer_to(3, snapshot, AppendEntriesResponse) == acknowledged(5, 10)


def a_snapshot_of_what_is_applied_is_not_installed() -> None:
    """It is late: later entries are committed and applied."""
    with stage(shape=Shape(entries_between_snapshots=1_000)) as scene:
        scene.hears(2, append(1, (1, 0), entry(2, 1), entry(3, 1), commit_index=3))
        for index in (2, 3):
            snapshot = whole_snapshot(1, index=index, index_term=1)
            assert scene.answer_to(2, snapshot, AppendEntriesResponse) == acknowledged(1, index)
        assert scene.voter.keeper.kept_count == 0, "a snapshot of what is applied is taken"
        assert (scene.quorum.last_applied, scene.log) == (3, [(1, 0), (2, 1), (3, 1)])


def a_snapshot_of_what_is_applied_meanwhile_is_not_installed() -> None:
    """While it is written, its entries and later ones arrive."""
    with stage(shape=Shape(entries_between_snapshots=1_000)) as scene:
        scene.voter.snapshot_thread.be_busy_for(0.1)
        scene.hears(2, append(1, (1, 0), entry(2, 1)), whole_snapshot(1, index=3, index_term=1))
        scene.hears(2, append(1, (2, 1), entry(3, 1), entry(4, 1), commit_index=4))
        assert (scene.quorum.last_applied, scene.voter.keeper.kept_count) == (4, 0)
        scene.cluster.run_for(0.12)
        assert (scene.voter.keeper.kept_count, scene.cluster.history.installed_count) == (1, 0)
        assert (scene.quorum.last_applied, scene.log) == (4, [(1, 0), (2, 1), (3, 1), (4, 1)])


def what_a_voter_says_while_it_writes_waits_for_the_next_write() -> None:
    """Entry 2 is being written when entry 3 arrives."""
    with stage(voter_count=3) as scene:
        scene.voter.journal_thread.be_busy_for(0.05)
        scene.hears(2, append(1, (1, 0), entry(2, 1)))
        scene.hears(2, append(1, (2, 1), entry(3, 1)))
        assert (scene.quorum.journal.synced_index, scene.peers[2].inbox) == (1, [])
        scene.cluster.run_for(0.1)
        assert scene.quorum.journal.synced_index == 3


def what_was_cut_off_is_acknowledged_to_nobody() -> None:
    """Entry 3 is being written when a leader of a later term replaces it."""
    with stage(voter_count=3) as scene:
        scene.hears(2, append(1, (1, 0), entry(2, 1)))
        scene.voter.journal_thread.be_busy_for(0.05)
        scene.hears(2, append(1, (2, 1), entry(3, 1)))
        scene.hears(3, append(2, (2, 1)))
        scene.hears(3, append(2, (1, 0), entry(2, 2)))
        scene.cluster.run_for(0.1)
        assert scene.log == [(1, 0), (2, 2)]


def leads_alone_with_the_second_of_two_entries_held_up(scene: Stage) -> int:
    """Lead alone with two entries, of which the second arrived during the write of the first; return its index."""
    scene.leads_alone()
    disk, thread = scene.cluster.disks[1], scene.voter.journal_thread
    thread.be_busy_for(0.05)
    scene.is_asked_for_an_entry()
    scene.is_asked_for_an_entry()
    scene.cluster.run_for(0.04)
    second, points = scene.quorum.journal.last_index, disk.points
    assert (scene.quorum.commit_index, scene.quorum.journal.synced_index) == (second, second - 2)
    assert (scene.quorum.last_applied, scene.cluster.history.acknowledged_count) == (second - 2, 0)
    assert scene.cluster.run_until(lambda: disk.points > points, 0.02), "the first one is not written"
    thread.be_busy_for(0.05)
    scene.cluster.run_for(0.04)
    return second


def a_single_voter_tells_and_acknowledges_what_is_on_its_disk() -> None:
    """It is a majority by itself as soon as it has an entry."""
    with stage(voter_count=1) as scene:
        second = leads_alone_with_the_second_of_two_entries_held_up(scene)
        history = scene.cluster.history
        assert (scene.quorum.commit_index, scene.quorum.journal.synced_index) == (second, second - 1)
        assert (scene.quorum.last_applied, history.acknowledged_count) == (second - 1, 1)
        scene.cluster.run_for(0.02)
        assert (scene.quorum.last_applied, history.acknowledged_count) == (second, 2)


def a_single_voter_that_loses_power_while_it_writes_keeps_what_it_acknowledged() -> None:
    with stage(voter_count=1) as scene:
        second = leads_alone_with_the_second_of_two_entries_held_up(scene)
        log = scene.log
        scene.restart(CrashMode.DROP)
        # It leads again at once, and adds entries of its new term.
        assert scene.log[: len(log) - 1] == log[:-1]
        assert log[-1] not in scene.log, "the second one was not held up"
        assert scene.cluster.history.highest_acknowledged == second - 1, "an acknowledged entry is lost"
        scene.leads_alone()
        scene.cluster.history.check_end()


ON_DISK = f"{Invariant.ACKNOWLEDGED_IS_DURABLE}: voter 1 acknowledges entry 2"
REPORTED_TOO_EARLY = f"{Invariant.REPORTED_IS_DURABLE}: voter 1 reports entry 5"
FORGETFUL = f"{Invariant.NOTHING_GOES_BACK}: voter 1 goes back from term"
GIVES_UP = f"{Invariant.VOTERS_GO_ON}: voter 1 stopped: Corruption: "

SCENARIOS: list[tuple[Scenario, Guard, str]] = [
    (
        a_late_append_makes_a_follower_forget_nothing,
        weakened.truncating_behind_every_append,
        "an acknowledged entry is forgotten",
    ),
    (
        an_acknowledgement_of_an_earlier_leadership_is_not_counted,
        weakened.counting_late_acknowledgements,
        "this voter and voter 3 are two of five",
    ),
    (a_voter_that_repeats_its_vote_makes_no_leader, weakened.counting_votes_twice, "two of five voters made a leader"),
    (
        an_entry_of_an_earlier_term_is_not_committed_by_counting,
        weakened.committing_earlier_terms,
        "an entry of an earlier term is committed by counting",
    ),
    (
        a_follower_commits_only_what_its_leader_has_shown_to_be_its_own,
        weakened.believing_unproved_commits,
        "an entry that its leader has not shown is committed",
    ),
    (an_acknowledged_entry_outlives_a_power_failure, weakened.never_syncing, FORGETFUL),
    (an_acknowledged_entry_outlives_a_power_failure, weakened.speaking_before_the_sync, ON_DISK),
    (what_a_start_finds_is_durable_before_it_is_acknowledged, weakened.believing_unsynced_journals, FORGETFUL),
    (a_voter_votes_once_in_a_term_whatever_becomes_of_it, weakened.forgetting_votes, FORGETFUL),
    (
        a_voter_votes_once_in_a_term_whatever_becomes_of_it,
        weakened.forgetting_whom_it_voted_for,
        f"{Invariant.ONE_VOTE}: voter 1 votes twice in term 5",
    ),
    (a_torn_tail_is_cut_off_and_the_journal_goes_on, weakened.leaving_torn_tails, GIVES_UP + ".* a later frame"),
    (
        a_voter_that_loses_power_while_it_installs_a_snapshot_starts_again,
        weakened.installing_snapshots_beside_an_unwritten_term,
        GIVES_UP + ".*the journal was lost, and with it this voter.s vote",
    ),
    (
        a_voter_that_loses_power_while_a_snapshot_waits_for_its_writes_starts_again,
        weakened.installing_snapshots_with_the_write_before,
        GIVES_UP + ".*the journal was lost, and with it this voter.s vote",
    ),
    (
        a_snapshot_of_what_is_applied_is_not_installed,
        weakened.installing_snapshots_of_the_past,
        "a snapshot of what is applied is taken",
    ),
    (
        a_snapshot_of_what_is_applied_meanwhile_is_not_installed,
        weakened.taking_over_snapshots_of_the_past,
        f"{Invariant.NOTHING_GOES_BACK}: voter 1 goes back to a snapshot at entry 3",
    ),
    (
        what_a_voter_says_while_it_writes_waits_for_the_next_write,
        weakened.releasing_with_the_write_before,
        f"{Invariant.ACKNOWLEDGED_IS_DURABLE}: voter 1 acknowledges entry 3",
    ),
    (
        what_was_cut_off_is_acknowledged_to_nobody,
        weakened.acknowledging_what_was_cut_off,
        f"{Invariant.ACKNOWLEDGED_IS_DURABLE}: voter 1 acknowledges entry 3",
    ),
    (
        a_single_voter_tells_and_acknowledges_what_is_on_its_disk,
        weakened.telling_with_the_write_before,
        REPORTED_TOO_EARLY,
    ),
    (
        a_single_voter_that_loses_power_while_it_writes_keeps_what_it_acknowledged,
        weakened.telling_with_the_write_before,
        REPORTED_TOO_EARLY,
    ),
    (
        one_gap_is_filled_once_however_many_appends_it_makes_a_follower_refuse,
        weakened.resending_at_every_refusal,
        "one gap is filled again and again",
    ),
]
"""A scenario, the guard to remove, and the expected failure; no other failure counts."""

NAMES = [f"{scenario.__name__}, {guard.__name__}" for scenario, guard, _ in SCENARIOS]


@pytest.mark.parametrize("scenario", dict.fromkeys(scenario for scenario, _, _ in SCENARIOS))
def test_with_its_guard_the_quorum_is_safe(scenario: Scenario) -> None:
    scenario()


@pytest.mark.parametrize(("scenario", "guard", "fault"), SCENARIOS, ids=NAMES)
def test_without_its_guard_the_fault_is_there(scenario: Scenario, guard: Guard, fault: str) -> None:
    with guard(), pytest.raises(AssertionError, match=fault):
        scenario()
