from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kraft.runtime.cycle_collector import bound_collections, exempt_existing_objects, imports_exempted


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_existing_objects_are_exempt_and_later_ones_are_collected() -> None:
    there: list[list[int]] = [[]]
    exempt_existing_objects()
    later: list[list[int]] = [[]]
    tracked = {id(each) for each in gc.get_objects()}
    assert id(there) not in tracked
    assert id(later) in tracked


def test_what_survives_a_full_collection_is_exempt_from_the_next_ones() -> None:
    bound_collections()
    bound_collections()
    long_lived: list[list[int]] = [[]]
    gc.collect(1)
    assert id(long_lived) in {id(each) for each in gc.get_objects()}
    gc.collect()
    assert id(long_lived) not in {id(each) for each in gc.get_objects()}
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0, "what was created since is collected"


def test_imports_are_exempt_and_what_comes_after_a_failed_one_is_collected_again() -> None:
    with pytest.raises(ModuleNotFoundError), imports_exempted():  # noqa: PT012  What is created before counts.
        assert not gc.isenabled()
        imported: list[list[int]] = [[]]
        raise ModuleNotFoundError
    assert gc.isenabled()
    later: list[list[int]] = [[]]
    tracked = {id(each) for each in gc.get_objects()}
    assert id(imported) not in tracked
    assert id(later) in tracked
