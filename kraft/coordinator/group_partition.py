"""The partition of `__consumer_offsets` that holds a group."""

from __future__ import annotations

import struct


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of the group: `Utils.abs(groupId.hashCode()) % partitions`, as Kafka computes it in Java."""
    return _abs(_hash_code(group_id)) % partitions


def _hash_code(text: str) -> int:
    """Return Java's hash of a string, without a sign. It is computed from the UTF-16 code units."""
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        hashed = 31 * hashed + unit & 0xFFFFFFFF
    return hashed


def _abs(number: int) -> int:
    """Return the absolute value of an int32 that was given without its sign; 0 for the smallest one, as in Kafka."""
    return min(number, 0x1_0000_0000 - number) & 0x7FFFFFFF
