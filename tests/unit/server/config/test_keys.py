from __future__ import annotations

from dataclasses import fields
from typing import Any, get_origin, get_type_hints

from kraft.server.config.components import TopicDefaults
from kraft.server.config.declaration import Required, keys_of
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import COMPONENTS, NodeConfig

DECLARING: list[type[Any]] = [NodeConfig, *COMPONENTS.values()]


def test_no_name_stands_for_two_keys() -> None:
    names = [name for key in KEYS for name in (key.name, key.older_name) if name]
    assert sorted(names) == sorted(BY_NAME)


def test_every_key_has_a_purpose_and_a_default_of_its_fields_type() -> None:
    assert all(key.purpose.strip() for key in KEYS)
    for component in DECLARING:
        types = get_type_hints(component)
        for field, key in keys_of(component).items():
            if not isinstance(key.default, Required) and key.default is not None:
                assert isinstance(key.default, get_origin(types[field]) or types[field]), key.name


_FILLED_OTHERWISE: dict[type, set[str]] = {
    NodeConfig: {*COMPONENTS, "file", "settings", "warnings"},
    # Made of many keys together.
    TopicDefaults: {"configs"},
}


def test_every_field_is_filled_by_a_key() -> None:
    for component in DECLARING:
        names = {field.name for field in fields(component)}
        assert keys_of(component).keys() == names - _FILLED_OTHERWISE.get(component, set())
