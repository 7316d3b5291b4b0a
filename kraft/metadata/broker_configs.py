"""Dynamic broker configs, which change while brokers run, and their effect on the brokers' files.

A value can be set for one broker, or for all brokers that have none of their own; both override the broker's file. The
dynamic keys are the defaults of topic configs, and those that are declared so. Source: KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraft.log.topic_config import SERVER_KEYS, TOPIC_CONFIGS, TopicConfig
from kraft.metadata.configs import broker_defaults, shown
from kraft.metadata.image import MetadataImage
from kraft.model.config_keys import Key, keys_of
from kraft.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

EVERY_BROKER: Final = ""
"""Used in place of a broker's id for all brokers."""

_AT_START_ONLY: Final = frozenset({"log.flush.scheduler.interval.ms"})
"""Keys that brokers read only at start: this one is also the interval of a background task."""

TOPIC_DEFAULT_KEYS: Final = frozenset(SERVER_KEYS) - _AT_START_ONLY


def is_dynamic(key: Key) -> bool:
    """Return whether the key of a broker's file can be set while the broker runs."""
    return key.dynamic is not None or key.name in TOPIC_DEFAULT_KEYS


def check_broker_config(name: str, value: str, keys: Mapping[str, Key]) -> None:
    """Raise Refusal INVALID_CONFIG if the key is not a dynamic broker config, or the value is not valid for it.

    `keys` are all keys that a broker's file may hold.
    """
    check_broker_key(name, keys)
    try:
        if (dynamic := keys[name].dynamic) is not None:
            dynamic.read(value)
        else:
            declared, server_key = SERVER_KEYS[name]
            declared.read_server(server_key, value)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{name}={shown(value)}: expected {error}") from None


def check_broker_key(name: str, keys: Mapping[str, Key]) -> None:
    if name in keys and is_dynamic(keys[name]):
        return
    if name in keys:
        problem = f"{name} cannot be changed while a broker runs: set it in the broker's file and restart the broker"
    elif name in TOPIC_CONFIGS:
        of_broker = TOPIC_CONFIGS[name].server_keys
        remedy = f"for all topics of a broker use {of_broker[0].name}" if of_broker else "set it on a topic"
        problem = f"'{name}' is a topic config: {remedy}"
    else:
        nearest = get_close_matches(name[:100], [key.name for key in keys.values() if is_dynamic(key)], n=1)
        remedy = f"did you mean '{nearest[0]}'?" if nearest else "kraft configs describe --broker ID --all lists all"
        problem = f"there is no broker config '{shown(name)}': {remedy}"
    raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def dynamic_configs(image: MetadataImage, broker: str) -> dict[str, str]:
    """Return the values set for the broker or for all brokers; for EVERY_BROKER, those set for all."""
    return {**image.broker_configs.get(EVERY_BROKER, {}), **image.broker_configs.get(broker, {})}


def with_dynamic(component: T, configs: Mapping[str, str]) -> T:
    """Return a component of a broker's file with the dynamic configs among `configs`, which the controller checked."""
    values: dict[str, Any] = {
        field: int(configs[key.name])
        for field, key in keys_of(type(component)).items()
        if key.dynamic is not None and key.name in configs
    }
    return replace(component, **values)


class TopicDefaultsInEffect:
    """Defaults for topics that do not set a config themselves: the broker's file, overridden by dynamic configs."""

    def __init__(self, settings: Mapping[str, str], static: TopicConfig, broker: str = EVERY_BROKER) -> None:
        """`settings` are the keys of the file, and `static` the defaults that they give."""
        self._settings = settings
        self._static = static
        self._broker = broker
        self._of: object = None
        self._known = static

    def __call__(self, image: MetadataImage) -> TopicConfig:
        if image.broker_configs is not self._of:
            # As long as nothing in the mapping changes, it is the same object.
            self._of, self._known = image.broker_configs, self._read(image)
        return self._known

    def _read(self, image: MetadataImage) -> TopicConfig:
        dynamic = {
            key: value for key, value in dynamic_configs(image, self._broker).items() if key in TOPIC_DEFAULT_KEYS
        }
        if not dynamic:
            return self._static
        try:
            return broker_defaults({**self._settings, **dynamic})
        except Refusal:
            # The controller checked that the dynamic values fit together, but they do not fit the rest of this broker's
            # file. The file alone is known to work.
            return self._static
