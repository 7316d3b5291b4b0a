from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.metadata.persistent_maps import PersistentMap, PersistentSequence

CHANGES = st.lists(st.dictionaries(st.integers(0, 300), st.none() | st.integers(), max_size=150), max_size=6)


class SameHash:
    """A key that no hash tells from others of its kind."""

    def __init__(self, name: int) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameHash) and other.name == self.name


@given(CHANGES)
def test_a_map_holds_what_a_dict_would(rounds: list[dict[int, int | None]]) -> None:
    expected: dict[int, int] = {}
    actual: PersistentMap[int, int] = PersistentMap()
    for changes in rounds:
        before, expected_before = actual, dict(expected)
        actual = actual.with_changes(changes)
        for key, item in changes.items():
            if item is None:
                expected.pop(key, None)
            else:
                expected[key] = item
        assert actual == expected
        assert expected == actual
        assert len(actual) == len(expected)
        assert before == expected_before, "a map never changes"
        assert PersistentMap(expected) == actual


@given(CHANGES)
def test_maps_tell_which_items_differ(rounds: list[dict[int, int | None]]) -> None:
    before: PersistentMap[int, int] = PersistentMap({key: -key - 1_000 for key in range(100)})
    after = before
    for changes in rounds:
        after = after.with_changes(changes)
    differing = {key for key in {*before, *after} if before.get(key) is not after.get(key)}
    assert sorted(after.differing_keys(before)) == sorted(differing)
    assert sorted(before.differing_keys(after)) == sorted(differing)
    assert sorted(before.differing_keys(dict(after))) == sorted(differing)


def test_keys_of_the_same_hash_are_distinguished() -> None:
    keys = [SameHash(name) for name in range(500)]
    same = PersistentMap({key: key.name for key in keys})
    assert all(same[key] == key.name for key in keys)
    assert len(same.with_changes({keys[3]: None})) == 499


def test_a_change_of_a_large_map_shares_nearly_everything() -> None:
    large: PersistentMap[int, object] = PersistentMap({hash(str(key)): object() for key in range(50_000)})
    key = next(iter(large))
    changed = large.with_changes({key: "changed"})
    assert list(changed.differing_keys(large)) == [key]
    assert len(changed) == len(large)


def test_a_key_that_is_not_there_is_missed() -> None:
    with pytest.raises(KeyError):
        PersistentMap({1: "one"})[33]
    with pytest.raises(KeyError):
        PersistentSequence(["none"])[-1]
    assert PersistentSequence(["none"]).get(1) is None


@given(st.integers(0, 200), st.sets(st.integers(0, 199), max_size=30), st.integers(0, 150))
def test_a_sequence_holds_what_a_list_would(length: int, replaced: set[int], added: int) -> None:
    before = PersistentSequence(range(1_000, 1_000 + length))
    changes = {number: -number - 1 for number in replaced if number < length}
    changes |= {number: -number - 1 for number in range(length, length + added)}
    after = before.with_changes(changes)
    expected = {number: changes.get(number, 1_000 + number) for number in range(length + added)}
    assert after == expected
    assert list(after) == list(expected)
    assert list(after.values()) == list(expected.values())
    assert list(after.items()) == list(expected.items())
    assert list(before) == list(range(length)), "a sequence never changes"
    assert list(after.differing_keys(before)) == sorted(changes)
    assert list(before.differing_keys(after)) == sorted(changes)
    assert PersistentSequence.of(expected) == after
