"""Messages for hypothesis to choose, of any kind and version."""

from __future__ import annotations

from typing import Any, Final, TypeVar
from uuid import UUID

from hypothesis import strategies as st

from kraft.wire.declaration import ArrayOf, Field, Fixed, Form, Identifier, Sized, Struct

S = TypeVar("S", bound=Struct)

_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}


def structs(kind: type[S], version: int) -> st.SearchStrategy[S]:
    """Fields that the version does not have keep their defaults; tagged ones may."""
    return st.builds(kind, **{each.name: _field(each, version) for each in kind.fields if version in each.versions})


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _form(field.form, version)
    if version in field.nullable:
        values = st.none() | values
    return values if field.tag is None else st.just(field.default) | values


def _form(form: Form, version: int) -> st.SearchStrategy[Any]:
    match form:
        case Fixed("?"):
            return st.booleans()
        case Fixed("d"):
            return st.floats(allow_nan=False)
        case Fixed("H"):
            return st.integers(0, 0xFFFF)
        case Fixed(code):
            return st.integers(-(1 << _BITS[code] - 1), (1 << _BITS[code] - 1) - 1)
        case Identifier():
            return st.builds(UUID, int=st.integers(0, (1 << 128) - 1))
        case Sized.STRING:
            return st.text(max_size=200)
        case Sized():
            return st.binary(max_size=200)
        case ArrayOf(element):
            return st.lists(_form(element, version), max_size=3).map(tuple)
        case _:
            return structs(form, version)
