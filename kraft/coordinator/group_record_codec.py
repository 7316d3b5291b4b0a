"""Encodes records of `__consumer_offsets` as Kafka 4.3 writes them, and decodes what any version of Kafka wrote."""

from __future__ import annotations

from typing import Final

from kraft.coordinator import numbered_message
from kraft.coordinator.group_record import GroupRecord, InvalidGroupRecord, UnknownGroupRecord
from kraft.coordinator.group_records import (
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
    OffsetCommitKey,
    OffsetCommitValue,
)
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError

_KEY_VERSION: Final = 0
_LEGACY_OFFSET_COMMIT: Final = 0
"""Type of the offset commits of Kafka 0.8. Nothing else in them differs from later ones."""

_KINDS: Final[dict[type[Message], type[Message]]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
}
"""The kind of value that belongs to each kind of key."""

_KEY_KINDS: Final[dict[int, type[Message]]] = {
    _LEGACY_OFFSET_COMMIT: OffsetCommitKey,
    **{kind.message_key: kind for kind in _KINDS},
}
"""The kind of key of each type of record."""


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value. Raises struct.error for a value that does not fit its field, which is a bug."""
    key, value = record.key, record.value
    encoded_key = numbered_message.encode(type(key).message_key, key, _KEY_VERSION)
    if value is None:
        return encoded_key, None
    assert type(value) is _KINDS[type(key)], f"{value!r} does not belong to {key!r}"
    version = value_version(value)
    return encoded_key, numbered_message.encode(version, value, version)


def value_version(value: Message) -> int:
    """Return the version in which Kafka 4.3 writes a value: not the newest if an older Kafka may have to read it."""
    match value:
        case OffsetCommitValue():
            # Only version 1 has an expiry. It has neither leader epoch nor topic id, which are lost.
            return 4 if value.expire_timestamp == -1 else 1
        case GroupMetadataValue():
            return 3
        case _:
            return 0


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | UnknownGroupRecord:
    """Return the record, in memory in proportion to its bytes. As in Kafka, bytes after the last field are ignored.

    Raises InvalidGroupRecord and nothing else.
    """
    if key is None:
        raise InvalidGroupRecord("a record of __consumer_offsets has no key")
    record_type = _int16(key)
    kind = _KEY_KINDS.get(record_type)
    if kind is None:
        return UnknownGroupRecord(record_type)
    decoded_key = _decoded(kind, _KEY_VERSION, key)
    if value is None:
        return GroupRecord(decoded_key, None)
    version = _int16(value)
    if version not in _KINDS[kind].versions:
        return UnknownGroupRecord(record_type, version)
    return GroupRecord(decoded_key, _decoded(_KINDS[kind], version, value))


def _int16(data: bytes) -> int:
    try:
        return numbered_message.number_of(data)
    except ProtocolError as error:
        raise InvalidGroupRecord(str(error)) from error


def _decoded(kind: type[Message], version: int, data: bytes) -> Message:
    try:
        return numbered_message.decode(kind, version, data)
    except ProtocolError as error:
        raise InvalidGroupRecord(str(error)) from error
