from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.segment.time_index import NO_TIMESTAMP, TimeIndex


def index_of(*timestamps: int) -> TimeIndex:
    """A batch of ten records, from offset 1000 on, for each timestamp."""
    index = TimeIndex(1000)
    for number, timestamp_ms in enumerate(timestamps):
        index.note(timestamp_ms, 1009 + 10 * number)
    return index


def test_golden_an_entry_is_a_timestamp_and_a_relative_offset() -> None:
    data = index_of(1_700_000_000_000, 1_700_000_000_007).encode()
    assert data.hex() == "0000018bcfe5680000000009" + "0000018bcfe5680700000013"
    assert TimeIndex.decode(data, 1000).encode() == data
    assert TimeIndex.decode_last(data[-12:], 1000) == (1_700_000_000_007, 1019)


def test_only_a_larger_timestamp_adds_an_entry() -> None:
    index = index_of(5, 5, 3, 8, NO_TIMESTAMP)
    assert [index.entry(number) for number in range(len(index))] == [(5, 1009), (8, 1039)]
    assert index.last == (8, 1039)


def test_an_empty_index_knows_no_timestamp() -> None:
    assert TimeIndex(7).last == (NO_TIMESTAMP, 7)
    assert TimeIndex(7).entries_around(10**15) == (None, None)
    assert TimeIndex.decode(b"", 7).last == TimeIndex.decode_last(b"", 7) == (NO_TIMESTAMP, 7)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 60))
def test_every_record_up_to_the_entry_found_is_older(timestamps: list[int], timestamp_ms: int) -> None:
    found, after = index_of(*timestamps).entries_around(timestamp_ms)
    offset = 999 if found is None else found[1]
    before = [each for number, each in enumerate(timestamps) if 1009 + 10 * number <= offset]
    assert all(each < timestamp_ms for each in before)
    assert found is not None or not timestamps or timestamps[0] >= timestamp_ms
    assert (after is None) == all(each < timestamp_ms for each in timestamps)
    assert after is None or (after[0] >= timestamp_ms and timestamps[(after[1] - 1009) // 10] == after[0])


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 30))
def test_a_truncated_index_equals_one_of_the_batches_that_are_left(timestamps: list[int], kept: int) -> None:
    index = index_of(*timestamps)
    index.truncate(1000 + 10 * kept)
    assert index.encode() == index_of(*timestamps[:kept]).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0000018bcfe56800", "whole number"),
        ("000000000000000500000001 000000000000000500000002", "does not ascend"),
        ("000000000000000500000002 000000000000000600000002", "does not ascend"),
        ("ffffffffffffffff00000002", "is not a timestamp"),
    ],
)
def test_bytes_that_cannot_be_an_index_are_refused(data: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TimeIndex.decode(bytes.fromhex(data), 1000)
