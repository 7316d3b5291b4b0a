"""What of a group is replicated, and what a coordinator that loads it begins with."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import GroupDeleted, MemberIdRequired
from kraft.coordinator.classic.records import recorded_group
from kraft.coordinator.group_records import GroupMetadataValue, MemberMetadata
from kraft.wire.schema.heartbeat import HeartbeatResponse
from tests.unit.coordinator.classic.coordinator import GROUP, SESSION_MS, Coordinator


def recorded(*members: MemberMetadata, protocol: str | None = "range", leader: str | None = None) -> GroupMetadataValue:
    return GroupMetadataValue(protocol_type="consumer", generation=7, protocol=protocol, leader=leader, members=members)


def recorded_member(member_id: str, instance: str | None = None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance,
        client_id="client",
        client_host="/10.0.0.1",
        session_timeout=SESSION_MS,
        subscription=b"topics",
        assignment=b"partitions",
    )


def test_a_loaded_group_is_stable_and_its_members_have_new_sessions() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    coordinator.advance(SESSION_MS - 1)
    coordinator.load()
    assert coordinator.state is ClassicGroupState.STABLE
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(member_id) == HeartbeatResponse(error_code=0)


def test_a_recorded_group_that_never_had_members_exists_until_it_is_deleted() -> None:
    coordinator = Coordinator()
    coordinator.recorded = recorded()
    coordinator.recorded.generation = 0  # type: ignore[misc]  # Kafka writes such a record for each new group.
    coordinator.load()
    coordinator.answer(coordinator.join(), MemberIdRequired)
    coordinator.advance(SESSION_MS)
    assert coordinator.state is ClassicGroupState.EMPTY
    assert coordinator.delete() == GroupDeleted()
    assert coordinator.recorded is None


def test_a_recorded_leader_that_is_no_member_is_replaced() -> None:
    group = recorded_group(GROUP, recorded(recorded_member("a"), leader="z"))
    assert group.leader == "a"


def test_a_record_of_another_program_may_repeat_ids_and_lack_a_protocol() -> None:
    members = [recorded_member("a", "one"), recorded_member("a", "two"), recorded_member("b", "one")]
    group = recorded_group(GROUP, recorded(*members, protocol=None))
    assert dict(group.static_members) == {"one": "a"}
    assert group.members["a"].metadata(group.protocol) == b"topics"
