from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from kraft.metadata.features import UnsupportedFeatureLevel
from kraft.model.errors import ErrorCode
from kraft.quorum import engine, peer_link
from kraft.quorum.command import CommandKind
from kraft.quorum.messages import AppendEntries, AppendEntriesResponse, Message
from kraft.quorum.peer_link import PeerLink
from kraft.quorum.port import NotLeader, PayloadTooLarge, ProposalUnknown
from kraft.quorum.snapshots import Snapshot, SnapshotId
from tests.unit.quorum.loopback import DEADLINE_S, LoopbackCluster, propose, running_cluster, until

Scene = Callable[[LoopbackCluster], Awaitable[None]]


def play(directory: Path, scene: Scene, voter_count: int = 3) -> None:
    async def run() -> None:
        async with running_cluster(directory, voter_count) as cluster:
            await scene(cluster)

    asyncio.run(run())


def test_three_voters_elect_one_leader_and_tell_all_the_same_in_the_same_order(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        payloads = [f"payload {number}".encode() for number in range(50)]
        indexes = await asyncio.gather(*(propose(leader, payload) for payload in payloads))
        assert indexes == sorted(set(indexes))
        await cluster.until_all_told(payloads)
        assert all(voter.listener.indexes == indexes for voter in cluster.voters.values())
        assert [voter.quorum.leader_id for voter in cluster.voters.values()] == [leader.config.node_id] * 3
        assert sum(voter.quorum.is_leader for voter in cluster.voters.values()) == 1

    play(tmp_path, scene)


def test_a_single_voter_leads_itself_and_remembers(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        await propose(await cluster.leader(), b"alone")
        await cluster.stop(1)
        again = await cluster.start(1)
        await until(lambda: again.quorum.is_leader)
        assert again.listener.payloads == [b"alone"]

    play(tmp_path, scene, voter_count=1)


def test_a_proposal_is_answered_only_after_the_leaders_own_listener_got_it(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        for number in range(5):
            index = await propose(leader, b"%d" % number)
            assert leader.listener.indexes[-1] == index
            assert leader.quorum.last_applied >= index
        # Its barrier at the beginning is no proposal.
        assert leader.quorum.counts.commits == 5
        assert leader.quorum.counts.commit_s > 0
        for voter in cluster.voters.values():
            counts = voter.quorum.counts
            assert min(counts.sent_bytes, counts.received_bytes) > 0
            assert min(counts.requests_sent, counts.responses_received) > 0 or voter is not leader
            assert voter.quorum.describe().voted_for in (leader.config.node_id, None)
        assert leader.quorum.describe().voted_for == leader.config.node_id

    play(tmp_path, scene)


def test_when_the_leader_stops_another_leads_and_the_returning_one_catches_up(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        first = await cluster.leader()
        await propose(first, b"before")
        first_term = first.quorum.term
        await cluster.stop(first.config.node_id)
        second = await cluster.leader()
        assert second.quorum.term > first_term
        await propose(second, b"without the first")
        await cluster.start(first.config.node_id)
        await cluster.until_all_told([b"before", b"without the first"])

    play(tmp_path, scene)


def test_after_all_stopped_every_payload_is_reported_again_before_leadership_is(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        payloads = [b"%d" % number for number in range(20)]
        for payload in payloads:
            await propose(leader, payload)
        await cluster.stop_all()
        await cluster.start_all()
        leader = await cluster.leader()
        assert leader.listener.events == [*payloads, leader.quorum.term]
        await cluster.until_all_told(payloads)

    play(tmp_path, scene)


def test_an_isolated_leader_commits_nothing_steps_down_and_forgets_what_it_wrote_alone(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        stale = await cluster.leader()
        await propose(stale, b"common")
        stale_id = stale.config.node_id
        others = [node_id for node_id in cluster.voters if node_id != stale_id]
        cluster.isolate(stale_id)
        with pytest.raises(ProposalUnknown):
            await propose(stale, b"written alone")
        assert not stale.quorum.is_leader
        assert stale.listener.events[-1] is None
        fresh = await cluster.leader(among=others)
        await propose(fresh, b"agreed on")
        assert stale.listener.payloads == [b"common"]
        cluster.heal()
        await cluster.until_all_told([b"common", b"agreed on"])
        assert all(not voter.fatal_reasons for voter in cluster.voters.values())

    play(tmp_path, scene)


def test_a_barrier_fails_on_an_isolated_leader_that_still_believes_to_lead(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        index = await propose(leader, b"something")
        assert await leader.quorum.barrier(DEADLINE_S) > index
        assert leader.listener.events.count(leader.quorum.term) == 1, "its leadership is announced once"
        cluster.isolate(leader.config.node_id)
        assert leader.quorum.is_leader
        with pytest.raises(ProposalUnknown):
            await leader.quorum.barrier(0.1)

    play(tmp_path, scene)


def test_a_payload_decided_in_another_term_than_it_is_stored_in_is_void_everywhere(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        with pytest.raises(NotLeader, match="so it was dropped"):
            # The port refuses this at once, so the race behind the refusal is entered behind the port.
            await leader.quorum._submit(CommandKind.PAYLOAD, b"late", leader.quorum.term - 1, DEADLINE_S)
        await propose(leader, b"in time")
        await cluster.until_all_told([b"in time"])

    play(tmp_path, scene)


def test_followers_stale_terms_and_large_payloads_are_refused(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        follower = next(voter for voter in cluster.voters.values() if voter is not leader)
        await until(lambda: follower.quorum.leader_id == leader.config.node_id)
        with pytest.raises(NotLeader) as refusal:
            await propose(follower, b"not here")
        assert refusal.value.leader_id == leader.config.node_id
        assert refusal.value.error_code is ErrorCode.NOT_CONTROLLER
        committed = leader.quorum.commit_index
        with pytest.raises(NotLeader):
            await leader.quorum.propose(b"not now", leader.quorum.term + 1, DEADLINE_S)
        assert leader.quorum.commit_index == committed, "it was refused before it was appended"
        with pytest.raises(PayloadTooLarge):
            await propose(leader, bytes(leader.config.payload_bytes_max + 1))
        largest = bytes(leader.config.payload_bytes_max)
        await propose(leader, largest)
        await cluster.until_all_told([largest])

    play(tmp_path, scene)


def test_the_leader_describes_every_voter(tmp_path: Path) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        index = await propose(leader, b"something")
        await until(lambda: all(voter.match_index >= index for voter in leader.quorum.describe().voters))
        status = leader.quorum.describe()
        assert status.leader_id == leader.config.node_id
        assert status.commit_index >= index
        assert [voter.node_id for voter in status.voters] == [1, 2, 3]
        assert all(0 <= voter.heard_ms_ago < 1000 for voter in status.voters)
        assert all(voter.heard_ms_ago <= status.running_ms for voter in status.voters)

    play(tmp_path, scene)


def test_entries_leave_a_voter_and_are_acknowledged_only_once_they_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = PeerLink.send
    sync = os.fdatasync
    sent_unsynced: list[Message] = []
    last_sent = 0

    def slow_disk(file: int) -> None:
        # Long enough for more to be proposed while it lasts.
        time.sleep(0.005)
        sync(file)

    async def scene(cluster: LoopbackCluster) -> None:
        def checked_send(link: PeerLink, messages: list[Message]) -> None:
            nonlocal last_sent
            parts = cluster.voters[link._config.node_id].quorum._parts
            assert parts is not None
            sent_unsynced.extend(each for each in messages if _last_index(each) > parts.journal.synced_index)
            last_sent = max(last_sent, *map(_last_index, messages))
            send(link, messages)

        monkeypatch.setattr(PeerLink, "send", checked_send)
        monkeypatch.setattr(os, "fdatasync", slow_disk)
        leader = await cluster.leader()

        async def propose_later(number: int) -> None:
            # One after the other, so that most are proposed while a write is under way.
            await asyncio.sleep(number / 1_000)
            await propose(leader, b"%d" % number)

        await asyncio.gather(*map(propose_later, range(100)))

    play(tmp_path, scene)
    assert last_sent >= 100
    assert sent_unsynced == []


def _last_index(message: Message) -> int:
    """Return the last entry that the sender of the message claims to have on its disk."""
    match message:
        case AppendEntries(entries=entries, previous_index=previous_index):
            return previous_index + len(entries)
        case AppendEntriesResponse(success=True, next_index=next_index):
            return next_index - 1
        case _:
            return 0


def test_a_failing_sync_silences_the_voter_and_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_disk(_file: int) -> None:
        raise OSError(5, "Input/output error")

    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        monkeypatch.setattr(os, "fdatasync", broken_disk)
        with pytest.raises(ProposalUnknown):
            await propose(leader, b"never synced")
        assert len(leader.fatal_reasons) == 1
        assert "Input/output error" in leader.fatal_reasons[0]
        monkeypatch.undo()
        with pytest.raises(NotLeader):
            await propose(leader, b"afterwards")
        assert all(b"never synced" not in voter.listener.payloads for voter in cluster.voters.values())

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("cannot take it"), "could not be applied: RuntimeError: cannot take it"),
        # An error for operators stands for itself.
        (UnsupportedFeatureLevel("use a newer version"), "could not be applied: use a newer version"),
    ],
)
def test_a_listener_that_raises_ends_its_voter_and_gets_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        calls: list[bytes] = []

        def raise_once_told(index: int, term: int, payload: bytes) -> None:
            calls.append(payload)
            raise error

        monkeypatch.setattr(leader.listener, "on_committed", raise_once_told)
        answers = await asyncio.gather(propose(leader, b"a"), propose(leader, b"b"), return_exceptions=True)
        assert all(isinstance(answer, ProposalUnknown) for answer in answers)
        assert calls == [b"a"]
        assert [reason.endswith(said) for reason in leader.fatal_reasons] == [True]
        others = [node_id for node_id in cluster.voters if node_id != leader.config.node_id]
        await propose(await cluster.leader(among=others), b"life goes on")

    play(tmp_path, scene)


def test_a_voter_that_is_very_far_behind_catches_up_through_a_small_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The voter needs far more appends than may be in flight at once."""
    monkeypatch.setattr(engine, "APPEND_BATCH_BYTES", 2_000)
    monkeypatch.setattr(peer_link, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(peer_link, "QUEUED_BYTES_MAX", 30_000)
    payloads = [b"%d" % number + bytes(1000) for number in range(600)]

    async def scene(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        behind = next(node_id for node_id in cluster.voters if node_id != leader.config.node_id)
        await cluster.stop(behind)
        await asyncio.gather(*(propose(leader, payload) for payload in payloads))
        await cluster.start(behind)
        await cluster.until_all_told(payloads)
        assert leader.quorum.is_leader

    play(tmp_path, scene)


def test_a_snapshot_replaces_what_is_before_it_unless_more_was_applied_while_it_was_written(tmp_path: Path) -> None:
    async def run() -> None:
        quorum = LoopbackCluster(tmp_path, 3).make_voter(3).quorum
        await quorum.start()
        # Committed, and not on this voter's disk yet.
        quorum._committed.add(1, 1, b"of the leader")
        installed: list[int] = []
        for index in (40, 30):
            snapshot = Snapshot(id=SnapshotId(index=index, term=3), chunks=())
            quorum._restore(snapshot, partial(installed.append, index))
        assert installed == [40]
        assert (quorum.last_applied, list(quorum._committed._entries)) == (40, [])
        await quorum.stop()

    asyncio.run(run())
