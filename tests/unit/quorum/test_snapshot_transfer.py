from __future__ import annotations

from kraft.quorum.messages import SnapshotPart
from kraft.quorum.snapshot_transfer import (
    RESEND_MS,
    RESEND_MS_PER_MIB,
    IncomingSnapshot,
    OutgoingSnapshots,
    parts_of,
)
from kraft.quorum.snapshots import Snapshot, SnapshotId

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


def test_a_snapshot_of_which_a_part_was_lost_never_becomes_whole() -> None:
    one, two, three = parts()
    for arriving in ((one, three), (two, three), (three,), (one, one, three), (one, two, two, three)):
        assert SNAPSHOT not in taken(*arriving), [part.number for part in arriving]


def test_a_snapshot_that_is_sent_again_begins_anew() -> None:
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


def test_a_snapshot_is_sent_again_after_a_while_which_is_longer_for_a_large_one() -> None:
    outgoing = OutgoingSnapshots()
    assert outgoing.is_due(1, 0)
    outgoing.sent(1, 3 * 1024 * 1024, 1_000)
    again_ms = 1_000 + RESEND_MS + 3 * RESEND_MS_PER_MIB
    assert [outgoing.is_due(1, now_ms) for now_ms in (1_000, again_ms - 1, again_ms)] == [False, False, True]
    assert outgoing.is_due(2, 1_000)
    outgoing.forget(1)
    assert outgoing.is_due(1, 1_000)
