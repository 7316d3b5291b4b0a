"""Quorums that are formed by voters which hold copies of one log."""

from __future__ import annotations

import asyncio
from pathlib import Path

from structlog.testing import capture_logs

from kraft.quorum.command import NO_OP
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.journal import QuorumJournal, settle_membership
from kraft.quorum.membership import Membership
from kraft.runtime.disk import RealDisk
from tests.unit.quorum.loopback import DEADLINE_S, LoopbackCluster, propose

TERM = 4
SEVERAL_ELECTIONS_S = 4.0


def outside_of_quorums(directory: Path, node_id: int, *, entries: int) -> None:
    """Write a voter's journal as `kraft storage grow-quorum` and `format --from-controller` leave it."""
    journal = QuorumJournal(directory, RealDisk())
    if entries:
        journal.setCurrentTerm(TERM, 1)
    for index in range(1, entries + 1):
        journal.add(bytes([NO_OP]), index, TERM)
    journal.set_membership(Membership(node_id=node_id, incarnation=bytes([node_id]) * 16))
    journal.sync()
    journal.close()


async def formed(tmp_path: Path, *entries: int, wait_s: float) -> list[tuple[int, int]]:
    """Start voters with so many entries each; return term and commit index of each once there is a leader, or []."""
    for node_id, count in enumerate(entries, start=1):
        outside_of_quorums(tmp_path / str(node_id), node_id, entries=count)
    cluster = LoopbackCluster(tmp_path, len(entries))
    try:
        await cluster.start_all()
        try:
            async with asyncio.timeout(wait_s):
                await propose(await cluster.leader(), b"after the growth")
        except TimeoutError:
            return []
        return [(voter.quorum.term, voter.quorum.commit_index) for voter in cluster.voters.values()]
    finally:
        await cluster.stop_all()


def test_voters_with_equal_copies_form_a_quorum_that_has_everything(tmp_path: Path) -> None:
    states = asyncio.run(formed(tmp_path, 7, 7, 7, wait_s=DEADLINE_S))
    assert all(term > TERM for term, _ in states)
    # The entries of the old controller, and those of the new leader's term.
    assert max(commit_index for _, commit_index in states) > 7


def test_a_voter_with_a_stale_copy_or_none_forms_nothing_and_the_log_says_why(tmp_path: Path) -> None:
    with capture_logs() as events:
        assert asyncio.run(formed(tmp_path / "stale", 7, 6, 7, wait_s=SEVERAL_ELECTIONS_S)) == []
        assert asyncio.run(formed(tmp_path / "empty", 7, 0, 0, wait_s=SEVERAL_ELECTIONS_S)) == []
    said = [event for event in events if event["event"].startswith("quorum not formed: the metadata logs")]
    assert said
    assert all("--from-controller" in event["remedy"] for event in said)


def of_an_earlier_version(directory: Path) -> None:
    """Write a journal as versions without memberships did."""
    journal = QuorumJournal(directory, RealDisk())
    journal.setCurrentTerm(TERM, 1)
    for index in range(1, 8):
        # The engine begins every log with the same entry.
        journal.add(bytes([NO_OP]), index, TERM if index > 1 else 0)
    journal.sync()
    journal.close()


def reopened(directory: Path, *voters: int) -> list[Membership | None]:
    """Return the stored memberships of voters."""
    memberships = []
    for voter in voters:
        journal = QuorumJournal(directory / str(voter), RealDisk())
        memberships.append(journal.membership)
        journal.close()
    return memberships


async def upgraded(tmp_path: Path, *old: int, wait_s: float) -> bool:
    """Start three voters, of which some have journals of an earlier version; return whether there was a leader."""
    for node_id in old:
        of_an_earlier_version(tmp_path / str(node_id))
    cluster = LoopbackCluster(tmp_path, 3)
    try:
        await cluster.start_all()
        async with asyncio.timeout(wait_s):
            await propose(await cluster.leader(), b"after the upgrade")
            await cluster.until_all_told([b"after the upgrade"])
        return True
    except TimeoutError:
        return False
    finally:
        await cluster.stop_all()


def test_an_upgraded_controller_that_is_grown_in_the_same_start_can_go_back(tmp_path: Path) -> None:
    with capture_logs() as events:
        assert not asyncio.run(upgraded(tmp_path, 1, wait_s=SEVERAL_ELECTIONS_S))
    remedies = [event["remedy"] for event in events if event["event"].startswith("quorum not confirmed")]
    assert remedies
    assert all("grow-quorum" in remedy for remedy in remedies)
    first, *new = reopened(tmp_path, 1, 2, 3)
    assert first is None
    assert all(membership is not None and membership.is_new for membership in new)


def test_upgraded_controllers_confirm_their_quorum_and_a_lost_one_joins_it(tmp_path: Path) -> None:
    assert asyncio.run(upgraded(tmp_path, 1, 3, wait_s=DEADLINE_S))
    first, lost, third = reopened(tmp_path, 1, 2, 3)
    assert first is not None
    assert lost is not None
    assert third is not None
    assert first.founders == lost.founders == third.founders
    assert lost.incarnation != lost.founders[2]


def test_a_controller_that_left_its_quorum_and_is_alone_again_forms_one_by_itself(tmp_path: Path) -> None:
    outside_of_quorums(tmp_path, 1, entries=7)
    alone = QuorumConfig(
        node_id=1, cluster_id="c", voters={1: VoterAddress(host="localhost", port=9093)}, directory=tmp_path
    )
    journal = QuorumJournal(tmp_path, RealDisk())
    membership = settle_membership(journal, alone, lambda: b"x" * 16)
    journal.close()
    assert membership.founders == {1: bytes([1]) * 16}
    assert membership.may_vote_in(TERM + 1)
    reopened = QuorumJournal(tmp_path, RealDisk())
    reopened.close()
    assert reopened.membership == membership
