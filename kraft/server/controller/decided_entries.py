"""Encodes decided records into the payloads of metadata log entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft.metadata.records import (
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
)
from kraft.rpc.metadata_codec import encode_records

ENTRY_BYTES_MAX: Final = 32 * 1024
"""Waiting commands share an entry up to this size. A command with more records takes several entries, so that no node
is busy with one entry for long; a single record may be larger."""

ABORTED: Final = encode_records([MetadataTransactionAborted()])
_BEGUN: Final = encode_records([MetadataTransactionBegun()])
_ENDED: Final = encode_records([MetadataTransactionEnded()])


def transaction(records: Iterable[MetadataRecord]) -> Iterator[bytes]:
    """Yield the payloads of a transaction with these records; without markers if one entry holds them.

    Records are consumed and encoded on demand, one payload ahead.
    """
    before, part = _BEGUN, b""
    for following in _parts(records):
        if part:
            # Encoded lists of records can be concatenated: protobuf merges repeated fields.
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
