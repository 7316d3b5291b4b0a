"""From decided records to the payloads of entries of the metadata log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft.metadata.records import MetadataRecord, TransactionAborted, TransactionBegun, TransactionEnded
from kraft.rpc.metadata_codec import encode_records

ENTRY_BYTES_MAX: Final = 32 * 1024
"""Waiting commands share an entry up to this size. Records of a single command that are more take several entries, so
that no node is busy with one for long; a single record may be larger."""

ABORTED: Final = encode_records([TransactionAborted()])
_BEGUN: Final = encode_records([TransactionBegun()])
_ENDED: Final = encode_records([TransactionEnded()])


def transaction(records: Iterable[MetadataRecord]) -> Iterator[bytes]:
    """The payloads of a transaction with these records; without markers when one entry holds them.

    Each is encoded, and its records are asked for, when it is asked for itself and one more.
    """
    before, part = _BEGUN, b""
    for following in _parts(records):
        if part:
            # Encoded lists of records may be joined: protobuf reads repeated fields piece by piece.
            yield before + part
            before = b""
        part = following
    if part:
        yield part if before else part + _ENDED


def _parts(records: Iterable[MetadataRecord]) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = 0
    for record in records:
        piece = encode_records([record])
        if pieces and size + len(piece) > ENTRY_BYTES_MAX:
            yield b"".join(pieces)
            pieces, size = [], 0
        pieces.append(piece)
        size += len(piece)
    if pieces:
        yield b"".join(pieces)
