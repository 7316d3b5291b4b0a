from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.segment.offset_index import OffsetIndex


def index_of(sizes: list[int], interval_bytes: int = 100, base_offset: int = 1000) -> tuple[OffsetIndex, list[int]]:
    """Batches of ten offsets each; their start positions."""
    index = OffsetIndex(base_offset, interval_bytes)
    positions: list[int] = []
    position = 0
    for number, size in enumerate(sizes):
        index.note_batch(base_offset + 10 * number + 9, position, size)
        positions.append(position)
        position += size
    return index, positions


def test_golden_the_file_is_kafkas() -> None:
    index, _ = index_of([101, 50, 60, 200])
    # Entries: last offset 1019 at 101, then 1039 at 211. Relative offset and position, four bytes each.
    assert index.encode() == bytes.fromhex("00000013 00000065  00000027 000000d3")


def test_entries_are_further_apart_than_the_interval() -> None:
    assert len(index_of([100, 1, 100])[0]) == 1
    assert len(index_of([100, 100])[0]) == 0
    assert len(index_of([101, 101, 101])[0]) == 2


@given(st.lists(st.integers(61, 300), max_size=50), st.integers(0, 200), st.integers(0, 600))
def test_a_look_up_never_lands_behind_the_batch(sizes: list[int], interval_bytes: int, relative: int) -> None:
    index, positions = index_of(sizes, interval_bytes)
    found = index.entry_before_offset(1000 + relative)[1]
    assert found in [0, *positions]
    if relative // 10 < len(sizes):
        assert found <= positions[relative // 10]


@given(st.lists(st.integers(61, 300), max_size=50), st.integers(0, 200), st.integers(0, 15_000))
def test_the_last_position_up_to_another_is_that_of_a_batch(
    sizes: list[int], interval_bytes: int, position: int
) -> None:
    index, positions = index_of(sizes, interval_bytes)
    found = index.position_up_to(position)
    assert found <= position
    assert found in [0, *positions]
    # Every batch behind it is near it, or begins above the position.
    later = [each for each in positions if found < each <= position]
    assert all(each - found <= interval_bytes + 300 for each in later)


@given(st.lists(st.integers(61, 300), min_size=1, max_size=50), st.integers(0, 200), st.data())
def test_a_truncated_or_decoded_index_equals_one_made_by_a_scan(
    sizes: list[int], interval_bytes: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, len(sizes)))
    index, _ = index_of(sizes, interval_bytes)
    index.truncate(sum(sizes[:kept]))
    expected, _ = index_of(sizes[:kept], interval_bytes)
    assert index.encode() == expected.encode()
    read_back = OffsetIndex.decode(expected.encode(), 1000, interval_bytes, sum(sizes[:kept]))
    for one in (index, expected, read_back):
        one.note_batch(9000, sum(sizes[:kept]), 100)
    assert index.encode() == expected.encode() == read_back.encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("000000130000", "whole number"),
        ("0000001300000065 00000014 00000065", "positions do not ascend"),
        ("0000001300000065 00000013 00000064", "positions do not ascend"),
        ("0000001300000065 00000012 00000066", "offsets do not ascend"),
        ("0000001300001000", "beyond the end"),
        ("0000001300000065 0000000000000000", "do not ascend"),
    ],
)
def test_bytes_that_cannot_be_an_index_are_refused(data: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        OffsetIndex.decode(bytes.fromhex(data), 1000, 100, 4096)
