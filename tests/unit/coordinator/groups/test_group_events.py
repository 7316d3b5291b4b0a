"""A shard says what happens in its groups: rebalances that start and are completed, members that come and go."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kraft.coordinator.classic.messages import (
    JoinedGroup,
    LeaveGroup,
    LeavingMember,
    OfferedProtocol,
    SyncGroup,
)
from kraft.coordinator.consumer.requests import Heartbeat, HeartbeatResponse
from kraft.coordinator.group_events import (
    GroupEvent,
    MemberAway,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceStarted,
)
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.consumer.coordinator import image_of, partitions
from tests.unit.coordinator.groups.coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    subscription,
)
from tests.unit.coordinator.groups.migrating_clients import ClassicClient, ConsumerClient


def assignment(topic: str, *numbers: int) -> bytes:
    """The assignment of a consumer, version 0, without user data."""
    name = len(topic.encode()).to_bytes(2, "big") + topic.encode()
    listed = b"".join(number.to_bytes(4, "big") for number in numbers)
    return b"\0\0" + (1).to_bytes(4, "big") + name + len(numbers).to_bytes(4, "big") + listed + b"\xff" * 4


def told(shard: Coordinator) -> list[tuple[object, ...]]:
    """What has happened since the last call, each with what tells it from the others."""
    events, shard.events = shard.events, []
    return [_told(event) for event in events]


def _told(event: GroupEvent) -> tuple[object, ...]:
    match event:
        case MemberJoined():
            return "joined", event.member_id
        case MemberGone():
            return "left" if event.has_left else "removed", event.member_id, event.reason
        case MemberAway():
            return "away", event.member_id
        case MemberReplaced():
            return "replaced", event.replaced_id, event.member_id
        case RebalanceStarted():
            return "restarted" if event.is_restart else "started", event.epoch, event.reason, event.members
        case RebalanceCompleted():
            return "completed", event.epoch, event.members, event.partitions


def beat(shard: Coordinator, member_id: str, epoch: int, *owned: int, **fields: Any) -> HeartbeatResponse:
    mine = partitions("orders", *owned)
    request = Heartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, owned=mine, **fields)
    return shard.answer(shard.request(request), HeartbeatResponse)


def sync(shard: Coordinator, member_id: str, assigned: bytes = b"") -> None:
    assignments = {member_id: assigned}
    shard.request(SyncGroup(group_id=GROUP, member_id=member_id, generation=1, assignments=assignments))


def leave(shard: Coordinator, *member_ids: str, reason: str = "") -> None:
    members = tuple(LeavingMember(member_id=each, reason=reason) for each in member_ids)
    shard.request(LeaveGroup(group_id=GROUP, members=members))


# --- classic groups --------------------------------------------------------------------------------------------------


def test_the_first_member_of_a_classic_group() -> None:
    shard = Coordinator()
    ticket = shard.join(member_id_required=False, reason="first start")
    (joined, started) = told(shard)
    assert joined[0] == "joined"
    member_id = joined[1]
    assert started == ("started", 0, f"member {member_id} joined; client reason: first start", 1)
    shard.advance(3_000)
    assert shard.answer(ticket, JoinedGroup).generation == 1
    assert told(shard) == [], "the leader has not assigned yet"
    sync(shard, str(member_id), assignment("orders", 0, 1))
    assert told(shard) == [("completed", 1, 1, 2)]


def test_an_id_that_was_given_out_is_no_member_yet() -> None:
    shard = Coordinator()
    shard.join()
    shard.advance(SESSION_MS)
    assert told(shard) == []


def test_the_last_member_of_a_classic_group_leaves() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    told(shard)
    leave(shard, member_id, reason="the consumer is being closed")
    assert told(shard) == [
        ("left", member_id, "client reason: the consumer is being closed"),
        ("started", 1, f"members left: {member_id}", 0),
        ("completed", 2, 0, 0),
    ]


def test_a_classic_member_without_heartbeats_is_removed() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    told(shard)
    shard.advance(SESSION_MS)
    assert told(shard) == [
        ("removed", member_id, f"no heartbeat within its session timeout of {SESSION_MS} ms"),
        ("started", 1, f"session of member {member_id} ended", 0),
        ("completed", 2, 0, 0),
    ]


def test_a_classic_member_that_does_not_join_a_rebalance_is_removed() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    shard.join(member_id_required=False)
    told(shard)
    for _ in range(REBALANCE_MS // 5_000):
        shard.classic_heartbeat(member_id)
        shard.advance(5_000)
    (removed,) = told(shard)
    assert removed == ("removed", member_id, f"it has not joined the rebalance within {REBALANCE_MS} ms")


def test_a_rebalance_without_syncs_is_restarted() -> None:
    shard = Coordinator()
    shard.join(member_id_required=False)
    shard.advance(3_000)
    ((_, member_id), _started) = told(shard)
    for _ in range(REBALANCE_MS // 5_000):
        shard.classic_heartbeat(str(member_id))
        shard.advance(5_000)
    removed, restarted, completed = told(shard)
    assert removed == ("removed", member_id, f"it has sent no SyncGroup within {REBALANCE_MS} ms")
    assert restarted == ("restarted", 1, f"members sent no SyncGroup: {member_id}", 0)
    assert completed == ("completed", 2, 0, 0)


def test_a_classic_static_member_that_comes_back_replaces_itself_without_a_rebalance() -> None:
    shard = Coordinator()
    ticket = shard.join(group_instance_id="one")
    shard.advance(3_000)
    old_id = shard.answer(ticket, JoinedGroup).member_id
    sync(shard, old_id)
    told(shard)
    new_id = shard.answer(shard.join(group_instance_id="one"), JoinedGroup).member_id
    assert told(shard) == [("replaced", old_id, new_id)]


def test_the_partitions_of_assignments_of_another_form_are_not_counted() -> None:
    shard = Coordinator()
    shard.stable()
    assert told(shard)[-1] == ("completed", 1, 1, None)


def test_a_refused_request_tells_nothing() -> None:
    shard = Coordinator()
    shard.stable()
    told(shard)
    offered = (OfferedProtocol("other", subscription("orders")),)
    assert shard.answer(shard.join(protocols=offered), object)
    leave(shard, "nobody")
    assert told(shard) == []


def test_a_load_tells_nothing() -> None:
    shard = Coordinator()
    shard.stable("classic")
    shard.join_consumer()
    shard.join_consumer("n")
    told(shard)
    shard.load()
    assert told(shard) == []


# --- groups of the consumer protocol ---------------------------------------------------------------------------------


def test_the_rebalance_of_a_single_member_is_one_decision() -> None:
    shard = Coordinator()
    epoch = shard.join_consumer().member_epoch
    assert told(shard) == [("joined", "m"), ("started", epoch, "member m joined", 1), ("completed", epoch, 1, 2)]


def test_a_rebalance_is_complete_when_every_member_has_what_it_is_assigned() -> None:
    shard = Coordinator()
    first = shard.join_consumer().member_epoch
    told(shard)
    second = shard.join_consumer("n").member_epoch
    assert told(shard) == [("joined", "n"), ("started", second, "member n joined", 2)]
    kept = beat(shard, "m", first, 0, 1).assignment
    assert kept is not None
    (number,) = (each for _, each in kept)
    beat(shard, "m", first, number)
    assert told(shard) == [], "n has not got what m has given up"
    beat(shard, "n", second)
    assert told(shard) == [("completed", second, 2, 2)]


def test_members_that_join_during_a_rebalance_are_part_of_it() -> None:
    shard = Coordinator(orders=3)
    shard.join_consumer()
    shard.join_consumer("n")
    told(shard)
    shard.join_consumer("o")
    assert told(shard) == [("joined", "o")]


def test_a_member_leaves_and_the_others_rebalance() -> None:
    shard = Coordinator()
    epoch = shard.join_consumer().member_epoch
    told(shard)
    shard.leave_consumer()
    assert told(shard) == [
        ("left", "m", "its client has closed it"),
        ("started", epoch + 1, "member m left", 0),
        ("completed", epoch + 1, 0, 0),
    ]


def test_a_member_without_heartbeats_is_removed() -> None:
    shard = Coordinator()
    shard.join_consumer()
    told(shard)
    shard.advance(45_000)
    removed, started, _ = told(shard)
    why = "no heartbeat within its session timeout"
    assert removed == ("removed", "m", why)
    assert started[2] == f"member m removed: {why}"


def test_a_member_that_does_not_give_up_partitions_is_removed() -> None:
    shard = Coordinator()
    first = shard.join_consumer().member_epoch
    shard.join_consumer("n")
    beat(shard, "m", first, 0, 1)
    told(shard)
    for _ in range(REBALANCE_MS // 10_000):
        beat(shard, "m", first, 0, 1)
        beat(shard, "n", first + 1)
        shard.advance(10_000)
    removed = next(each for each in told(shard) if each[0] == "removed")
    why = f"it has not given up partitions within its rebalance timeout of {REBALANCE_MS} ms"
    assert removed == ("removed", "m", why)


def test_a_changed_subscription_and_changed_topics_are_reasons() -> None:
    shard = Coordinator(orders=2, bills=1)
    epoch = shard.join_consumer().member_epoch
    told(shard)
    beat(shard, "m", epoch, 0, 1, topics=frozenset({"orders", "bills"}))
    assert told(shard)[0] == ("started", epoch + 1, "member m changed its subscription", 1)
    shard.image = image_of({"orders": 4, "bills": 1})
    beat(shard, "m", epoch + 1, 0, 1)
    why = "topics that the group subscribes to, or their partitions, have changed"
    assert told(shard) == [("started", epoch + 2, why, 1), ("completed", epoch + 2, 1, 5)]


def test_a_static_member_is_away_and_comes_back_without_a_rebalance() -> None:
    shard = Coordinator()
    shard.join_consumer(instance_id="one")
    told(shard)
    away = Heartbeat(group_id=GROUP, member_id="m", member_epoch=-2, instance_id="one")
    shard.request(away)
    assert told(shard) == [("away", "m")]
    shard.join_consumer("n", instance_id="one")
    assert told(shard) == [("replaced", "m", "n")]
    shard.request(replace(away, member_id="n"))
    shard.advance(45_000)
    assert [each[:2] for each in told(shard)[:2]] == [("away", "n"), ("removed", "n")]


def test_a_heartbeat_that_changes_nothing_tells_nothing() -> None:
    shard = Coordinator()
    epoch = shard.join_consumer().member_epoch
    told(shard)
    beat(shard, "m", epoch, 0, 1)
    assert shard.refusal(Heartbeat(group_id=GROUP, member_id="m", member_epoch=7)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert told(shard) == []


# --- groups that change their protocol -------------------------------------------------------------------------------


def test_an_upgrade_and_a_downgrade_are_rebalances() -> None:
    shard = Coordinator()
    old = ClassicClient(shard, "old", cooperative=False)
    for _ in range(40):
        old.step()
        shard.advance(100)
    told(shard)
    new = ConsumerClient(shard, "new")
    for _ in range(40):
        old.step()
        new.step()
        shard.advance(100)
    events = told(shard)
    assert [each[0] for each in events] == ["joined", "started", "completed"]
    assert events[-1][2:] == (2, 2)
    new.leave()
    assert [each[0] for each in told(shard)] == ["left", "started"]
    for _ in range(40):
        old.step()
        shard.advance(100)
    (completed,) = told(shard)
    assert (completed[0], *completed[2:]) == ("completed", 1, 2)
