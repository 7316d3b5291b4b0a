from __future__ import annotations

from pathlib import Path

import pytest

from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.handshake import Greeting
from kraft.quorum.journal import QuorumJournal, settle_membership
from kraft.quorum.journal_segments import DIRECTORY_NAME, FILE_NAME
from kraft.quorum.membership import Membership, MembershipRefused, before_incarnations, quorum_id_of
from kraft.quorum.standing import Standing
from kraft.runtime.disk import RealDisk

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
FOUNDERS = {1: A, 2: B, 3: C}


def config(directory: Path, *voters: int, node_id: int = 1) -> QuorumConfig:
    addresses = {voter: VoterAddress(host="localhost", port=9000 + voter) for voter in voters or (1, 2, 3)}
    return QuorumConfig(node_id=node_id, cluster_id="test", voters=addresses, directory=directory)


def test_a_founder_may_vote_in_every_term() -> None:
    membership = Membership(node_id=1, incarnation=A).joining(FOUNDERS)
    assert (membership.is_new, membership.is_learner) == (False, False)
    assert membership.may_vote_in(1)


def test_another_incarnation_is_a_learner_until_it_is_admitted() -> None:
    membership = Membership(node_id=1, incarnation=B).joining(FOUNDERS)
    assert membership.is_learner
    assert not membership.may_vote_in(7)
    admitted = membership.admitted(7)
    assert not admitted.is_learner
    assert (admitted.may_vote_in(7), admitted.may_vote_in(8)) == (False, True)


def test_a_voter_of_no_quorum_may_not_vote() -> None:
    membership = Membership(node_id=1, incarnation=A)
    assert (membership.is_new, membership.is_learner, membership.quorum_id) == (True, False, b"")
    assert not membership.may_vote_in(1)


def test_the_founders_are_the_id_of_the_quorum() -> None:
    reordered = dict(reversed(FOUNDERS.items()))
    assert quorum_id_of(FOUNDERS) == quorum_id_of(reordered) != quorum_id_of({**FOUNDERS, 3: A})


def test_voters_of_a_version_without_memberships_find_the_same_quorum() -> None:
    one, two = (before_incarnations("test", voter, (1, 2, 3)) for voter in (1, 2))
    assert one.quorum_id == two.quorum_id != before_incarnations("other", 1, (1, 2, 3)).quorum_id
    assert one.incarnation != two.incarnation
    assert one.may_vote_in(1)


def test_the_membership_survives_restarts_trims_and_new_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft.quorum.journal_segments.SEGMENT_BYTES", 200)
    membership = Membership(node_id=1, incarnation=B).joining(FOUNDERS).admitted(4)
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.set_membership(membership)
    journal.setCurrentTerm(4, 2)
    for index in range(1, 30):
        journal.add(b"\1" + bytes(20), index, 4)
        journal.sync()
    journal.trim(25)
    path = journal.path
    journal.close()
    assert not (path.parent / "quorum.journal").exists(), "the segment in which it was written is gone"
    reopened = QuorumJournal(tmp_path, RealDisk())
    assert reopened.membership == membership
    assert (reopened.getCurrentTerm(), reopened.getVotedForNodeId()) == (4, 2)
    reopened.close()


@pytest.mark.parametrize(
    "membership", [Membership(node_id=3, incarnation=C), Membership(node_id=3, incarnation=C, founders=FOUNDERS)]
)
def test_each_membership_is_read_as_it_was_written(tmp_path: Path, membership: Membership) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.set_membership(membership)
    journal.sync()
    journal.close()
    reopened = QuorumJournal(tmp_path, RealDisk())
    assert reopened.membership == membership
    reopened.close()


