"""Reads and checks the configs that topics and brokers' files set. `kraft.log.topic_config` declares each of them.

Keys of Kafka that are not supported yet are refused rather than ignored: a setting without effect is worse than an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from kraft.log.topic_config import KAFKA_DEFAULTS, SERVER_KEYS, TOPIC_CONFIGS, ConfigKey, ServerKey, TopicConfig
from kraft.model.config_types import Value, text_of
from kraft.model.errors import ErrorCode, Refusal

NOT_SUPPORTED_YET: Final = frozenset(
    {
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)


def checked(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """Return the configs in effect for a topic that sets `configs`. Raises Refusal INVALID_CONFIG if one is invalid."""
    own = {key: _read(_declared(key), value) for key, value in configs.items()}
    in_effect = _with(defaults, own)
    _check_together(in_effect, "min.compaction.lag.ms", "max.compaction.lag.ms")
    return in_effect


def broker_defaults(server_properties: Mapping[str, str]) -> TopicConfig:
    """Return the defaults of topics under a broker's file. Raises Refusal INVALID_CONFIG that names the server key."""
    values = {}
    for declared in TOPIC_CONFIGS.values():
        for server_key in reversed(declared.server_keys):
            # The order is reversed so that the first key wins, and every key that is set is checked.
            if (text := server_properties.get(server_key.name)) is not None:
                values[declared.key] = _read_server(declared, server_key, text)
    defaults = _with(KAFKA_DEFAULTS, values)
    _check_together(defaults, "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    return defaults


def overridden(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """Return `defaults` with a topic's own values, which the controller checked when they were set.

    The controller's defaults may differ from these, so the values are not refused together as in `checked`: if the
    minimum compaction lag exceeds the maximum with these defaults, the minimum wins.
    """
    own = {key: TOPIC_CONFIGS[key].kind.read(value) for key, value in configs.items() if key in TOPIC_CONFIGS}
    in_effect = _with(defaults, own) if own else defaults
    if in_effect.min_compaction_lag_ms > in_effect.max_compaction_lag_ms:
        return replace(in_effect, max_compaction_lag_ms=in_effect.min_compaction_lag_ms)
    return in_effect


def text_in_effect(config: TopicConfig, key: str) -> str:
    """Return the value of one key as text."""
    return text_of(getattr(config, TOPIC_CONFIGS[key].field_name))


def unknown_config(key: str) -> str:
    """Return the error for a key that no topic can set, in one line, with the key to use instead if there is one."""
    if key in NOT_SUPPORTED_YET:
        return f"topic config '{key}' is not supported yet: leave it out"
    if key in SERVER_KEYS:
        return f"'{key}' is a broker config: for a topic use '{SERVER_KEYS[key][0].key}'"
    nearest = get_close_matches(key[:100], TOPIC_CONFIGS, n=1)
    remedy = f"did you mean '{nearest[0]}'?" if nearest else "kraft configs describe --all lists all configs"
    return f"there is no topic config '{shown(key)}': {remedy}"


def _declared(key: str) -> ConfigKey:
    declared = TOPIC_CONFIGS.get(key)
    if declared is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
    return declared


def _read(declared: ConfigKey, text: str) -> Value:
    try:
        return declared.kind.read(text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{declared.key}={shown(text)}: expected {error}") from None


def _read_server(declared: ConfigKey, server_key: ServerKey, text: str) -> Value:
    try:
        return declared.read_server(server_key, text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{server_key.name}={shown(text)}: expected {error}") from None


def shown(text: str) -> str:
    """Shorten text from outside and replace unprintable characters, to fit into one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:60])


def _check_together(config: TopicConfig, min_lag_key: str, max_lag_key: str) -> None:
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        problem = (
            f"{min_lag_key} ({config.min_compaction_lag_ms}) is above {max_lag_key} ({config.max_compaction_lag_ms}): "
            "lower the first or raise the second"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _with(defaults: TopicConfig, own: Mapping[str, Value]) -> TopicConfig:
    values: dict[str, Any] = {TOPIC_CONFIGS[key].field_name: value for key, value in own.items()}
    return replace(defaults, **values)
