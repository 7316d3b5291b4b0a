from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.quorum import snapshot_transfer
from kraft.quorum.config import QuorumConfig
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.membership import before_incarnations
from kraft.quorum.messages import BadMessage, Message, SnapshotPart, size_bytes
from kraft.quorum.snapshot_transfer import (
    RESEND_MS,
    RESEND_MS_PER_MIB,
    IncomingSnapshot,
    OutgoingSnapshots,
    parts_of,
)
from kraft.quorum.snapshots import Snapshot, SnapshotId
from kraft.runtime.disk import RealDisk
from tests.unit.quorum.loopback import LoopbackCluster

SNAPSHOT = Snapshot(id=SnapshotId(index=40, term=3), chunks=(b"one", b"two", b"three"))
EMPTY = Snapshot(id=SnapshotId(index=40, term=3), chunks=())
LEADER = 1


def parts(snapshot: Snapshot = SNAPSHOT, term: int = 5) -> list[SnapshotPart]:
    return list(parts_of(snapshot, term))


def taken(*arriving: SnapshotPart, sender: int = LEADER) -> list[Snapshot | None]:
    incoming = IncomingSnapshot()
    return [incoming.take(sender, part) for part in arriving]


def test_a_snapshot_arrives_with_its_last_part() -> None:
    assert taken(*parts()) == [None, None, SNAPSHOT]
    assert taken(*parts(EMPTY)) == [EMPTY]


def test_nothing_is_kept_of_a_snapshot_that_has_arrived() -> None:
    incoming = IncomingSnapshot()
    assert [incoming.take(LEADER, part) for part in parts()][-1] == SNAPSHOT
    assert incoming._chunks == []


def test_a_snapshot_of_which_a_part_was_lost_never_becomes_whole() -> None:
    one, two, three = parts()
    for arriving in ((one, three), (two, three), (three,), (one, one, three), (one, two, two, three)):
        assert taken(*arriving) == [None] * len(arriving), [part.number for part in arriving]


def test_a_snapshot_that_is_sent_again_starts_from_its_beginning() -> None:
    one, two, three = parts()
    assert taken(one, three, one, two, one, two, three)[-1] == SNAPSHOT


def test_parts_of_two_snapshots_or_two_leaderships_are_not_mixed() -> None:
    one, _, _ = parts()
    later = Snapshot(id=SnapshotId(index=50, term=3), chunks=SNAPSHOT.chunks)
    assert taken(one, *parts(later)[1:]) == [None, None, None]
    assert taken(one, *parts(term=6)[1:]) == [None, None, None]
    incoming = IncomingSnapshot()
    incoming.take(LEADER, one)
    assert [incoming.take(2, part) for part in parts()[1:]] == [None, None]


def test_a_snapshot_is_sent_as_far_as_there_is_room_and_goes_on_where_it_stopped() -> None:
    outgoing = OutgoingSnapshots()
    outgoing.begin(2, SNAPSHOT, 5, now_ms=0)
    assert outgoing.under_way == [2]
    assert not outgoing.is_due(2, now_ms=10**9)
    assert outgoing.next_parts(2, term=5, room_bytes=0, now_ms=0) == []
    assert outgoing.next_parts(2, term=5, room_bytes=size_bytes(parts()[0]) + 1, now_ms=0) == parts()[:2]
    assert outgoing.next_parts(2, term=5, room_bytes=1000, now_ms=0) == parts()[2:]
    assert outgoing.under_way == []


def test_a_snapshot_of_an_earlier_term_is_not_sent_to_its_end() -> None:
    outgoing = OutgoingSnapshots()
    outgoing.begin(2, SNAPSHOT, 5, now_ms=0)
    assert outgoing.next_parts(2, term=6, room_bytes=1000, now_ms=0) == []
    assert outgoing.under_way == []
    assert outgoing.is_due(2, now_ms=0)


def test_a_snapshot_is_sent_again_after_a_while_which_is_longer_for_a_large_one() -> None:
    outgoing = OutgoingSnapshots()
    assert outgoing.is_due(1, 0)
    large = Snapshot(id=SNAPSHOT.id, chunks=(bytes(3 * 1024 * 1024),))
    outgoing.begin(1, large, 5, now_ms=0)
    outgoing.next_parts(1, term=5, room_bytes=1, now_ms=1_000)
    again_ms = 1_000 + RESEND_MS + 3 * RESEND_MS_PER_MIB
    assert [outgoing.is_due(1, now_ms) for now_ms in (1_000, again_ms - 1, again_ms)] == [False, False, True]
    assert outgoing.is_due(2, 1_000)
    outgoing.forget(1)
    assert outgoing.is_due(1, 1_000)


def test_a_voter_that_has_taken_one_may_be_sent_another_at_once() -> None:
    outgoing = OutgoingSnapshots()
    outgoing.begin(2, SNAPSHOT, 5, now_ms=0)
    outgoing.arrived(2)
    assert outgoing.under_way == [2], "that was an answer to something earlier"
    outgoing.next_parts(2, term=5, room_bytes=1000, now_ms=0)
    assert not outgoing.is_due(2, now_ms=1)
    outgoing.arrived(2)
    assert outgoing.is_due(2, now_ms=1)


@pytest.mark.parametrize(("name", "value"), [("SNAPSHOT_BYTES_MAX", 10), ("SNAPSHOT_PARTS_MAX", 2)])
def test_a_snapshot_beyond_the_limits_is_neither_sent_nor_kept(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(snapshot_transfer, name, value)
    outgoing, incoming = OutgoingSnapshots(), IncomingSnapshot()
    with capture_logs() as events:
        outgoing.begin(2, SNAPSHOT, 5, now_ms=0)
    assert [event["event"] for event in events] == ["snapshot too large to send"]
    assert outgoing.under_way == []
    assert not outgoing.is_due(2, now_ms=1), "nor is it looked at again in every step"
    incoming.take(LEADER, parts()[0])
    incoming.take(LEADER, parts()[1])
    with pytest.raises(BadMessage, match=r"the snapshot at entry 40 has more than .* the maximum is"):
        incoming.take(LEADER, parts()[2])
    assert incoming._chunks == []
    assert incoming.take(LEADER, parts()[2]) is None


def belongs_to_a_quorum(config: QuorumConfig) -> None:
    journal = QuorumJournal(config.directory, RealDisk())
    journal.set_membership(before_incarnations(config.cluster_id, config.node_id, config.voters))
    journal.sync()
    journal.close()


def test_a_voter_refuses_such_a_snapshot_and_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_transfer, "SNAPSHOT_PARTS_MAX", 2)

    async def run() -> None:
        voter = LoopbackCluster(tmp_path, 3).make_voter(3)
        belongs_to_a_quorum(voter.config)
        await voter.quorum.start()
        with pytest.raises(BadMessage, match="in 2 parts"):
            voter.quorum._on_messages(LEADER, list[Message](parts()))
        assert voter.fatal_reasons == []
        assert voter.quorum.leader_id == LEADER
        await voter.quorum.stop()

    asyncio.run(run())
