"""The records that every golden batch holds."""

from __future__ import annotations

from typing import Final

from kraft.log.format.record_codec import Record

BASE_TIMESTAMP_MS: Final = 1_700_000_000_000
_TEXT: Final = b"the quick brown fox jumps over the lazy dog, "

RECORDS: Final = [
    Record(offset, BASE_TIMESTAMP_MS + delta_ms, key, value, headers)
    for offset, (delta_ms, key, value, headers) in enumerate(
        [
            (0, b"key", b"value", ()),
            (1, None, b"no key", ()),
            (1, b"a tombstone", None, ()),
            (2, None, None, ()),
            (3, b"", b"", ()),
            # Time goes backwards by one byte of varint, then by more, then far ahead.
            (-5, b"earlier", b"v", ()),
            (-100_000, b"much earlier", b"v", ()),
            (5_000_000_000, b"much later", b"v", ()),
            (4, b"h", b"one header", (("name", b"value"),)),
            (
                4,
                b"h",
                b"all kinds",
                (("twice", b"1"), ("twice", b"2"), ("null", None), ("empty", b""), ("näme", b"\xff\x00")),
            ),
            # Around the sizes at which a varint grows: 63 | 64 and 8191 | 8192.
            (5, b"k" * 63, b"v" * 64, ()),
            (5, b"k" * 64, b"v" * 63, ()),
            (5, None, b"v" * 8191, ()),
            (5, None, b"v" * 8192, ()),
            # More than one block of snappy's framing.
            (6, b"long", _TEXT * 900, ()),
            (7, b"every byte", bytes(range(256)), ()),
        ]
    )
]