def test_a_start_with_other_voters_than_the_quorum_was_formed_with_is_refused(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.set_membership(Membership(node_id=1, incarnation=A).joining({1: A}))
    with pytest.raises(MembershipRefused, match="names the nodes 1, 2, 3, but this node's quorum was formed with 1: "):
        settle_membership(journal, config(tmp_path), lambda: B)
    journal.close()


def test_the_journal_of_another_node_is_refused(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    settle_membership(journal, config(tmp_path, node_id=2), lambda: B)
    with pytest.raises(MembershipRefused, match="the metadata log of node 2, not of node 1"):
        settle_membership(journal, config(tmp_path), lambda: B)
    journal.close()


def test_an_empty_journal_belongs_to_no_quorum_and_keeps_its_incarnation(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    assert settle_membership(journal, config(tmp_path), lambda: A) == Membership(node_id=1, incarnation=A)
    journal.close()
    reopened = QuorumJournal(tmp_path, RealDisk())
    assert settle_membership(reopened, config(tmp_path), lambda: B).incarnation == A
    reopened.close()


def test_a_single_voter_forms_its_quorum_alone(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    assert settle_membership(journal, config(tmp_path, 1), lambda: A).may_vote_in(1)
    journal.close()


def test_a_journal_of_a_version_without_memberships_may_vote_with_the_configured_voters(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.setCurrentTerm(3, 2)
    membership = settle_membership(journal, config(tmp_path), lambda: A)
    assert membership == before_incarnations("test", 1, (1, 2, 3))
    stored = journal.membership
    assert stored is None, "it is not confirmed that voters 2 and 3 ever took part"
    alone = settle_membership(journal, config(tmp_path, 1), lambda: A)
    assert journal.membership == alone == before_incarnations("test", 1, (1,))
    with pytest.raises(MembershipRefused, match="was formed with 1: "):
        settle_membership(journal, config(tmp_path), lambda: A)
    journal.close()


# --- journals of the version before memberships ------------------------------------------------------------------


GOLDEN_2 = bytes.fromhex(
    "4b52414654514a0000000002e6f234a8f14b51460000003d9183ac0302000000000000000300000000000000010100000000000000010000"
    "000000000000000000010101000000000000000200000000000000030000000101f14b51460000001114624a9d0200000000000000040000"
    "000000000002"
)
"""A journal as format version 2 wrote it: the engine's first entry, one of term 3, and a vote for voter 2 in term 4."""

GOLDEN_FOUNDERS = {
    1: bytes.fromhex("7da76921b3fc52b9772759dcae0b2db6"),
    2: bytes.fromhex("910f21bf5f5a3152f9c938943fc7ccd9"),
    3: bytes.fromhex("ae249c77542c65873582f9a401f25ba9"),
}
"""What each voter of cluster `test` has to find, in every version from now on."""


def opened_golden(directory: Path) -> QuorumJournal:
    path = directory / DIRECTORY_NAME / FILE_NAME
    path.parent.mkdir()
    path.write_bytes(GOLDEN_2)
    journal = QuorumJournal(directory, RealDisk())
    assert (journal.last_index, journal.getCurrentTerm(), journal.getVotedForNodeId()) == (2, 4, 2)
    assert journal.membership is None
    return journal


def test_an_old_journal_alone_belongs_to_its_quorum_of_one_at_once(tmp_path: Path) -> None:
    journal = opened_golden(tmp_path)
    membership = settle_membership(journal, config(tmp_path, 1), lambda: C)
    journal.close()
    assert membership.founders == {1: GOLDEN_FOUNDERS[1]}
    assert membership.may_vote_in(5)
    reopened = QuorumJournal(tmp_path, RealDisk())
    reopened.close()
    assert (reopened.membership, reopened.getVotedForNodeId()) == (membership, 2)


def test_an_old_journal_of_three_votes_and_stores_its_founders_once_another_has_the_same(tmp_path: Path) -> None:
    journal = opened_golden(tmp_path)
    membership = settle_membership(journal, config(tmp_path), lambda: C)
    assert membership.founders == GOLDEN_FOUNDERS
    assert not membership.is_learner
    assert membership.may_vote_in(5)
    assert journal.membership is None
    standing = Standing(config(tmp_path), membership, journal, is_confirmed=False)
    standing.greeted(2, Greeting(process_id=B, incarnation=B))
    assert journal.membership is None
    assert standing.named_founders == {}
    standing.greeted(3, Greeting(process_id=C, incarnation=GOLDEN_FOUNDERS[3]))
    journal.sync()
    journal.close()
    reopened = QuorumJournal(tmp_path, RealDisk())
    reopened.close()
    assert reopened.membership == membership
    assert settle_membership(reopened, config(tmp_path), lambda: C) == membership
