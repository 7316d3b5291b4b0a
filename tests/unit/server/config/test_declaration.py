from __future__ import annotations

from dataclasses import dataclass

import pytest

from kraft.server.config.declaration import Key, Required, key, keys_of
from kraft.server.config.readers import plain_text, whole_number

NUMBER = whole_number(1, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    name: str = key("its.name", plain_text, "Name of it.", default=Required("orders"))
    size: int = key("its.size", NUMBER, "Size of it.", default=3, older_name="size")
    derived: int = 0


def test_the_keys_of_a_component_stand_by_its_fields() -> None:
    assert keys_of(Component) == {
        "name": Key("its.name", plain_text, "Name of it.", Required("orders")),
        "size": Key("its.size", NUMBER, "Size of it.", 3, older_name="size"),
    }


def test_a_field_has_its_keys_default() -> None:
    assert Component(name="flights") == Component(name="flights", size=3)


def test_a_field_whose_key_is_required_has_none() -> None:
    with pytest.raises(TypeError, match="name"):
        Component()
