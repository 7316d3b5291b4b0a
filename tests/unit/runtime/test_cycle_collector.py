from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kraft.runtime.cycle_collector import exempt_existing_objects, imports_exempted


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_existing_objects_are_exempt_and_later_ones_are_collected() -> None:
    there: list[list[int]] = [[]]
    exempt_existing_objects()
    later: list[list[int]] = [[]]
    tracked = {id(each) for each in gc.get_objects()}
    assert id(there) not in tracked
    assert id(later) in tracked


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
