"""The committed offset of one partition."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.coordinator.group_records import OffsetCommitValue
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from kraft.wire.declaration import ZERO_UUID

NO_EXPIRE_TIMESTAMP: Final = -1
"""In a record: the offset has no expire timestamp of its own."""


class CommittedOffset(Struct, frozen=True, kw_only=True):
    """The next offset that a group reads from a partition, as it was committed."""

    offset: Offset
    """Not checked, as in Kafka: a negative one is stored and returned like any other."""

    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Epoch of the last record that was read; -1 if the client did not send it."""

    metadata: str = ""
    """The client's own text."""

    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """When the offset expires, if the client sent a retention time. Only clients before Kafka 2.1 do (KIP-211)."""

    topic_id: TopicId | None = None
    """None if the client committed by name."""


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    """Return the offset that a record has."""
    return CommittedOffset(
        offset=Offset(value.offset),
        leader_epoch=LeaderEpoch(value.leader_epoch),
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == NO_EXPIRE_TIMESTAMP else value.expire_timestamp,
        topic_id=None if value.topic_id == ZERO_UUID else TopicId(value.topic_id),
    )
