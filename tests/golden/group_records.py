"""The records of `__consumer_offsets` whose bytes are golden."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
)

GROUP: Final = "größe 😀"
MEMBER: Final = "member-0001"
TIME_MS: Final = 1_700_000_000_123
TOPIC_ID: Final = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER_ID: Final = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
LONG: Final = "x" * 200
"""Its length takes two bytes in a flexible version."""


class Golden(Struct, frozen=True):
    """A record, and how Kafka is to write it."""

    name: str
    record: GroupRecord
    version: int = 0
    """Version of the value."""
    type: int | None = None
    """Type of the record, if it is not that of the key."""


def _records() -> list[Golden]:
    return [*_offset_commits(), *_classic_groups(), *_consumer_groups(), *_consumer_members(), *_deletions()]


# --- offsets ---------------------------------------------------------------------------------------------------------


def _offset_commits() -> list[Golden]:
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=7)
    old = OffsetCommitValue(offset=2**40, metadata="note", commit_timestamp=TIME_MS)
    expiring = OffsetCommitValue(offset=3, metadata="", commit_timestamp=TIME_MS, expire_timestamp=TIME_MS + 86_400_000)
    with_epoch = OffsetCommitValue(offset=0, leader_epoch=5, metadata="note", commit_timestamp=TIME_MS)
    with_id = OffsetCommitValue(offset=9, leader_epoch=-1, metadata=LONG, commit_timestamp=TIME_MS, topic_id=TOPIC_ID)
    return [
        Golden("offset-commit-of-0.8", GroupRecord(key, old), 0, type=0),
        Golden("offset-commit-v0", GroupRecord(key, old), 0),
        Golden("offset-commit-v1", GroupRecord(key, expiring), 1),
        Golden("offset-commit-v2", GroupRecord(key, old), 2),
        Golden("offset-commit-v3", GroupRecord(key, with_epoch), 3),
        Golden("offset-commit-v4", GroupRecord(key, with_epoch), 4),
        Golden("offset-commit-v4-with-topic-id", GroupRecord(key, with_id), 4),
    ]


# --- classic groups --------------------------------------------------------------------------------------------------


def _classic_groups() -> list[Golden]:
    key = GroupMetadataKey(group=GROUP)
    empty = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=TIME_MS, members=()
    )
    return [
        *(
            Golden(f"classic-group-v{version}", GroupRecord(key, _classic_group(version)), version)
            for version in range(5)
        ),
        Golden("classic-group-v3-empty", GroupRecord(key, empty), 3),
    ]


def _classic_group(version: int) -> GroupMetadataValue:
    """Return a group of two members, with the fields that this version has."""
    members = tuple(
        MemberMetadata(
            member_id=f"{MEMBER}-{number}",
            group_instance_id="static" if number and version >= 3 else None,
            client_id="client",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000 if version >= 1 else -1,
            session_timeout=45_000,
            subscription=bytes(range(200)),
            assignment=b"\x00\x01" if number else b"",
        )
        for number in range(2)
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=12,
        protocol="range",
        leader=f"{MEMBER}-0",
        current_state_timestamp=TIME_MS if version >= 2 else -1,
        members=members,
    )


# --- groups of the new protocol (KIP-848) ----------------------------------------------------------------------------


def _consumer_groups() -> list[Golden]:
    group = ConsumerGroupMetadataKey(group_id=GROUP)
    target = ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP)
    expression = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="orders-.*")
    group_value = ConsumerGroupMetadataValue
    target_value = ConsumerGroupTargetAssignmentMetadataValue
    resolved = ConsumerGroupRegularExpressionValue(topics=("orders-a", "orders-b"), version=77, timestamp=TIME_MS)
    unresolved = ConsumerGroupRegularExpressionValue(topics=(), version=0, timestamp=-1)
    return [
        Golden("consumer-group", GroupRecord(group, group_value(epoch=4, metadata_hash=-(2**62)))),
        Golden("consumer-group-without-hash", GroupRecord(group, group_value(epoch=0))),
        Golden("target-metadata", GroupRecord(target, target_value(assignment_epoch=4, assignment_timestamp=TIME_MS))),
        Golden("target-metadata-without-time", GroupRecord(target, target_value(assignment_epoch=-1))),
        Golden("regular-expression", GroupRecord(expression, resolved)),
        Golden("regular-expression-without-topics", GroupRecord(expression, unresolved)),
    ]


def _consumer_members() -> list[Golden]:
    member = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=MEMBER)
    target = ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id=MEMBER)
    current = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=MEMBER)
    assigned = (
        AssignedTopic(topic_id=TOPIC_ID, partitions=(0, 1, 300)),
        AssignedTopic(topic_id=OTHER_ID, partitions=tuple(range(130))),
    )
    owned = (
        OwnedTopic(topic_id=TOPIC_ID, partitions=(0, 1), assignment_epochs=(3, 4)),
        OwnedTopic(topic_id=OTHER_ID, partitions=(2,), assignment_epochs=()),
    )
    revoked = (OwnedTopic(topic_id=OTHER_ID, partitions=(5,)),)
    protocols = ClassicProtocol(name="range", metadata=bytes(200)), ClassicProtocol(name="sticky", metadata=b"")
    target_value = ConsumerGroupTargetAssignmentMemberValue
    current_value = ConsumerGroupCurrentMemberAssignmentValue
    return [
        Golden("member", GroupRecord(member, _member())),
        Golden("member-of-the-classic-protocol", GroupRecord(member, _classic_member(45_000, protocols))),
        # This is what absence means to Kafka, so it does not write it.
        Golden("member-of-the-classic-protocol-without-protocols", GroupRecord(member, _classic_member(0, ()))),
        Golden("target-of-a-member", GroupRecord(target, target_value(topic_partitions=assigned))),
        Golden("target-of-a-member-without-partitions", GroupRecord(target, target_value(topic_partitions=()))),
        Golden(
            "assignment-of-a-member",
            GroupRecord(
                current,
                current_value(
                    member_epoch=5,
                    previous_member_epoch=4,
                    state=1,
                    assigned_partitions=owned,
                    partitions_pending_revocation=revoked,
                ),
            ),
        ),
        Golden(
            "assignment-of-a-member-without-partitions",
            GroupRecord(
                current,
                current_value(
                    member_epoch=-2,
                    previous_member_epoch=0,
                    state=0,
                    assigned_partitions=(),
                    partitions_pending_revocation=(),
                ),
            ),
        ),
    ]


def _member() -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id="static",
        rack_id="rack-a",
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=("orders", LONG),
        subscribed_topic_regex="orders-.*",
        rebalance_timeout_ms=300_000,
        server_assignor="uniform",
    )


def _classic_member(
    session_timeout_ms: int, protocols: tuple[ClassicProtocol, ...]
) -> ConsumerGroupMemberMetadataValue:
    """Return a member without anything optional, whose client uses the classic protocol."""
    classic = ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=protocols)
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="/127.0.0.1",
        subscribed_topic_names=(),
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=classic,
    )


# --- deletions -------------------------------------------------------------------------------------------------------


def _deletions() -> list[Golden]:
    commit = OffsetCommitKey(group="", topic="orders", partition=0)
    return [
        Golden("offset-commit-of-0.8-deleted", GroupRecord(commit, None), type=0),
        Golden("offset-commit-deleted", GroupRecord(commit, None)),
        Golden("classic-group-deleted", GroupRecord(GroupMetadataKey(group=LONG), None)),
        Golden("consumer-group-deleted", GroupRecord(ConsumerGroupMetadataKey(group_id=GROUP), None)),
    ]


RECORDS: Final = _records()

GROUP_IDS: Final = (
    "",
    "a",
    "group",
    "my-consumer-group",
    GROUP,
    "Ünïcödé",
    "日本語",
    # Surrogate pairs in UTF-16: the hash takes each half by itself.
    "😀",
    "\U00010000\U0010ffff",
    # Their hashes are the smallest int32, the smallest but one, and the largest.
    "polygenelubricants",
    "polygenelubricantt",
    "polygenelubricantr",
    "console-consumer-12345",
    "\x00\uffff",
    "x" * 1000,
)
"""Group ids whose partition Kafka computes."""
