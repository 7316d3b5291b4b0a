from __future__ import annotations

from pathlib import Path

import pytest

from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.handshake import Greeting, VoterMismatch, greeting_in, hello
from kraft.quorum.membership import Membership, quorum_id_of
from kraft.quorum.messages import (
    AppendEntries,
    AppendEntriesResponse,
    PreVoteRequest,
    PreVoteResponse,
    QuorumIntroduction,
    VoteRequest,
)
from kraft.quorum.standing import Standing

A, B, C, OTHER = (bytes([number]) * 16 for number in (1, 2, 3, 9))
FOUNDERS = {1: A, 2: B, 3: C}
CONFIG = QuorumConfig(
    node_id=1,
    cluster_id="test",
    voters={voter: VoterAddress(host="localhost", port=9000 + voter) for voter in FOUNDERS},
    directory=Path("unused"),
)


class Store:
    def __init__(self) -> None:
        self.stored: list[Membership] = []

    def set_membership(self, membership: Membership) -> None:
        self.stored.append(membership)


def standing(membership: Membership | None = None) -> tuple[Standing, Store]:
    store = Store()
    return Standing(CONFIG, membership or Membership(node_id=1, incarnation=A), store), store


def new(incarnation: bytes) -> Greeting:
    return Greeting(process_id=incarnation, incarnation=incarnation)


def forming(founders: dict[int, bytes], sender: bytes = B) -> PreVoteRequest:
    return PreVoteRequest(term=1, last_log_index=1, last_log_term=0, incarnation=sender, founders=founders, forms=True)


def append(quorum_id: bytes) -> AppendEntries:
    return AppendEntries(term=1, previous_index=1, previous_term=0, entries=(), commit_index=1, quorum_id=quorum_id)


def test_a_quorum_is_proposed_once_all_voters_have_said_that_they_belong_to_none() -> None:
    own, store = standing()
    own.greeted(2, new(B))
    assert own.proposed_founders != FOUNDERS
    own.greeted(3, new(C))
    assert own.proposed_founders == FOUNDERS
    assert store.stored == []
    own.form()
    assert [each.founders for each in store.stored] == [FOUNDERS]
    assert own.membership.may_vote_in(1)


def test_only_a_quorum_of_exactly_the_known_incarnations_may_be_formed() -> None:
    own, _ = standing()
    own.greeted(2, new(B))
    assert not own.accepts(2, forming(FOUNDERS)), "voter 3 is not known yet"
    own.greeted(3, new(C))
    assert own.accepts(2, forming(FOUNDERS))
    assert not own.accepts(2, forming({**FOUNDERS, 3: OTHER}))
    assert not own.accepts(2, forming(FOUNDERS, sender=OTHER)), "a message of an earlier incarnation"
    assert own.accepts(3, PreVoteResponse(term=1, granted=True, quorum_id=quorum_id_of(FOUNDERS)))
    own.greeted(3, new(OTHER))
    assert not own.accepts(2, forming(FOUNDERS)), "voter 3 has lost its directory meanwhile"
    assert not own.accepts(3, PreVoteResponse(term=1, granted=True, quorum_id=quorum_id_of(FOUNDERS)))


def test_a_voter_of_no_quorum_joins_the_one_that_it_hears_of() -> None:
    for joins_by in ("greeting", "vote request", "introduction"):
        own, store = standing()
        own.greeted(3, new(C))
        if joins_by == "greeting":
            own.greeted(2, Greeting(incarnation=B, founders=FOUNDERS))
        else:
            own.greeted(2, new(B))
            assert not own.accepts(2, append(quorum_id_of(FOUNDERS))), "it does not belong to the quorum yet"
            request = VoteRequest(term=1, last_log_index=1, last_log_term=0, incarnation=B, founders=FOUNDERS)
            by = request if joins_by == "vote request" else QuorumIntroduction(incarnation=B, founders=FOUNDERS)
            assert own.accepts(2, by)
        assert [each.founders for each in store.stored] == [FOUNDERS], joins_by
        assert own.accepts(2, append(quorum_id_of(FOUNDERS)))


def test_a_voter_that_is_not_among_the_founders_joins_as_a_learner() -> None:
    own, _ = standing(Membership(node_id=1, incarnation=OTHER))
    own.greeted(2, Greeting(incarnation=B, founders=FOUNDERS))
    assert own.membership.is_learner
    own.admit(7)
    assert own.membership.may_vote_in(8)
    own.demote()
    assert not own.membership.may_vote_in(9)


def test_messages_of_another_quorum_or_an_earlier_incarnation_are_dropped() -> None:
    own, _ = standing(Membership(node_id=1, incarnation=A).joining(FOUNDERS))
    own.greeted(2, Greeting(incarnation=B, founders=FOUNDERS))
    others = {**FOUNDERS, 3: OTHER}
    assert not own.accepts(2, append(quorum_id_of(others)))
    assert not own.accepts(2, VoteRequest(term=9, last_log_index=9, last_log_term=9, incarnation=B, founders=others))
    assert not own.accepts(2, forming(others)), "it belongs to a quorum"
    late = AppendEntriesResponse(term=1, next_index=9, success=True, reset=False, incarnation=OTHER)
    assert not own.accepts(2, late)
    assert own.accepts(2, AppendEntriesResponse(term=1, next_index=9, success=True, reset=False, incarnation=B))


def test_two_quorums_of_one_cluster_refuse_each_other() -> None:
    ours = Greeting(incarnation=A, founders=FOUNDERS)
    theirs = hello(CONFIG, 2, Greeting(incarnation=OTHER, founders={**FOUNDERS, 1: OTHER})).hello
    with pytest.raises(VoterMismatch, match="belong to two quorums of cluster test, which do not mix: choose one"):
        greeting_in(CONFIG, theirs, ours)
    with pytest.raises(VoterMismatch, match=r"was formed with the nodes \[1, 2\], but controller.quorum.voters"):
        greeting_in(CONFIG, hello(CONFIG, 2, Greeting(incarnation=B, founders={1: A, 2: B})).hello, Greeting())
    same = hello(CONFIG, 2, Greeting(incarnation=OTHER, founders=FOUNDERS, is_learner=True, last_log_index=4)).hello
    assert greeting_in(CONFIG, same, ours) == Greeting(
        incarnation=OTHER, founders=FOUNDERS, is_learner=True, last_log_index=4
    )
