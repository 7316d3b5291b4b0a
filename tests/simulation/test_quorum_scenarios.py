"""Scenarios that a whole quorum must survive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random

import pytest

from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME
from kraft.quorum.messages import Message
from kraft.quorum.port import NotLeader, ProposalUnknown
from tests.simulation import quorum_weakened as weakened
from tests.simulation.quorum_cluster import Cluster, RunningVoter, Shape, open_cluster
from tests.simulation.quorum_invariants import Invariant, Violation
from tests.simulation.quorum_runs import heal
from tests.simulation.quorum_scripted import body
from tests.support.disks.sim_content import CrashMode, SyncFailure

JOURNAL = f"metadata/{DIRECTORY_NAME}/{FILE_NAME}"
LIMIT_S = 30.0


@contextmanager
def running(voter_count: int = 3, seed: int = 1) -> Iterator[Cluster]:
    with open_cluster(Random(seed), Shape(voter_count=voter_count)) as cluster:
        cluster.start_all()
        until_acknowledged(cluster, 5)
        yield cluster


def until_acknowledged(cluster: Cluster, more: int) -> None:
    goal = cluster.history.acknowledged_count + more
    assert cluster.run_until(lambda: cluster.history.acknowledged_count >= goal, LIMIT_S), "the quorum does not go on"


def leader_of(cluster: Cluster) -> RunningVoter:
    assert cluster.run_until(lambda: cluster.leader() is not None, LIMIT_S), "nobody leads"
    leader = cluster.leader()
    assert leader is not None
    return leader


def leads(voter: RunningVoter) -> bool:
    return voter.quorum.is_leader


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("voter_count", [1, 3, 5])
def test_all_voters_lose_power_at_once_and_nothing_acknowledged_is_lost(voter_count: int, mode: CrashMode) -> None:
    with running(voter_count) as cluster:
        for _ in range(5):
            for node_id in cluster.node_ids:
                cluster.kill(node_id, mode)
            cluster.start_all()
            until_acknowledged(cluster, 5)
        heal(cluster)


def damage_the_middle(cluster: Cluster, node_id: int) -> None:
    """Flip one bit of an entry that was committed long ago, while its voter is down."""
    cluster.kill(node_id)
    disk = cluster.disks[node_id]
    command = next(command for command, _, _ in cluster.history.committed.values() if len(command) > 40)
    position = disk.read_file(JOURNAL).index(command) + len(command) - 1
    disk.flip_bit(JOURNAL, position * 8)


def a_corrupt_voter_says_why_it_stops_and_never_sends_or_votes() -> None:
    with running() as cluster:
        damage_the_middle(cluster, node_id=2)
        spoke: list[Message] = []
        cluster.network.on_send = lambda sender, _receiver, message: spoke.append(message) if sender == 2 else None
        cluster.tolerated_failures.add(2)
        damaged = cluster.start(2)
        until_acknowledged(cluster, 5)
        assert damaged.failure is not None
        assert "quorum.journal at byte" in damaged.failure
        assert "2" not in map(str, cluster.voters)
        assert spoke == []


def test_a_voter_with_a_corrupt_journal_stops() -> None:
    a_corrupt_voter_says_why_it_stops_and_never_sends_or_votes()


def test_without_checksums_corruption_makes_voters_differ() -> None:
    with (
        weakened.believing_every_byte(),
        pytest.raises(Violation, match=f"{Invariant.COMMITTED_STAYS}: .* has another entry"),
    ):
        a_corrupt_voter_says_why_it_stops_and_never_sends_or_votes()


def test_an_isolated_leader_acknowledges_nothing_and_answers_no_barrier() -> None:
    with running() as cluster:
        old = leader_of(cluster)
        cluster.is_quiet = True
        cluster.run_for(0.3)
        committed, term = cluster.history.highest_committed, old.quorum.term
        cluster.network.isolate(old.life.node_id, cluster.node_ids)
        answers: list[int] = []

        async def ask() -> None:
            with suppress(NotLeader, ProposalUnknown):
                answers.append(await old.quorum.barrier(0.3))

        assert leads(old), "it does not know yet"
        old.spawn(ask())
        old.spawn(old.propose(old.quorum.term, 0.3))
        cluster.run_for(0.3)
        assert answers == []
        # The others may have elected another leader by now.
        later = [entry for index, entry in cluster.history.committed.items() if index > committed]
        assert all(entry_term > term for _, _, entry_term in later)
        cluster.is_quiet = False
        until_acknowledged(cluster, 5)
        cluster.run_for(1.0)
        assert not leads(old)
        heal(cluster)


def test_a_leader_that_was_frozen_acts_on_nothing_stale_when_it_wakes() -> None:
    with running() as cluster:
        old = leader_of(cluster)
        term = old.quorum.term
        cluster.freeze(old.life.node_id, 3.0)
        cluster.run_for(2.5)
        new = [voter for voter in cluster.voters.values() if voter.quorum.is_leader and voter is not old]
        assert len(new) == 1, "the others have gone on"
        assert new[0].quorum.term > term
        cluster.run_for(1.5)
        assert not leads(old)
        heal(cluster)


def a_payload_that_another_term_stores_counts_on_no_voter() -> None:
    with running() as cluster:
        leader = leader_of(cluster)
        payload = b"decided in another term"
        leader.context.run(leader.quorum.engine.append, body(payload, leader.quorum.term - 1))
        cluster.history.refused(payload)
        until_acknowledged(cluster, 5)
        heal(cluster)


def test_a_payload_that_another_term_stores_is_skipped() -> None:
    a_payload_that_another_term_stores_counts_on_no_voter()


def test_without_the_fence_such_a_payload_would_count() -> None:
    with weakened.applying_what_another_term_stored(), pytest.raises(Violation, match="was refused, but is committed"):
        a_payload_that_another_term_stores_counts_on_no_voter()


def what_a_single_voter_tells_when_its_sync_fails() -> list[bytes]:
    """It is a majority by itself as soon as it has an entry."""
    with running(voter_count=1) as cluster:
        cluster.tolerated_failures.add(1)
        cluster.is_quiet = True
        cluster.run_for(0.3)
        voter = leader_of(cluster)
        before = len(cluster.history.payloads)
        cluster.disks[1].fail_next_sync(SyncFailure.DROPS)
        voter.spawn(voter.propose(voter.quorum.term, 0.3))
        cluster.run_for(0.5)
        assert voter.failure is not None
        return cluster.history.payloads[before:]


def test_a_single_voter_tells_its_state_machine_nothing_that_is_not_on_its_disk() -> None:
    assert what_a_single_voter_tells_when_its_sync_fails() == []


def test_a_single_voter_that_counts_what_it_has_not_synced_tells_too_much() -> None:
    with weakened.counting_own_unsynced_entries(), pytest.raises(Violation, match=Invariant.REPORTED_IS_DURABLE):
        what_a_single_voter_tells_when_its_sync_fails()


def test_a_voter_that_was_away_for_long_is_brought_up_to_date() -> None:
    with running() as cluster:
        cluster.kill(3)
        until_acknowledged(cluster, 300)
        cluster.start(3)
        heal(cluster)


SLOW = Shape(append_batch_bytes=300, link_bytes_per_s=20_000, link_window_bytes=2_000)


def a_voter_far_behind_a_slow_link_is_brought_up_to_date_without_much_in_memory(entries_between_snapshots: int) -> None:
    shape = replace(SLOW, entries_between_snapshots=entries_between_snapshots)
    with open_cluster(Random(1), shape) as cluster:
        cluster.start_all()
        until_acknowledged(cluster, 5)
        leader = leader_of(cluster)
        behind = next(node_id for node_id in cluster.node_ids if node_id != leader.life.node_id)
        cluster.kill(behind)
        until_acknowledged(cluster, 300)
        cluster.is_quiet = True
        cluster.start(behind)
        assert cluster.run_until(cluster.are_equal, LIMIT_S)
        assert leader.quorum.is_leader
        # The last append and the messages besides appends may exceed the window.
        unsent_bytes_max = leader.quorum.links[behind].unsent_bytes_max
        assert unsent_bytes_max < 2 * SLOW.link_window_bytes, "too much waits in memory"


@pytest.mark.parametrize("entries_between_snapshots", [0, 20])
def test_a_voter_far_behind_a_slow_link_is_brought_up_to_date(entries_between_snapshots: int) -> None:
    a_voter_far_behind_a_slow_link_is_brought_up_to_date_without_much_in_memory(entries_between_snapshots)


def test_without_heed_of_the_window_all_that_it_lacks_waits_in_memory() -> None:
    with weakened.sending_without_end(), pytest.raises(AssertionError, match="too much waits in memory"):
        a_voter_far_behind_a_slow_link_is_brought_up_to_date_without_much_in_memory(0)


@pytest.mark.parametrize("seed", range(5))
def test_five_voters_in_a_ring_agree_on_a_leader_once_it_opens(seed: int) -> None:
    with running(voter_count=5, seed=seed) as cluster:
        nodes = cluster.node_ids
        for position, node in enumerate(nodes):
            neighbours = {node, nodes[position - 1], nodes[(position + 1) % 5]}
            cluster.network.isolate(node, set(nodes) - neighbours)
        cluster.run_for(3.0)
        heal(cluster)
