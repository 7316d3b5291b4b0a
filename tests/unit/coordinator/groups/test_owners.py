from __future__ import annotations

from uuid import UUID

import pytest

from kraft.coordinator.consumer.group import ConsumerGroup, ConsumerGroupMember
from kraft.coordinator.consumer_protocol import encode_assignment
from kraft.coordinator.group_records import GroupMetadataValue, MemberMetadata
from kraft.coordinator.groups import owners as module
from kraft.coordinator.groups.owners import Owner, owners
from kraft.coordinator.groups.replicated import Groups
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicId, TopicPartition
from tests.support.cluster_images import ORDERS, cluster, with_topic

IMAGE = with_topic(cluster(1), [1], [1], [1])
DELETED = TopicId(UUID(int=99))
SECOND = encode_assignment(frozenset({(ORDERS, 1)}), IMAGE, subscription=b"\0\0")


def classic(*assignments: bytes, protocol_type: str = "consumer") -> Groups:
    members = tuple(
        MemberMetadata(
            member_id=f"m{number}",
            client_id=f"client-{number}",
            client_host=f"/10.0.0.{number}",
            session_timeout=10_000,
            subscription=b"",
            assignment=assignment,
        )
        for number, assignment in enumerate(assignments)
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="range", leader="m0", members=members
    )
    return Groups(classic=PersistentMap({"billing": value}))


def test_members_of_the_classic_protocol_own_what_their_leader_has_assigned() -> None:
    assert list(owners(classic(SECOND, b""), "billing", IMAGE)) == [
        Owner("/10.0.0.0", "client-0", [TopicPartition("orders", 1)]),
        Owner("/10.0.0.1", "client-1", []),
    ]


def test_members_of_the_consumer_protocol_own_what_they_have_not_given_up() -> None:
    member = ConsumerGroupMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        assigned=frozenset({(ORDERS, 0), (DELETED, 0)}),
        pending_revocation=frozenset({(ORDERS, 2)}),
    )
    groups = Groups(consumer=PersistentMap({"billing": ConsumerGroup(group_id="billing").with_member(member)}))
    ((host, client_id, partitions),) = owners(groups, "billing", IMAGE)
    assert (host, client_id) == ("/h", "c")
    assert sorted(partitions) == [TopicPartition("orders", 0), TopicPartition("orders", 2)]


def test_what_is_no_assignment_of_a_consumer_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.partitions for each in owners(classic(b"\xff\xff", b"all"), "billing", IMAGE)] == [[], []]
    assert list(owners(classic(SECOND, protocol_type="connect"), "billing", IMAGE)) == []
    assert list(owners(Groups(), "billing", IMAGE)) == []
    monkeypatch.setattr(module, "ASSIGNMENT_BYTES_MAX", len(SECOND) - 1)
    assert [each.partitions for each in owners(classic(SECOND), "billing", IMAGE)] == [[]]
