from __future__ import annotations

import pytest

from kraft.log.transactions.aborted import ENTRY_BYTES, AbortedTxn, check_entries, decode_entries

ENTRY = AbortedTxn(producer_id=7, first_offset=10, last_offset=30, last_stable_offset=20)
LATER = AbortedTxn(producer_id=8, first_offset=5, last_offset=31, last_stable_offset=32)


def test_golden_an_entry_has_kafkas_34_bytes() -> None:
    assert ENTRY.encode().hex() == "0000" + "".join(f"{number:016x}" for number in (7, 10, 30, 20))
    assert ENTRY_BYTES == 34


def test_entries_come_back_in_order() -> None:
    assert list(decode_entries(ENTRY.encode() + LATER.encode())) == [ENTRY, LATER]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ENTRY.encode()[:-1], "whole number"),
        (b"\0\1" + ENTRY.encode()[2:], "version 1"),
        (LATER.encode() + ENTRY.encode(), "does not fit"),
        (ENTRY.encode() * 2, "does not fit"),
        (AbortedTxn(7, 10, 9, 20).encode(), "does not fit"),
        (AbortedTxn(7, 10, 100, 20).encode(), "does not fit"),
        (AbortedTxn(-1, 10, 20, 20).encode(), "does not fit"),
    ],
)
def test_what_cannot_be_the_entries_of_the_segment_is_noticed(data: bytes, reason: str) -> None:
    check_entries(ENTRY.encode() + LATER.encode(), 10, 100)
    with pytest.raises(ValueError, match=reason):
        check_entries(data, 10, 100)
