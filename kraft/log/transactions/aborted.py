"""An aborted transaction, and its entry in the file `.txnindex` beside a segment.

The format is Kafka's: 34 bytes, big-endian - a version (int16), the producer id, the transaction's first offset, the
offset of its abort marker, and the last stable offset once the marker was written (int64 each). There is no checksum.
A segment's index has the transactions whose markers are in the segment; they may have begun in an earlier one.
Source: Kafka's AbortedTxn and TransactionIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.log.format.record_batch import OFFSET_MAX

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_VERSION: Final = 0

ENTRY_BYTES: Final = _ENTRY.size


class AbortedTxn(NamedTuple):
    """A transaction that an abort marker has ended, in one partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""

    last_stable_offset: int
    """Below it no transaction was open when the marker was written: later entries begin at or above it."""

    def encode(self) -> bytes:
        return _ENTRY.pack(ENTRY_VERSION, *self)


def decode_entries(data: bytes | bytearray) -> Iterator[AbortedTxn]:
    """Yield the entries of a `.txnindex`. Raises ValueError for bytes that are none."""
    if len(data) % ENTRY_BYTES:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
        if version != ENTRY_VERSION:
            raise ValueError(f"an entry has version {version}, not {ENTRY_VERSION}")
        yield AbortedTxn(producer_id, first_offset, last_offset, last_stable_offset)


def check_entries(data: bytes, base_offset: int, next_offset: int) -> None:
    """Raise ValueError unless these can be the entries of a segment with offsets [base_offset, next_offset)."""
    earlier = base_offset - 1
    for entry in decode_entries(data):
        if not (
            0 <= entry.first_offset <= entry.last_offset
            and earlier < entry.last_offset < next_offset
            and entry.producer_id >= 0
            and 0 <= entry.last_stable_offset <= OFFSET_MAX
        ):
            raise ValueError(f"{entry} does not fit offsets {base_offset} to {next_offset - 1}, after {earlier}")
        earlier = entry.last_offset
