"""Chooses the partition of a record: by the hash of its key as Kafka's clients do, without a key batch by batch.

The hash is MurmurHash2 with Kafka's seed, so that all clients write a key to the same partition.
Source: Kafka's Utils.murmur2 and BuiltInPartitioner.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_KEYS_REMEMBERED: Final = 1 << 16


def murmur2(data: bytes) -> int:
    """Return the hash as Java does: a signed number of 32 bits."""
    size = len(data)
    mixed = (_SEED ^ size) & _MASK
    words = size // 4
    for word in struct.unpack_from(f"<{words}I", data):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _MASK
        mixed = mixed * _MULTIPLIER & _MASK ^ word
    rest = data[words * 4 :]
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * _MULTIPLIER & _MASK
    mixed ^= mixed >> 15
    return mixed - (1 << 32) if mixed > _POSITIVE else mixed


@lru_cache(maxsize=_KEYS_REMEMBERED)
def _positive_hash(key: bytes) -> int:
    # Keys repeat in practice, and a hash in Python costs more than everything else until the record is in a batch.
    return murmur2(key) & _POSITIVE


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition for a key, the same as Kafka's clients. It changes when the topic gets more partitions."""
    return _positive_hash(key) % partition_count


class StickyPartitioner:
    """Chooses partitions of records without a key: one until a batch is full, then the next, so that batches fill."""

    def __init__(self, first: Callable[[int], int]) -> None:
        """`first` chooses a topic's first partition at random, below its argument, so that producers spread out."""
        self._first = first
        self._current: defaultdict[str, int] = defaultdict(lambda: -1)

    def partition(self, topic: str, partition_count: int) -> int:
        current = self._current[topic]
        if not 0 <= current < partition_count:
            current = self._current[topic] = self._first(partition_count)
        return current

    def batch_is_full(self, topic: str, partition_count: int) -> None:
        """Go on to the topic's next partition."""
        self._current[topic] = (self.partition(topic, partition_count) + 1) % partition_count
