"""The usual response to a Produce request: every batch was appended.

Few of its fields differ, so those of a partition are packed together. The codec that is generated from the declarations
gives the same bytes, out of an object for each topic and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct as Packed
from typing import Final
from uuid import UUID

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.produce import ProducePartitionResult
from kraft.wire.schema.produce import ProduceResponse
from kraft.wire.varint import SMALL_UVARINTS, encode_uvarint

_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = ProduceResponse.flexible.first
_TOPIC_IDS_FROM: Final = 13

_SHORT: Final = Packed(">h")
_INT: Final = Packed(">i")
_RESULT: Final = Packed(">ihqqq")
"""Partition, error code, base offset, append time, log start."""

_START_BYTES: Final = 8

_TOPICS_MAX: Final = 1_024
"""Topics that are remembered as they stand in responses; they take a few hundred bytes each."""

_FEW: Final = 50

_NO_TAGGED_FIELDS: Final = b"\0"
_NOT_THROTTLED: Final = bytes(4)


class ProducedTopic(Struct, frozen=True):
    """The part of a request that the response needs."""

    topic: str
    topic_id: UUID
    name: str | None
    """The name, which since version 13 is found by the id; None if the id is unknown, or with a refusal."""

    partitions: list[int]
    refusal: Refusal | None = None
    """Why no batch of the topic may be appended, whatever it holds."""


def encode_produced(
    topics: Sequence[ProducedTopic], results: Sequence[ProducePartitionResult], version: int
) -> bytes | None:
    """Encode the response to a request, with results in its order.

    None unless each topic has batches and all of them were appended.
    """
    result_bytes, no_errors, no_tagged_fields = _LAYOUTS[version]
    rest = iter(results)
    out = _begun(len(topics), _length(len(topics), version))
    for topic in topics:
        partitions = topic.partitions
        if topic.name is None or not partitions:
            return None
        appended = _begun(len(partitions))
        for index, result in zip(partitions, rest, strict=False):
            if result.error_code is not ErrorCode.NONE:
                return None
            appended += _RESULT.pack(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)[
                :result_bytes
            ]
            appended += no_errors
        # Only now, because it is remembered: a client may name any topic, and names that no topic has can be long.
        named = topic.topic if version < _TOPIC_IDS_FROM else topic.topic_id
        out += _topic_head(named, len(partitions), version)
        out += appended
        out += no_tagged_fields
    out += _NOT_THROTTLED
    out += no_tagged_fields
    return bytes(out)


def _begun(pieces: int, first: bytes = b"") -> bytes | bytearray:
    """Return what so many pieces are added to: bytes are faster for a few, but each time all before are copied."""
    return first if pieces <= _FEW else bytearray(first)


def _layout(version: int) -> tuple[int, bytes, bytes]:
    """Return the size of a result, what stands behind it without an error, and what ends each struct."""
    result_bytes = _RESULT.size if version >= _START_FROM else _RESULT.size - _START_BYTES
    if version < _RECORD_ERRORS_FROM:
        return result_bytes, b"", b""
    if version < _FLEXIBLE_FROM:
        return result_bytes, _INT.pack(0) + _SHORT.pack(-1), b""
    return result_bytes, b"\x01\x00" + _NO_TAGGED_FIELDS, _NO_TAGGED_FIELDS


_LAYOUTS: Final = {version: _layout(version) for version in ProduceResponse.versions}


@lru_cache(_TOPICS_MAX)
def _topic_head(named: str | UUID, partitions: int, version: int) -> bytes:
    """Encode the topic's name, or its id, and the number of its partitions."""
    if isinstance(named, UUID):
        return named.bytes + _length(partitions, version)
    name = named.encode()
    size = _length(len(name), version) if version >= _FLEXIBLE_FROM else _SHORT.pack(len(name))
    return size + name + _length(partitions, version)


def _length(count: int, version: int) -> bytes:
    """Encode the length of an array; in flexible versions one more than it is."""
    if version < _FLEXIBLE_FROM:
        return _INT.pack(count)
    return SMALL_UVARINTS[count + 1] if count + 1 < len(SMALL_UVARINTS) else encode_uvarint(count + 1)
