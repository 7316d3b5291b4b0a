"""Real voters over real gRPC: journals are trimmed behind snapshots, and who lags too far is sent one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import Corruption
from kraft.quorum import peer_link
from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME, QuorumJournal
from kraft.quorum.snapshots import Snapshot, SnapshotId, SnapshotStore
from kraft.runtime.disk import RealDisk
from tests.unit.quorum.loopback import LoopbackCluster, RecordingListener, Voter, propose


class Keeper:
    """The state is the list of payloads, a chunk each."""

    def __init__(self, directory: Path, listener: RecordingListener) -> None:
        self.store = SnapshotStore(RealDisk(), str(directory / "snapshots"))
        self.listener = listener
        self.installed: list[int] = []
        self.has_one = True
        loaded = self.store.load()
        self.start_id = None if loaded is None else loaded.id
        if loaded is not None:
            self._restore(loaded)

    def _restore(self, snapshot: Snapshot) -> None:
        self.listener.events[:] = list(snapshot.chunks)
        self.listener.indexes[:] = [snapshot.id.index]

    def write(self, term: int) -> int:
        index = self.listener.indexes[-1]
        self.store.write(SnapshotId(index=index, term=term), self.listener.payloads)
        return index

    def latest(self) -> Snapshot | None:
        return self.store.load() if self.has_one else None

    def keep(self, snapshot: Snapshot) -> Callable[[], None]:
        self.store.write(snapshot.id, snapshot.chunks)

        def restore() -> None:
            self._restore(snapshot)
            self.installed.append(snapshot.id.index)

        return restore


def keep_snapshots(cluster: LoopbackCluster) -> None:
    """Every voter that is made from now on has a keeper."""
    make_voter = cluster.make_voter

    def with_keeper(node_id: int) -> Voter:
        voter = make_voter(node_id)
        voter.quorum._snapshots = Keeper(voter.config.directory, voter.listener)
        return voter

    cluster.make_voter = with_keeper  # type: ignore[method-assign]  # Called by the cluster, too.


def keeper(voter: Voter) -> Keeper:
    found = voter.quorum._snapshots
    assert isinstance(found, Keeper)
    return found


def journal_of(voter: Voter) -> QuorumJournal:
    parts = voter.quorum._parts
    assert parts is not None
    return parts.journal


async def propose_some(cluster: LoopbackCluster, *payloads: bytes) -> None:
    leader = await cluster.leader()
    for payload in payloads:
        await propose(leader, payload)


def trim(voter: Voter) -> int:
    index = keeper(voter).write(voter.quorum.term)
    voter.quorum.forget_entries_to(index)
    return index


def run_cluster(tmp_path: Path, scenario: Callable[[LoopbackCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        cluster = LoopbackCluster(tmp_path, 3)
        keep_snapshots(cluster)
        try:
            await cluster.start_all()
            await scenario(cluster)
        finally:
            await cluster.stop_all()

    asyncio.run(run())


def test_a_voter_that_lags_beyond_the_trimmed_journal_is_sent_a_snapshot_and_then_entries(tmp_path: Path) -> None:
    async def scenario(cluster: LoopbackCluster) -> None:
        await propose_some(cluster, b"a", b"b")
        await cluster.until_all_told([b"a", b"b"])
        leader = await cluster.leader()
        lagging = next(node_id for node_id in cluster.voters if node_id != leader.config.node_id)
        await cluster.stop(lagging)
        await propose_some(cluster, b"c", b"d")
        await cluster.until_all_told([b"a", b"b", b"c", b"d"])
        for voter in cluster.voters.values():
            trim(voter)
        await propose_some(cluster, b"e")
        back = await cluster.start(lagging)
        await cluster.until_all_told([b"a", b"b", b"c", b"d", b"e"])
        assert len(keeper(back).installed) == 1
        assert journal_of(back).first_index == keeper(back).installed[0]
        await propose_some(cluster, b"f")
        await cluster.until_all_told([b"a", b"b", b"c", b"d", b"e", b"f"])
        assert not any(voter.fatal_reasons for voter in cluster.voters.values())

    run_cluster(tmp_path, scenario)


def test_a_snapshot_of_many_parts_is_sent_through_a_small_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "WINDOW_BYTES", 10_000)
    payloads = [b"%d" % number + bytes(100) for number in range(400)]

    async def scenario(cluster: LoopbackCluster) -> None:
        leader = await cluster.leader()
        lagging = next(node_id for node_id in cluster.voters if node_id != leader.config.node_id)
        await cluster.stop(lagging)
        await asyncio.gather(*(propose(leader, payload) for payload in payloads))
        await cluster.until_all_told(payloads)
        for voter in cluster.voters.values():
            trim(voter)
        back = await cluster.start(lagging)
        await cluster.until_all_told(payloads)
        assert len(keeper(back).installed) == 1
        assert leader.quorum.is_leader

    run_cluster(tmp_path, scenario)


def test_trimmed_voters_that_all_end_start_from_their_snapshots_and_lose_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: LoopbackCluster) -> None:
        for round_number in range(3):
            first, second = (b"%d-%d" % (round_number, number) for number in (1, 2))
            await propose_some(cluster, first)
            answer = (await cluster.leader()).listener.payloads
            await cluster.until_all_told(answer)
            for voter in cluster.voters.values():
                trim(voter)
            await propose_some(cluster, second)
            await cluster.until_all_told([*answer, second])
            await cluster.stop_all()
            await cluster.start_all()
            await cluster.until_all_told([*answer, second])
            assert all(journal_of(voter).first_index > 1 for voter in cluster.voters.values())
            assert not any(keeper(voter).installed for voter in cluster.voters.values())

    run_cluster(tmp_path, scenario)


def test_a_voter_that_lags_can_be_elected_after_it_took_over_a_snapshot(tmp_path: Path) -> None:
    async def scenario(cluster: LoopbackCluster) -> None:
        await propose_some(cluster, b"a")
        await cluster.until_all_told([b"a"])
        leader = await cluster.leader()
        lagging, other = (node_id for node_id in cluster.voters if node_id != leader.config.node_id)
        await cluster.stop(lagging)
        await propose_some(cluster, b"b")
        await cluster.until_all_told([b"a", b"b"])
        for voter in cluster.voters.values():
            trim(voter)
        await cluster.start(lagging)
        await cluster.until_all_told([b"a", b"b"])
        await cluster.stop(leader.config.node_id)
        new_leader = await cluster.leader()
        await propose(new_leader, b"c")
        await cluster.until_all_told([b"a", b"b", b"c"])
        assert {new_leader.config.node_id} <= {lagging, other}

    run_cluster(tmp_path, scenario)


def test_while_there_is_no_snapshot_to_send_the_leader_leads_on_and_the_voter_waits(tmp_path: Path) -> None:
    async def scenario(cluster: LoopbackCluster) -> None:
        await propose_some(cluster, b"a")
        await cluster.until_all_told([b"a"])
        leader = await cluster.leader()
        lagging = next(node_id for node_id in cluster.voters if node_id != leader.config.node_id)
        await cluster.stop(lagging)
        await propose_some(cluster, b"b")
        await cluster.until_all_told([b"a", b"b"])
        for voter in cluster.voters.values():
            trim(voter)
            keeper(voter).has_one = False
        term = leader.quorum.term
        with capture_logs() as events:
            back = await cluster.start(lagging)
            await asyncio.sleep(1.5)
            await propose(leader, b"c")
        assert back.listener.payloads == []
        assert (leader.quorum.term, back.quorum.leader_id) == (term, leader.config.node_id), "nobody stood for election"
        assert not [event for event in events if event["log_level"] == "error"]
        keeper(leader).has_one = True
        await cluster.until_all_told([b"a", b"b", b"c"])

    run_cluster(tmp_path, scenario)


def test_a_voter_that_lost_its_journal_does_not_start_beside_its_snapshot(tmp_path: Path) -> None:
    async def scenario(cluster: LoopbackCluster) -> None:
        await propose_some(cluster, b"a")
        await cluster.until_all_told([b"a"])
        trim(cluster.voters[3])
        await cluster.stop(3)
        (tmp_path / "3" / DIRECTORY_NAME / FILE_NAME).unlink()
        with pytest.raises(Corruption, match="the journal was lost"):
            await cluster.start(3)

    run_cluster(tmp_path, scenario)
