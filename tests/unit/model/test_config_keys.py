from __future__ import annotations

from dataclasses import dataclass

import pytest

from kraft.model.config_keys import Key, Required, key, keys_of, one_of, whole_number

NUMBER = whole_number(1, 9)
NAME = one_of("orders", "flights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    name: str = key("its.name", NAME, "Name of it.", default=Required("orders"))
    size: int = key("its.size", NUMBER, "Size of it.", default=3, older_name="size")
    age_ms: int = key("its.age.seconds", NUMBER, "Age of it.", default=5_000, unit=1_000)
    derived: int = 0


def test_the_keys_of_a_component_stand_by_its_fields() -> None:
    assert keys_of(Component) == {
        "name": Key("its.name", NAME, "Name of it.", Required("orders")),
        "size": Key("its.size", NUMBER, "Size of it.", 3, older_name="size"),
        "age_ms": Key("its.age.seconds", NUMBER, "Age of it.", 5, unit=1_000),
    }


def test_a_field_has_its_keys_default() -> None:
    assert Component(name="flights") == Component(name="flights", size=3, age_ms=5_000)


def test_a_keys_number_may_have_another_unit_than_its_field() -> None:
    age = keys_of(Component)["age_ms"]
    assert (age.in_field(age.default), age.in_field(age.read("2"))) == (5_000, 2_000)


def test_a_field_whose_key_is_required_has_none() -> None:
    with pytest.raises(TypeError, match="name"):
        Component()
