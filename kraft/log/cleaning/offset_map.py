"""A map from each key to its newest offset, in bounded memory.

While keys are few, a dict of the keys themselves is the fastest. When it has used its share of the bound, everything
moves into a table of 24 bytes per key: a hash of 128 bits instead of the key, and the offset. Two keys with the same
hash would count as one; at 128 bits that does not happen by chance. Kafka's SkimpyOffsetMap is such a table, and
its cleaner fills it to 0.9.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 16
SLOT_BYTES: Final = HASH_BYTES + 8
LOAD_FACTOR: Final = 0.9

_EXACT_SHARE: Final = 3
"""The dict may use a third of the bound: while it moves into the table, both exist."""

_BYTES_OVERHEAD: Final = sys.getsizeof(b"") + 15
"""Memory of a key object beyond its bytes, rounded up as the allocator does."""

_OFFSET_BYTES: Final = 32
"""Memory of an offset object."""

_HALVES: Final = struct.Struct("<QQ")
_EMPTY: Final = -1


class OffsetMap:
    """Newest offset of each key. Callers add offsets in ascending order, so the last one added is the newest."""

    def __init__(self, bytes_max: int) -> None:
        self._exact: dict[bytes | None, int] = {}
        self._exact_bytes_max = bytes_max // _EXACT_SHARE
        self._key_bytes = 0
        self._table_bytes_max = bytes_max - self._exact_bytes_max
        self._table: _HashTable | None = None

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._exact) if self._table is None else len(self._table)

    @property
    def size_bytes(self) -> int:
        """Upper bound of the memory that the map uses now."""
        return self._exact_bytes if self._table is None else self._table.size_bytes

    @property
    def _exact_bytes(self) -> int:
        return sys.getsizeof(self._exact) + self._key_bytes

    def put_all(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Add the records of a batch; those without a key are skipped.

        Returns False if not all keys fit: some of them may be in the map, and the batch counts as not added.
        """
        if self._table is not None:
            return self._table.put_all(keys, offsets)
        exact = self._exact
        known = len(exact)
        exact.update(zip(keys, offsets, strict=True))
        exact.pop(None, None)
        if len(exact) > known:
            # Only the number of new keys is known, not which: each is counted as the longest of the batch.
            longest = max(map(len, filter(None, keys)), default=0)
            self._key_bytes += (len(exact) - known) * (longest + _BYTES_OVERHEAD + _OFFSET_BYTES)
            if self._exact_bytes > self._exact_bytes_max:
                return self._move_into_table()
        return True

    def newest_of(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int]:
        """Return the newest offset of each record's key; its own offset for an unknown key, -1 without a key."""
        if self._table is not None:
            return self._table.newest_of(keys, offsets)
        exact = self._exact
        exact[None] = _EMPTY
        newest = list(map(exact.get, keys, offsets))
        del exact[None]
        return newest

    def _move_into_table(self) -> bool:
        self._table = _HashTable(self._table_bytes_max)
        exact, self._exact = self._exact, {}
        return self._table.put_all(exact.keys(), exact.values())


class _HashTable:
    """Hash table with open addressing and double hashing, in arrays that are allocated once.

    The number of slots is prime, so that any step visits all of them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._slots = _prime_at_most(bytes_max // SLOT_BYTES)
        self._keys_max = int(self._slots * LOAD_FACTOR)
        self._firsts = array("Q", bytes(8 * self._slots))
        self._seconds = array("Q", bytes(8 * self._slots))
        self._offsets = array("q", b"\xff" * (8 * self._slots))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        return SLOT_BYTES * self._slots

    def put_all(self, keys: Iterable[bytes | None], offsets: Iterable[int]) -> bool:
        firsts, seconds, known = self._firsts, self._seconds, self._offsets
        for key, offset in zip(keys, offsets, strict=True):
            if key is None:
                continue
            slot, first, second = self._find(key)
            if slot < 0 or known[slot] == _EMPTY:
                if self._count >= self._keys_max:
                    return False
                self._count += 1
                firsts[slot] = first
                seconds[slot] = second
            known[slot] = offset
        return True

    def newest_of(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int]:
        known = self._offsets
        newest: list[int] = []
        for key, offset in zip(keys, offsets, strict=True):
            if key is None:
                newest.append(_EMPTY)
                continue
            slot, _, _ = self._find(key)
            found = known[slot] if slot >= 0 else _EMPTY
            newest.append(offset if found == _EMPTY else found)
        return newest

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """Return the slot that holds the key, or the empty slot for it, and both halves of its hash.

        There is always an empty slot, because the table is never full; in a table without slots, the slot is -1.
        """
        first, second = _HALVES.unpack(blake2b(key, digest_size=HASH_BYTES).digest())
        slots = self._slots
        if slots == 0:
            return -1, first, second
        slot = first % slots
        if self._offsets[slot] == _EMPTY or (self._firsts[slot] == first and self._seconds[slot] == second):
            return slot, first, second
        step = 1 + second % (slots - 1)
        while True:
            slot = (slot + step) % slots
            if self._offsets[slot] == _EMPTY or (self._firsts[slot] == first and self._seconds[slot] == second):
                return slot, first, second


def _prime_at_most(number: int) -> int:
    """Return the largest prime up to `number`; 0 if there is none."""
    while number >= 2 and any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number if number >= 2 else 0
