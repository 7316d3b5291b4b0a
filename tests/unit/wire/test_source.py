from __future__ import annotations

import pytest

from kraft.wire.schema.fetch import EpochEndOffset, FetchRequest
from kraft.wire.source import Source


def test_lines_become_a_function() -> None:
    source = Source()
    with source.block("def twice(value):"):
        source.line("return value * 2")
    assert source.text() == "def twice(value):\n    return value * 2\n"
    assert source.run("twice")(21) == 42


def test_an_empty_block_passes() -> None:
    source = Source()
    with source.block("if True:"):
        pass
    assert source.text() == "if True:\n    pass\n"


def test_a_variable_is_never_the_same_twice() -> None:
    source = Source()
    assert source.variable("item") != source.variable("item")


@pytest.mark.parametrize("value", [None, True, -1, "text", b"", ()])
def test_what_has_a_literal_is_spelt_by_it(value: object) -> None:
    source = Source()
    assert source.constant(value) == repr(value)
    assert source.names == {}


def test_everything_else_is_named_after_what_it_is() -> None:
    source = Source()
    default = EpochEndOffset()
    assert source.constant(FetchRequest) == "FetchRequest"
    assert [source.constant(default), source.constant(EpochEndOffset())] == ["DEFAULT_EpochEndOffset"] * 2
    assert source.names == {"FetchRequest": FetchRequest, "DEFAULT_EpochEndOffset": default}


def test_two_values_cannot_have_one_name() -> None:
    source = Source()
    source.constant(EpochEndOffset())
    with pytest.raises(AssertionError, match="have the name DEFAULT_EpochEndOffset"):
        source.constant(EpochEndOffset(epoch=5))


def test_neighbours_are_packed_in_network_order() -> None:
    source = Source()
    name = source.fixed("h?", "pack")
    assert (name, source.names[name](1, True)) == ("pack_hbool", b"\0\1\1")  # type: ignore[operator]  # An object.
