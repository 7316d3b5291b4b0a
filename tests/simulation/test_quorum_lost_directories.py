"""A voter that lost its directory comes back as a learner, and votes again once that is safe.

Each scenario asserts its result. With the guard it passes; with the guard removed (`weakened`) it must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from kraft.quorum.journal import QuorumJournal
from kraft.quorum.membership import Membership, quorum_id_of
from kraft.quorum.messages import (
    Admission,
    AppendEntriesResponse,
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from tests.simulation import quorum_weakened as weakened
from tests.simulation.quorum_cluster import Cluster, RunningVoter, Shape, open_cluster
from tests.simulation.quorum_invariants import Invariant
from tests.simulation.quorum_runs import Tally, heal, notices, run
from tests.simulation.quorum_scripted import FOUNDERS, VOTER, Stage, acknowledged, append, entry, stage
from tests.simulation.quorum_weakened import Guard
from tests.support.disks.sim_content import CrashMode

SEEDS = 20
"""`tests.soak.quorum_seeds --lost-directories` takes others, and more."""
WEAKENED_SEEDS = 60
LIMIT_S = 30.0
TIMEOUT_S = 0.25
"""After this time without a leader, a voter votes."""
ANOTHER = bytes([77]) * 16

Scenario = Callable[[], None]


@contextmanager
def formed(voter_count: int = 3, shape: Shape | None = None) -> Iterator[Cluster]:
    """Open a quorum that has acknowledged something."""
    with open_cluster(Random(1), shape or Shape(voter_count=voter_count)) as cluster:
        cluster.start_all()
        assert cluster.run_until(lambda: cluster.history.acknowledged_count > 5, LIMIT_S)
        yield cluster


@contextmanager
def learner() -> Iterator[Stage]:
    """Voter 1 of three has lost its directory; the scripted voters have not."""
    with stage() as scene:
        scene.cluster.kill(VOTER)
        founders = {voter: FOUNDERS[voter] for voter in scene.cluster.node_ids}
        scene.cluster.lose_directory(VOTER)
        scene.becomes(Membership(node_id=VOTER, incarnation=ANOTHER).joining(founders))
        scene.start()
        yield scene


def membership_of(voter: RunningVoter) -> Membership:
    membership = voter.quorum.journal.membership
    assert membership is not None
    return membership


def counts(cluster: Cluster, node_id: int) -> bool:
    return cluster.history.disks[node_id].counts


def a_voter_that_lost_its_directory_gets_the_log_and_counts_again() -> None:
    with formed() as cluster:
        leader = cluster.leader()
        assert leader is not None
        lost = next(node_id for node_id in cluster.node_ids if node_id != leader.life.node_id)
        cluster.lose_directory(lost)
        cluster.start(lost)
        assert cluster.run_until(lambda: counts(cluster, lost), 3.0), "it never receives the log"
        other = next(node_id for node_id in cluster.node_ids if node_id not in (lost, leader.life.node_id))
        cluster.kill(other)
        before = cluster.history.acknowledged_count
        assert cluster.run_until(lambda: cluster.history.acknowledged_count > before, 2.0), "it does not count"


def a_learner_votes_for_nobody() -> None:
    """Its vote in that term may be given already: with both votes, two candidates lead in one term."""
    with learner() as scene:
        question = PreVoteRequest(term=5, last_log_index=7, last_log_term=4)
        candidate = VoteRequest(term=5, last_log_index=7, last_log_term=4)
        scene.cluster.run_for(TIMEOUT_S)
        assert scene.answer_to(2, question, PreVoteResponse) is None, "a learner promises its vote"
        assert scene.answer_to(2, candidate, VoteResponse) is None, "a learner votes"


def a_learner_never_asks_for_votes() -> None:
    with learner() as scene:
        scene.cluster.run_for(5.0)
        asked = [message for peer in scene.peers.values() for message in peer.inbox]
        assert not any(isinstance(message, PreVoteRequest | VoteRequest) for message in asked)
        assert scene.quorum.leader_id is None


def what_its_earlier_incarnation_was_granted_makes_no_candidate_of_a_learner() -> None:
    """Packets may be late. It would vote for itself in a term in which it may have voted for another."""
    with learner() as scene:
        founders = quorum_id_of({voter: FOUNDERS[voter] for voter in scene.cluster.node_ids})
        scene.cluster.run_for(TIMEOUT_S)
        for _ in range(20):
            for peer in scene.peers:
                scene.hears(peer, PreVoteResponse(term=1, granted=True, quorum_id=founders))
            scene.cluster.run_for(TIMEOUT_S / 10)
        asked = [message for peer in scene.peers.values() for message in peer.inbox]
        assert not any(isinstance(message, VoteRequest) for message in asked), "a learner votes for itself"


def what_a_learner_has_counts_for_nothing() -> None:
    """The entries that it acknowledged before are gone: with this one, a committed entry is on the leader alone."""
    with stage() as scene:
        term = scene.is_elected_by(2)
        scene.hears(2, AppendEntriesResponse(term=term, next_index=4, success=True, reset=False, is_learner=True))
        assert scene.quorum.commit_index == 1, "an entry is committed with a learner's disk"
        scene.hears(3, acknowledged(term, 3))
        assert scene.quorum.commit_index == 3


def a_learner_says_that_it_is_one() -> None:
    with learner() as scene:
        answer = scene.answer_to(2, append(1, (1, 0), entry(2, 1)), AppendEntriesResponse)
        assert answer is not None
        assert answer.success
        assert answer.is_learner, "the leader would count a learner"


def a_learner_is_admitted_by_an_entry_that_a_majority_without_it_stored_after_its_loss() -> None:
    """Otherwise a leader that the others have left, and do not tell, could admit it: with a vote in their term left."""
    with stage() as scene:
        term = scene.is_elected_by(2)
        last = scene.quorum.journal.last_index
        of_learner = AppendEntriesResponse(term=term, next_index=last + 1, success=True, reset=False, is_learner=True)
        assert Admission not in map(type, scene_hears(scene, 2, of_learner)), "admitted before the others were asked"
        scene.hears(3, acknowledged(term, last))
        assert scene.quorum.commit_index == last
        assert Admission not in map(type, scene_hears(scene, 2, of_learner)), "admitted before the others were asked"
        barrier = scene.quorum.journal.last_index
        assert barrier > last, "no entry was appended after the loss"
        of_learner = AppendEntriesResponse(
            term=term, next_index=barrier + 1, success=True, reset=False, is_learner=True
        )
        assert Admission not in map(type, scene_hears(scene, 2, of_learner)), "its own disk made the majority"
        scene.hears(3, acknowledged(term, barrier))
        assert Admission in map(type, scene_hears(scene, 2, of_learner)), "it stays a learner"


def scene_hears(scene: Stage, sender: int, message: AppendEntriesResponse) -> list[object]:
    scene.hears(sender, message)
    return list(scene.peers[sender].inbox)


def an_admitted_learner_votes_only_in_later_terms() -> None:
    """In the term of the admission it may have voted before."""
    with learner() as scene:
        scene.hears(2, append(4, (1, 0), entry(2, 4)))
        scene.hears(2, Admission(term=4, incarnation=ANOTHER))
        assert membership_of(scene.voter).admitted_after is not None
        assert scene.answer_to(2, append(4, (2, 4)), AppendEntriesResponse) == acknowledged(4, 2)
        for peer in scene.peers.values():
            peer.promises = False
        scene.restart(CrashMode.DROP)
        scene.cluster.run_for(TIMEOUT_S)
        assert scene.answer_to(3, VoteRequest(term=4, last_log_index=9, last_log_term=4), VoteResponse) is None, (
            "it votes in the term of its admission"
        )
        later = VoteRequest(term=5, last_log_index=9, last_log_term=4)
        assert scene.answer_to(3, later, VoteResponse) == VoteResponse(term=5)


def an_admission_of_another_term_or_incarnation_is_ignored() -> None:
    with learner() as scene:
        scene.hears(3, append(5, (1, 0), entry(2, 5)))
        scene.hears(2, Admission(term=4, incarnation=ANOTHER))
        scene.hears(3, Admission(term=5, incarnation=FOUNDERS[1]))
        assert membership_of(scene.voter).is_learner


def a_voter_that_comes_back_without_what_it_confirmed_is_told_to_become_a_learner() -> None:
    """Its journal is from a backup: the same incarnation, and older."""
    with formed() as cluster:
        leader = cluster.leader()
        assert leader is not None
        restored = next(node_id for node_id in cluster.node_ids if node_id != leader.life.node_id)
        directory = cluster.config(restored).directory
        membership, term = membership_of(cluster.voters[restored]), leader.quorum.term
        cluster.run_for(1.0)
        cluster.lose_directory(restored)
        journal = QuorumJournal(directory, cluster.disks[restored])
        journal.set_membership(membership)
        journal.setCurrentTerm(term, leader.life.node_id)
        journal.sync()
        journal.close()
        cluster.start(restored)
        until_learner = cluster.run_until(lambda: was_learner(cluster, restored), 2.0)
        assert until_learner, "it counts although it lost what it had acknowledged"
        heal(cluster)
        assert counts(cluster, restored)


def was_learner(cluster: Cluster, node_id: int) -> bool:
    voter = cluster.voters[node_id]
    return voter.is_open and membership_of(voter).is_learner


def two_voters_that_lost_their_directories_form_no_quorum_without_the_third() -> None:
    """The third one has what was committed."""
    with formed() as cluster:
        cluster.run_for(0.5)
        kept = cluster.node_ids[-1]
        cluster.kill(kept)
        for node_id in cluster.node_ids[:-1]:
            cluster.lose_directory(node_id)
            cluster.start(node_id)
        cluster.run_for(5.0)
        assert cluster.leader() is None, "two empty voters formed a quorum"
        cluster.start(kept)
        cluster.run_for(2.0)
        assert [membership_of(voter).is_learner for voter in cluster.voters.values()].count(True) == 2


SCENARIOS: list[tuple[Scenario, Guard, str]] = [
    (
        a_voter_that_lost_its_directory_gets_the_log_and_counts_again,
        weakened.remembering_the_place_of_another_incarnation,
        "it never receives the log",
    ),
    (a_learner_votes_for_nobody, weakened.voting_at_once, "a learner promises its vote"),
    (a_learner_says_that_it_is_one, weakened.counting_learners, "the leader would count a learner"),
    (
        a_learner_is_admitted_by_an_entry_that_a_majority_without_it_stored_after_its_loss,
        weakened.admitting_without_a_barrier,
        "admitted before the others were asked",
    ),
    (
        an_admitted_learner_votes_only_in_later_terms,
        weakened.voting_in_the_term_of_the_admission,
        "it votes in the term of its admission",
    ),
    (
        a_voter_that_comes_back_without_what_it_confirmed_is_told_to_become_a_learner,
        weakened.trusting_a_voter_that_comes_back_behind,
        "it counts although it lost",
    ),
    (
        two_voters_that_lost_their_directories_form_no_quorum_without_the_third,
        weakened.forming_by_a_majority,
        f"{Invariant.ONE_QUORUM}|two empty voters formed a quorum",
    ),
]
"""A scenario, the guard to remove, and the expected failure; no other failure counts."""

UNGUARDED: list[Scenario] = [
    a_learner_never_asks_for_votes,
    what_its_earlier_incarnation_was_granted_makes_no_candidate_of_a_learner,
    what_a_learner_has_counts_for_nothing,
    an_admission_of_another_term_or_incarnation_is_ignored,
]

NAMES = [f"{scenario.__name__}, {guard.__name__}" for scenario, guard, _ in SCENARIOS]


@pytest.mark.parametrize("scenario", dict.fromkeys([*(each[0] for each in SCENARIOS), *UNGUARDED]))
def test_a_lost_directory_costs_nothing_with_its_guard(scenario: Scenario) -> None:
    scenario()


@pytest.mark.parametrize(("story", "guard", "fault"), SCENARIOS, ids=NAMES)
def test_a_lost_directory_costs_something_without_its_guard(story: Scenario, guard: Guard, fault: str) -> None:
    with guard(), pytest.raises(AssertionError, match=fault):
        story()


@pytest.mark.slow
def test_every_voter_may_lose_its_directory_one_after_the_other() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed, lost_directories=True))
        except Exception as error:
            error.add_note(f"python -m tests.soak.quorum_seeds --lost-directories --first-seed {seed} --seeds 1")
            raise
    assert total.directories_lost > SEEDS, "runs that lose nothing show nothing"
    assert total.acknowledged > 50 * SEEDS


@pytest.mark.parametrize(
    ("guard", "invariant", "words", "first_seed"),
    [
        (weakened.voting_at_once, Invariant.LEARNERS_DO_NOT_VOTE, "", 0),
        (weakened.counting_learners, Invariant.COMMITTED_BY_A_MAJORITY, "", 0),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, words: str, first_seed: int) -> None:
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS), words, lost_directories=True)
