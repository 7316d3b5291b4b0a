"""Partitions of the rows of an Arrow batch, by the hash of their keys as Kafka's clients compute it: MurmurHash2.

All keys of a batch are hashed together, four bytes at a time: a function called for each key takes a hundred times as
long. `kraft.client.partition_for_key` does the same for one key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ANY: Final = -1
"""The partition of a row that may go to any."""

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)

Places = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint32]


def places_of(keys: pa.Array | None, partitions: pa.Array | None, rows: int, partition_count: int) -> Places | None:
    """Return the partition of each row: the one that is given, else by its key, else ANY; None if it is ANY for all."""
    has_keys = keys is not None and keys.null_count < len(keys)
    has_partitions = partitions is not None and partitions.null_count < len(partitions)
    if not has_keys and not has_partitions:
        return None
    places = np.full(rows, ANY, dtype=np.int32)
    if has_keys:
        assert keys is not None
        known = ~np.asarray(keys.is_null())
        hashed = (hashes(keys) & _POSITIVE) % np.uint32(partition_count)
        places[known] = hashed.astype(np.int32)[known]
    if has_partitions:
        assert partitions is not None
        given = ~np.asarray(partitions.is_null())
        places[given] = np.asarray(partitions.fill_null(0), dtype=np.int32)[given]
    return places


def rows_by_place(places: Places) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each partition with its rows, in their order."""
    order = np.argsort(places, kind="stable")
    distinct, starts = np.unique(places[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


def hashes(keys: pa.Array) -> Hashes:
    """Return the hash of each key, an array of binary; that of a null is any number."""
    starts, sizes, data = _layout(keys)
    # At least one word beyond the last key, so that a key's last word can be read whole.
    padded = np.zeros(len(data) + 8, dtype=np.uint8)
    padded[: len(data)] = data
    mixed = _SEED ^ sizes.astype(np.uint32)
    words = sizes // 4
    with np.errstate(over="ignore"):
        for number in range(int(words.max(initial=0))):
            has_word = np.flatnonzero(words > number)
            word = _word(padded, starts[has_word] + 4 * number) * _MULTIPLIER
            word = (word ^ (word >> np.uint32(24))) * _MULTIPLIER
            mixed[has_word] = mixed[has_word] * _MULTIPLIER ^ word
        rest = sizes % 4
        has_rest = np.flatnonzero(rest > 0)
        masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)[rest[has_rest]]
        last = _word(padded, starts[has_rest] + 4 * words[has_rest]) & masks
        mixed[has_rest] = (mixed[has_rest] ^ last) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint32(13))) * _MULTIPLIER
    return mixed ^ (mixed >> np.uint32(15))


def _word(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> Hashes:
    """Return the four bytes from each start, the lowest first."""
    word = data[starts].astype(np.uint32)
    for byte in range(1, 4):
        word |= data[starts + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _layout(keys: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where each key begins, its size, and the bytes of all."""
    is_large = pa.types.is_large_binary(keys.type)
    assert is_large or pa.types.is_binary(keys.type), f"keys of type {keys.type}"
    _, offsets, data = keys.buffers()
    kind = np.int64 if is_large else np.int32
    bounds = np.frombuffer(offsets, dtype=kind)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    contents = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]
    return bounds[:-1] - bounds[0], np.diff(bounds), contents
