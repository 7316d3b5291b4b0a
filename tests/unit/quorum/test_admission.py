from __future__ import annotations

import pytest

from kraft.quorum.admission import Learners
from kraft.quorum.filters import Acknowledgements
from kraft.quorum.handshake import Greeting
from kraft.quorum.messages import AppendEntriesResponse

A, B = bytes([1]) * 16, bytes([2]) * 16
TERM = 4


class Engine:
    """Leads in its term, and records whose acknowledgements it was told to forget."""

    raftCurrentTerm = TERM  # noqa: N815  The engine's names.
    raftLastApplied = 1  # noqa: N815
    raftCommitIndex = 1  # noqa: N815
    leading = True

    def __init__(self) -> None:
        self.forgotten: list[int] = []

    def campaign_now(self) -> None: ...

    def forget_acknowledgements(self, voter: int) -> None:
        self.forgotten.append(voter)


class Leader:
    def __init__(self) -> None:
        self.engine = Engine()
        self.acknowledgements = Acknowledgements()
        self.acknowledgements.begin(TERM)
        self.learners = Learners(self.acknowledgements)

    def acknowledges(self, index: int, *, is_learner: bool) -> AppendEntriesResponse | None:
        response = AppendEntriesResponse(
            term=TERM, next_index=index + 1, success=True, reset=False, is_learner=is_learner
        )
        return self.acknowledgements.admit(2, response, last_index=100, now_ms=0)

    def is_greeted(self, earlier: Greeting, greeting: Greeting) -> None:
        self.learners.greeted_again(self.engine, 2, earlier, greeting)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def greeting(
    process: bytes, last_log_index: int, *, incarnation: bytes = A, is_learner: bool = False, term: int = TERM
) -> Greeting:
    return Greeting(
        process_id=process,
        incarnation=incarnation,
        is_learner=is_learner,
        term=term,
        last_log_index=last_log_index,
    )


def test_the_acknowledgements_of_a_learner_only_move_its_place(leader: Leader) -> None:
    first, again = leader.acknowledges(7, is_learner=True), leader.acknowledges(7, is_learner=True)
    assert first is not None
    assert again is not None
    assert (first.success, first.reset) == (False, True)
    assert (again.success, again.reset) == (False, False)
    voters = leader.acknowledges(8, is_learner=False)
    assert voters is not None
    assert voters.success


def test_a_learner_is_admitted_once_it_holds_its_barrier_and_that_is_committed(leader: Leader) -> None:
    assert leader.learners.needs_barrier(2, last_index=50)
    assert not leader.learners.needs_barrier(2, last_index=60)
    leader.acknowledges(50, is_learner=True)
    assert not leader.learners.may_vote(2, commit_index=60)
    leader.acknowledges(51, is_learner=True)
    assert not leader.learners.may_vote(2, commit_index=50)
    assert leader.learners.may_vote(2, commit_index=51)


def test_the_place_of_another_incarnation_is_found_anew(leader: Leader) -> None:
    leader.acknowledges(40, is_learner=False)
    leader.is_greeted(greeting(b"1", 40), greeting(b"2", 1, incarnation=B))
    assert (leader.acknowledgements.match_index(2), leader.engine.forgotten) == (-1, [2])
    assert not leader.learners.must_become_learner(2, B)


def test_a_new_process_without_what_the_earlier_one_confirmed_must_become_a_learner(leader: Leader) -> None:
    leader.acknowledges(40, is_learner=False)
    leader.is_greeted(greeting(b"1", 40), greeting(b"1", 39))
    leader.is_greeted(greeting(b"1", 40), greeting(b"2", 40))
    assert leader.engine.forgotten == [], "the same process, and one that lacks nothing"
    leader.is_greeted(greeting(b"1", 40), greeting(b"2", 39))
    assert (leader.acknowledgements.match_index(2), leader.engine.forgotten) == (-1, [2])
    assert leader.learners.must_become_learner(2, A)


def test_what_a_later_leader_truncated_is_not_lost(leader: Leader) -> None:
    """The voter confirmed it to this leader, followed another one, and is greeted before this one knows."""
    leader.acknowledges(7, is_learner=False)
    leader.is_greeted(greeting(b"1", 7), greeting(b"2", 5, term=TERM + 1))
    assert not leader.learners.must_become_learner(2, A)
    assert not leader.engine.forgotten


def test_a_voter_that_was_demoted_and_admitted_stays_admitted(leader: Leader) -> None:
    leader.acknowledges(40, is_learner=False)
    leader.is_greeted(greeting(b"1", 40), greeting(b"2", 39))
    assert leader.learners.must_become_learner(2, A)
    assert leader.learners.needs_barrier(2, last_index=50), "its first response as a learner"
    leader.acknowledges(51, is_learner=True)
    assert leader.learners.may_vote(2, commit_index=51)
    assert not leader.learners.must_become_learner(2, A), "its responses as a voter count again"


def test_a_learner_that_comes_back_behind_must_get_its_entries_again(leader: Leader) -> None:
    leader.learners.needs_barrier(2, last_index=50)
    leader.acknowledges(51, is_learner=True)
    leader.is_greeted(greeting(b"1", 51, is_learner=True), greeting(b"2", 30, is_learner=True))
    assert leader.learners.needs_barrier(2, last_index=60)
    assert not leader.learners.may_vote(2, commit_index=61)
    assert not leader.learners.must_become_learner(2, A)
