from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraft.model.config_types import (
    ConfigValueKind,
    IntegerBetween,
    ListOf,
    NumberBetween,
    OneOf,
    TrueOrFalse,
    Value,
    text_of,
)

KINDS: list[ConfigValueKind[Value]] = [
    IntegerBetween(least=-1, most=2**63 - 1),
    NumberBetween(least=0, most=1),
    TrueOrFalse(),
    OneOf(values=("CreateTime", "LogAppendTime")),
    ListOf(values=("delete", "compact")),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(text=st.text(max_size=30) | st.from_regex(r"[-+0-9.eE_ ,a-z]{0,30}"))
def test_any_text_is_read_or_refused_with_what_is_wanted(kind: ConfigValueKind[Value], text: str) -> None:
    try:
        value = kind.read(text)
    except ValueError as error:
        if str(error) != kind.wanted:
            raise
    else:
        assert kind.read(text_of(value)) == value


@given(st.integers(min_value=-1, max_value=2**63 - 1))
def test_every_whole_number_within_bounds_is_read(number: int) -> None:
    assert IntegerBetween(least=-1, most=2**63 - 1).read(str(number)) == number


@example(0.00015017192185635096)
@given(st.floats(min_value=0, max_value=1, allow_subnormal=False).filter(lambda number: number == 0 or number > 1e-90))
def test_every_number_within_bounds_is_read(number: float) -> None:
    assert NumberBetween(least=0, most=1).read(text_of(number)) == number


@pytest.mark.parametrize(
    ("text", "items"), [("", ()), ("delete", ("delete",)), (" compact , delete ", ("compact", "delete"))]
)
def test_a_list_keeps_its_order_and_loses_its_spaces(text: str, items: tuple[str, ...]) -> None:
    assert ListOf(values=("delete", "compact")).read(text) == items


@pytest.mark.parametrize("text", ["delete,delete", "delete,", ",", "drop", "delete" + " " * 1_000_000])
def test_a_list_with_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="delete or compact"):
        ListOf(values=("delete", "compact")).read(text)
