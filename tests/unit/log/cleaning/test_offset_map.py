"""The offset map: the newest offset of each key, in a dict while keys are few, then in a table."""

from __future__ import annotations

import sys
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.cleaning.offset_map import LOAD_FACTOR, SLOT_BYTES, OffsetMap

LARGE = 1 << 20

SMALL = 3_000
"""Two thirds of it are the table: 83 slots, of which 74 may be filled. A dict in the other third holds few keys."""


@pytest.mark.parametrize("bytes_max", [LARGE, SMALL])
def test_the_offset_put_last_is_the_newest(bytes_max: int) -> None:
    offsets = OffsetMap(bytes_max)
    assert offsets.put_all([b"a", b"b", b"a"], [0, 1, 2])
    assert offsets.put_all([b"b"], [7])
    assert offsets.newest_of([b"a", b"b"], [0, 1]) == [2, 7]
    assert len(offsets) == 2


@pytest.mark.parametrize("bytes_max", [LARGE, SMALL])
def test_a_key_that_was_never_put_has_nothing_newer_than_itself(bytes_max: int) -> None:
    offsets = OffsetMap(bytes_max)
    offsets.put_all([b"a"], [5])
    assert offsets.newest_of([b"z", b"a"], [3, 4]) == [3, 5]


@pytest.mark.parametrize("bytes_max", [LARGE, 300])
def test_a_record_without_a_key_is_never_the_newest(bytes_max: int) -> None:
    offsets = OffsetMap(bytes_max)
    assert offsets.put_all([None, b"a", None], [0, 1, 2])
    assert offsets.newest_of([None, b"a"], [2, 1]) == [-1, 1]
    assert len(offsets) == 1


def test_an_empty_key_is_a_key() -> None:
    offsets = OffsetMap(LARGE)
    offsets.put_all([b""], [4])
    assert offsets.newest_of([b""], [1]) == [4]


def test_offset_zero_is_an_offset() -> None:
    offsets = OffsetMap(300)
    offsets.put_all([b"a"], [0])
    assert offsets.newest_of([b"a"], [0]) == [0]


def test_a_full_map_says_so_and_takes_known_keys_all_the_same() -> None:
    offsets = OffsetMap(SMALL)
    taken = next(number for number in count() if not offsets.put_all([b"key %d" % number], [number]))
    assert taken == len(offsets) > 50
    assert not offsets.put_all([b"another"], [1_000])
    assert offsets.put_all([b"key 0"], [1_001])
    assert offsets.newest_of([b"key 0", b"key 1", b"another"], [0, 1, 5]) == [1_001, 1, 5]


def test_a_batch_with_more_keys_than_the_map_has_room_for_is_not_put() -> None:
    assert not OffsetMap(SMALL).put_all([b"%d" % number for number in range(500)], range(500))


@pytest.mark.parametrize("bytes_max", [0, 1, 30, 72])
def test_a_map_of_almost_no_bytes_takes_nothing(bytes_max: int) -> None:
    offsets = OffsetMap(bytes_max)
    assert not offsets.put_all([b"a", b"b"], [1, 2])
    assert offsets.newest_of([b"z"], [1]) == [1]


@pytest.mark.parametrize("key_bytes", [4, 400])
def test_memory_stays_within_the_bound_whatever_the_keys_are(key_bytes: int) -> None:
    bytes_max = 1 << 18
    offsets = OffsetMap(bytes_max)
    for number in range(100_000):
        if not offsets.put_all([b"%0*d" % (key_bytes, number)], [number]):
            break
        assert offsets.size_bytes <= bytes_max
    assert len(offsets) > 0.6 * LOAD_FACTOR * bytes_max / SLOT_BYTES


def test_the_memory_of_the_dict_is_not_underestimated() -> None:
    keys = [b"key %06d" % number for number in range(20_000)]
    offsets = OffsetMap(100 << 20)
    for start in range(0, len(keys), 1_000):
        offsets.put_all(keys[start : start + 1_000], range(start, start + 1_000))
    exact = dict(zip(keys, range(20_000), strict=True))
    true_size = sys.getsizeof(exact) + sum(sys.getsizeof(key) + sys.getsizeof(value) for key, value in exact.items())
    assert true_size <= offsets.size_bytes <= 1.5 * true_size


@given(
    batches=st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=2)), max_size=20), max_size=20),
    bytes_max=st.sampled_from([0, 100, 200, 400, 1_000, 3_000, LARGE]),
)
def test_it_is_a_dict_that_may_be_full(batches: list[list[bytes | None]], bytes_max: int) -> None:
    offsets = OffsetMap(bytes_max)
    plain: dict[bytes, int] = {}
    offset = 0
    for keys in batches:
        own = list(range(offset, offset + len(keys)))
        offset += len(keys)
        if not offsets.put_all(keys, own):
            break
        plain.update((key, position) for key, position in zip(keys, own, strict=True) if key is not None)
        assert len(offsets) == len(plain)
        expected = [-1 if key is None else plain[key] for key in keys]
        assert offsets.newest_of(keys, own) == expected
