from __future__ import annotations

from dataclasses import fields
from typing import get_origin, get_type_hints

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.log.topic_config import TOPIC_CONFIGS, TopicConfig
from kraft.model.config_keys import Required, components_of, keys_of
from kraft.server.config.connection_settings import ConnectionSettings
from kraft.server.config.keys import BY_NAME, KEYS, declaring
from kraft.server.config.node_config import NodeConfig


def test_no_name_stands_for_two_keys() -> None:
    names = [name for key in KEYS for name in (key.name, key.older_name) if name]
    assert sorted(names) == sorted(BY_NAME)


def test_every_key_has_a_purpose_and_a_default_of_its_fields_type() -> None:
    assert all(key.purpose.strip() for key in KEYS)
    for component in declaring():
        types = get_type_hints(component)
        for field, key in keys_of(component).items():
            if not isinstance(key.default, Required) and key.default is not None:
                assert isinstance(key.default, get_origin(types[field]) or types[field]), key.name


_FILLED_OTHERWISE: dict[type, set[str]] = {
    NodeConfig: {"file", "listener_security", "settings", "warnings"},
    ConnectionSettings: {"creation_rates_of_listeners"},
    # Made of many keys together.
    TopicConfig: {each.field_name for each in TOPIC_CONFIGS.values()},
    # Of the coordinators alone: no file sets them.
    ClassicSettings: {"new_member_join_timeout_ms"},
    GroupSettings: {"assigned_at_once_max", "partitions_per_slice"},
    GroupShardSettings: {"consumer_group", "converted_size_max"},
    TransactionSettings: {"unused_ages_ms", "eviction_interval_ms", "batch_bytes_max"},
}


def test_every_field_is_filled_by_a_key() -> None:
    for component in declaring():
        names = {field.name for field in fields(component)} - components_of(component).keys()
        assert keys_of(component).keys() == names - _FILLED_OTHERWISE.get(component, set())
