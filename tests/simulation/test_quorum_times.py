"""Each time that can be set reaches the engine: a voter alone among scripted peers, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kraft.quorum.messages import Message, PreVoteRequest, VoteRequest
from tests.simulation.quorum_cluster import Shape, open_cluster
from tests.simulation.quorum_scripted import Stage, append, entry, stage

SHAPE = Shape(election_timeout_ms_min=200, election_timeout_ms_max=400)
LONG_FETCH = replace(SHAPE, fetch_timeout_ms=4_000)


def count(scene: Stage, kind: type[Message], seconds: float) -> int:
    """Return the number of such messages that the voter sends to voter 2 in that time."""
    scene.peers[2].inbox.clear()
    scene.cluster.run_for(seconds)
    return sum(isinstance(message, kind) for message in scene.peers[2].inbox)


def promise_nothing(scene: Stage) -> None:
    for peer in scene.peers.values():
        peer.promises = False


def test_a_follower_waits_for_its_leader_for_the_fetch_timeout() -> None:
    for shape, silent_s, asks_s in ((SHAPE, 0.19, 0.25), (LONG_FETCH, 1.9, 2.2)):
        with stage(shape=shape) as scene:
            promise_nothing(scene)
            scene.hears(2, append(1, (1, 0), entry(2, 1)))
            # The second append comes from the leader that it follows.
            scene.hears(2, append(1, (2, 1)))
            assert count(scene, PreVoteRequest, silent_s) == 0
            assert count(scene, PreVoteRequest, asks_s) > 0


def test_a_leader_goes_on_without_a_majority_for_the_fetch_timeout() -> None:
    for shape, leads_s, gone_s in ((SHAPE, 0.2, 0.3), (LONG_FETCH, 3.5, 0.6)):
        with stage(shape=shape) as scene:
            scene.is_elected_by(2)
            scene.cluster.run_for(leads_s)
            assert scene.quorum.engine.leading
            scene.cluster.run_for(gone_s)
            assert not scene.quorum.engine.leading


def test_a_candidate_stands_again_after_the_election_timeout_whatever_the_fetch_timeout() -> None:
    with stage(shape=LONG_FETCH) as scene:
        scene.stands_as_candidate()
        assert 4 <= count(scene, VoteRequest, 2.0) <= 11
    with stage(shape=replace(LONG_FETCH, election_timeout_ms_min=1_000, election_timeout_ms_max=2_000)) as scene:
        scene.stands_as_candidate()
        assert 1 <= count(scene, VoteRequest, 4.0) <= 4


def test_a_voter_that_finds_no_majority_asks_again_within_the_backoff() -> None:
    asked = []
    for backoff_ms_max in (0, 50):
        with stage(shape=replace(SHAPE, election_backoff_ms_max=backoff_ms_max)) as scene:
            promise_nothing(scene)
            scene.cluster.run_for(1.0)
            asked.append(count(scene, PreVoteRequest, 3.0))
    # Beats are 25 ms apart, so a pause ends at the next of them.
    assert 24 <= asked[0] <= 60
    assert 40 <= asked[1] <= 120
    assert asked[1] > asked[0] * 4 // 3


def test_proposals_wait_for_the_linger_time_and_share_a_sync() -> None:
    syncs = []
    for linger_ms in (0, 90):
        with open_cluster(Random(1), replace(SHAPE, voter_count=1, append_linger_ms=linger_ms)) as cluster:
            cluster.is_quiet = True
            cluster.start_all()
            cluster.run_for(1.0)
            voter = cluster.voters[1]
            before, reported = voter.quorum.journal.sync_count, len(cluster.history.payloads)
            for _ in range(5):
                voter.spawn(voter.propose(voter.quorum.term, 1.0))
                cluster.run_for(0.015)
            assert len(cluster.history.payloads) - reported == (0 if linger_ms else 5)
            cluster.run_for(0.2)
            assert len(cluster.history.payloads) - reported == 5
            assert cluster.history.acknowledged_count == 5
            syncs.append(voter.quorum.journal.sync_count - before)
    assert syncs == [5, 1]
