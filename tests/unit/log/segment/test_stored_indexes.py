from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.segment.offset_index import OffsetIndex
from kraft.log.segment.stored_indexes import StoredOffsetIndex, StoredTimeIndex
from kraft.log.segment.time_index import TimeIndex


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(990, 1_300))
def test_a_stored_offset_index_says_what_the_decoded_one_does(sizes: list[int], offset: int) -> None:
    index = OffsetIndex(1_000, 0)
    last_offset = 999
    for number, size in enumerate(sizes):
        last_offset += size
        index.note_batch(last_offset, number * 100, 100)
    stored = StoredOffsetIndex(index.encode(), 1_000)
    assert stored.last == index.last
    assert stored.entry_before_offset(offset) == index.entry_before_offset(offset)
    assert stored.position_up_to(10 * (offset - 990)) == index.position_up_to(10 * (offset - 990))


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(-1, 60))
def test_a_stored_time_index_says_what_the_decoded_one_does(timestamps: list[int], timestamp_ms: int) -> None:
    index = TimeIndex(1_000)
    for number, each in enumerate(timestamps):
        index.note(each, 1_000 + number)
    stored = StoredTimeIndex(index.encode(), 1_000)
    assert stored.entries_around(timestamp_ms) == index.entries_around(timestamp_ms)


def test_what_is_no_whole_number_of_entries_is_no_index() -> None:
    with pytest.raises(ValueError, match="7 bytes"):
        StoredOffsetIndex(bytes(7), 0)
    with pytest.raises(ValueError, match="13 bytes"):
        StoredTimeIndex(bytes(13), 0)
