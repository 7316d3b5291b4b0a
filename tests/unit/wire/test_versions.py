from __future__ import annotations

import pytest

from kraft.wire.versions import EVERY_VERSION, NO_VERSION, Versions


@pytest.mark.parametrize(("text", "inside", "outside"), [("3-13", 13, 14), ("9+", 32767, 8), ("2", 2, 1)])
def test_a_range_is_read_in_kafkas_notation_and_written_in_it(text: str, inside: int, outside: int) -> None:
    versions = Versions.parse(text)
    assert inside in versions
    assert outside not in versions
    assert str(versions) == text


def test_none_holds_no_version() -> None:
    assert Versions.parse("none") == NO_VERSION
    assert list(NO_VERSION) == []
    assert str(NO_VERSION) == "none"


def test_a_range_gives_its_versions_in_order() -> None:
    assert list(Versions.parse("3-5")) == [3, 4, 5]


def test_every_version_is_from_zero() -> None:
    assert Versions.parse("0+") == EVERY_VERSION


def test_what_is_no_range_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Versions.parse("three")
