"""A shard says what happens in its groups: rebalances that start and are completed, members that come and go."""

from __future__ import annotations

from typing import Any

from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.group_events import (
    DeletedByClient,
    GroupEvent,
    MemberAway,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceStarted,
)
from kraft.coordinator.groups.commands import DeleteGroup
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning
from tests.unit.coordinator.consumer.coordinator import image_of, partitions
from tests.unit.coordinator.groups.coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
)


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
        case OffsetsExpired():
            return "expired", event.offsets, event.is_removed
        case DeletedByClient():
            return "deleted", event.group_id


def beat(shard: Coordinator, member_id: str, epoch: int, *owned: int, **fields: Any) -> ConsumerHeartbeatResponse:
    mine = partitions("orders", *owned)
    request = ConsumerHeartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, owned=mine, **fields)
    return shard.answer(shard.request(request), ConsumerHeartbeatResponse)


def sync(shard: Coordinator, member_id: str, assigned: bytes = b"") -> None:
    assignments = {member_id: assigned}
    shard.request(
        SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=1, assignments=assigning(assignments))
    )


def leave(shard: Coordinator, *member_ids: str, reason: str = "") -> None:
    members = tuple(MemberIdentity(member_id=each, reason=reason) for each in member_ids)
    shard.request(LeaveGroupRequest(group_id=GROUP, members=members))


# --- classic groups --------------------------------------------------------------------------------------------------


def test_the_first_member_of_a_classic_group() -> None:
    shard = Coordinator()
    ticket = shard.join(version=3, reason="first start")
    (joined, started) = told(shard)
    assert joined[0] == "joined"
    member_id = joined[1]
    assert started == ("started", 0, f"member {member_id} joined; client reason: first start", 1)
    shard.advance(3_000)
    assert shard.answer(ticket, JoinGroupResponse).generation_id == 1
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


def test_a_client_may_leave_and_join_without_a_reason() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    assert told(shard)[1] == ("started", 0, f"member {member_id} joined", 1)
    leave(shard, member_id)
    assert told(shard)[0] == ("left", member_id, "its client has left, and gave no reason")


def test_a_group_that_a_client_deletes() -> None:
    shard = Coordinator()
    leave(shard, shard.stable())
    told(shard)
    shard.request(DeleteGroup(group_id=GROUP))
    assert told(shard) == [("deleted", GROUP)]


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
    shard.join(version=3)
    told(shard)
    for _ in range(REBALANCE_MS // 5_000):
        shard.classic_heartbeat(member_id)
        shard.advance(5_000)
    (removed,) = told(shard)
    assert removed == ("removed", member_id, f"it has not joined the rebalance within {REBALANCE_MS} ms")


def test_a_rebalance_without_syncs_is_restarted() -> None:
    shard = Coordinator()
    shard.join(version=3)
    shard.advance(3_000)
    ((_, member_id), _started) = told(shard)
    for _ in range(REBALANCE_MS // 5_000):
        shard.classic_heartbeat(str(member_id))
        shard.advance(5_000)
    removed, restarted, completed = told(shard)
    assert removed == ("removed", member_id, f"it has sent no SyncGroup within {REBALANCE_MS} ms")
    assert restarted == ("restarted", 1, f"members sent no SyncGroup: {member_id}", 0)
    assert completed == ("completed", 2, 0, 0)


def test_the_partitions_of_assignments_of_another_form_are_not_counted() -> None:
    shard = Coordinator()
    shard.stable()
    assert told(shard)[-1] == ("completed", 1, 1, None)


# --- groups of the consumer protocol ---------------------------------------------------------------------------------


def test_the_rebalance_of_a_single_member_is_one_decision() -> None:
    shard = Coordinator()
    epoch = shard.join_consumer().member_epoch
    assert told(shard) == [("joined", "m"), ("started", epoch, "member m joined", 1), ("completed", epoch, 1, 2)]


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
