"""The usual response to a Produce request: every batch was appended.

Few of its fields differ, so those of a partition are packed together. The codec that is generated from the declarations
gives the same bytes, out of an object for each topic and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from kraft.model.errors import ErrorCode
from kraft.model.produce import ProducePartitionResult
from kraft.wire.schema.produce import ProduceResponse
from kraft.wire.varint import SMALL_UVARINTS, encode_uvarint

_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = ProduceResponse.flexible.first
_TOPIC_IDS_FROM: Final = 13

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_RESULT: Final = Struct(">ihqqq")
"""Partition, error code, base offset, append time, log start."""

_START_BYTES: Final = 8
_NO_TAGGED_FIELDS: Final = b"\0"
_NOT_THROTTLED: Final = bytes(4)


class ProducedTopic(NamedTuple):
    """The part of a request that the response needs."""

    topic: str
    topic_id: UUID
    name: str | None
    """The name, which since version 13 is found by the id; None if the id is unknown."""

    partitions: list[int]


def are_appended(topics: Sequence[ProducedTopic], results: Sequence[ProducePartitionResult]) -> bool:
    """Return whether the response is the usual one."""
    if any(topic.name is None for topic in topics):
        return False
    return all(result.error_code is ErrorCode.NONE for result in results)


def encode_produced(topics: Sequence[ProducedTopic], results: Sequence[ProducePartitionResult], version: int) -> bytes:
    """Encode the response to a request whose batches were all appended; the results are in its order."""
    is_flexible = version >= _FLEXIBLE_FROM
    result_bytes = _RESULT.size if version >= _START_FROM else _RESULT.size - _START_BYTES
    no_errors = _NO_ERRORS if is_flexible else _NO_ERRORS_AT_FIRST if version >= _RECORD_ERRORS_FROM else b""
    rest = iter(results)
    out = bytearray(_length(len(topics), is_flexible))
    for topic, topic_id, _, partitions in topics:
        if version >= _TOPIC_IDS_FROM:
            out += topic_id.bytes
        else:
            name = topic.encode()
            out += _length(len(name), is_flexible=True) if is_flexible else _SHORT.pack(len(name))
            out += name
        out += _length(len(partitions), is_flexible)
        for index, result in zip(partitions, rest, strict=False):
            numbers = result.base_offset, result.log_append_time_ms, result.log_start_offset
            out += _RESULT.pack(index, 0, *numbers)[:result_bytes]
            out += no_errors
        if is_flexible:
            out += _NO_TAGGED_FIELDS
    out += _NOT_THROTTLED
    if is_flexible:
        out += _NO_TAGGED_FIELDS
    return bytes(out)


_NO_ERRORS: Final = b"\x01\x00" + _NO_TAGGED_FIELDS
"""No errors of single records, no message, no leader to turn to."""

_NO_ERRORS_AT_FIRST: Final = _INT.pack(0) + _SHORT.pack(-1)
"""The same before the flexible versions."""


def _length(count: int, is_flexible: bool) -> bytes:
    """Encode the length of an array; in flexible versions one more than it is."""
    if not is_flexible:
        return _INT.pack(count)
    return SMALL_UVARINTS[count + 1] if count + 1 < len(SMALL_UVARINTS) else encode_uvarint(count + 1)
