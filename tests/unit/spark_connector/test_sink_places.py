"""Rows go to the partitions to which Kafka's clients send their keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kraft.client import partition_for_key
from spark_connector.sink_places import ANY, places_of, rows_by_place

KEYS = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=50)


@given(keys=KEYS, count=st.integers(1, 60), cut=st.integers(0, 10), is_large=st.booleans())
def test_keys_have_the_partitions_of_the_client(keys: list[bytes | None], count: int, cut: int, is_large: bool) -> None:
    array = pa.array(keys, pa.large_binary() if is_large else pa.binary()).slice(cut)
    kept = keys[cut:]
    places = places_of(array, None, len(kept), count)
    expected = [ANY if key is None else partition_for_key(key, count) for key in kept]
    assert expected == ([ANY] * len(kept) if places is None else places.tolist())


def test_a_partition_that_is_given_counts_more_than_the_key() -> None:
    keys, partitions = pa.array([b"a", b"b", None, None]), pa.array([7, None, 2, None], pa.int32())
    places = places_of(keys, partitions, 4, 10)
    assert places is not None
    assert places.tolist() == [7, partition_for_key(b"b", 10), 2, ANY]


def test_without_keys_and_partitions_rows_may_go_anywhere() -> None:
    assert places_of(None, None, 2, 3) is None
    assert places_of(pa.array([None, None], pa.binary()), pa.array([None, None], pa.int32()), 2, 3) is None


def test_the_rows_of_a_partition_keep_their_order() -> None:
    places = places_of(None, pa.array([1, 0, 1, 2, 0], pa.int32()), 5, 3)
    assert places is not None
    assert [(place, rows.tolist()) for place, rows in rows_by_place(places)] == [(0, [1, 4]), (1, [0, 2]), (2, [3])]
