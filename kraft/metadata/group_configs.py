"""Configs of groups of the consumer protocol, which override what the brokers' files say for one group.

Each is declared once, with the brokers' keys for its default and its bounds. A value is checked against the bounds in
the file of the active controller. A broker whose own bounds differ uses the nearest value that they allow.
Source: GroupConfig in Kafka (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from msgspec import Struct

from kraft.model.config_keys import KEY, Key, Reader, whole_number
from kraft.model.config_types import INT32_MAX, IntegerBetween
from kraft.model.configs import ConfigType
from kraft.model.errors import ErrorCode, Refusal

_GROUP_KEY: Final = "group key"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigKey:
    """A config of groups, with the brokers' keys for its default and for the bounds of a group's own value."""

    key: str
    default_key: Key
    least_key: Key
    most_key: Key
    documentation: str

    @property
    def type(self) -> ConfigType:
        return self.default_key.read.type

    @property
    def field_name(self) -> str:
        """The name of the key's field in GroupConfig."""
        return self.key.removeprefix("consumer.").replace(".", "_")


def group_key(
    key: str, documentation: str, *, default: int, bounds: tuple[int, int], read: Reader[int], broker_documentation: str
) -> int:
    """Declare the field of GroupConfig for a key. `read` reads the brokers' keys: their defaults are the other values.

    Two brokers' keys are documented by the name of the setting: `session timeout` for `consumer.session.timeout.ms`.
    """
    setting = key.removeprefix("consumer.")
    name, (least, most) = setting.removesuffix(".ms").replace(".", " "), bounds
    declared = GroupConfigKey(
        key=key,
        default_key=Key(f"group.consumer.{setting}", read, broker_documentation, default),
        least_key=Key(f"group.consumer.min.{setting}", read, f"Shortest {name} that a group may have.", least),
        most_key=Key(f"group.consumer.max.{setting}", read, f"Longest {name} that a group may have.", most),
        documentation=documentation,
    )
    filled: int = field(default=default, metadata={KEY: declared.default_key, _GROUP_KEY: declared})
    return filled


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Configs in effect on a group. A field is named like its key, without `consumer.` and with '_' for '.'."""

    heartbeat_interval_ms: int = group_key(
        "consumer.heartbeat.interval.ms",
        "Interval of the heartbeats of the group's members.",
        default=5_000,
        bounds=(5_000, 15_000),
        read=whole_number(1),
        broker_documentation="Interval of the heartbeats of members of a group of the consumer protocol.",
    )
    session_timeout_ms: int = group_key(
        "consumer.session.timeout.ms",
        "Time without a heartbeat after which a member is removed from the group.",
        default=45_000,
        bounds=(45_000, 60_000),
        read=whole_number(1),
        broker_documentation="Time without a heartbeat after which a member is removed from a group of the consumer"
        " protocol.",
    )
    assignment_interval_ms: int = group_key(
        "consumer.assignment.interval.ms",
        "Time between two target assignments of the group; changes in between share the next.",
        default=1_000,
        bounds=(0, 15_000),
        read=whole_number(0),
        broker_documentation="Time between two target assignments of a group of the consumer protocol; changes in"
        " between share the next.",
    )


GROUP_CONFIGS: Final[Mapping[str, GroupConfigKey]] = {
    declared.key: declared for declared in (each.metadata[_GROUP_KEY] for each in fields(GroupConfig))
}

C = TypeVar("C", bound=GroupConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """The least and the most that brokers allow a group to set."""

    least: GroupConfig
    most: GroupConfig


def group_bounds(value_of: Callable[[Key], Any]) -> GroupBounds:
    """Return the bounds from the values of the brokers' keys."""
    keys = GROUP_CONFIGS.values()
    return GroupBounds(
        least=GroupConfig(**{each.field_name: value_of(each.least_key) for each in keys}),
        most=GroupConfig(**{each.field_name: value_of(each.most_key) for each in keys}),
    )


class GroupDefaults(Struct, frozen=True, kw_only=True):
    """Settings of the brokers for groups of the consumer protocol: without any, those of Kafka."""

    default: GroupConfig = GroupConfig()
    bounds: GroupBounds = group_bounds(lambda key: key.default)


def check_group_key(key: str) -> None:
    """Raise Refusal INVALID_CONFIG for a key that groups do not have."""
    if key not in GROUP_CONFIGS:
        nearest = get_close_matches(key[:100], GROUP_CONFIGS, n=1)
        remedy = f"did you mean '{nearest[0]}'?" if nearest else f"groups have {', '.join(GROUP_CONFIGS)}"
        raise Refusal(ErrorCode.INVALID_CONFIG, f"there is no group config {key[:60]!r}: {remedy}")


def check_group_configs(own: Mapping[str, str], defaults: GroupDefaults) -> None:
    """Raise Refusal INVALID_CONFIG if a value is not valid, or the values do not fit together."""
    for key, text in own.items():
        check_group_key(key)
        declared = GROUP_CONFIGS[key]
        least, most = _bounds_of(declared, defaults.bounds)
        try:
            IntegerBetween(least=least, most=min(most, INT32_MAX)).read(text)
        except ValueError as error:
            bound_keys = f"{declared.least_key.name} and {declared.most_key.name}"
            problem = f"{key}={text[:60]!r}: expected {error}, as {bound_keys} of the brokers allow"
            raise Refusal(ErrorCode.INVALID_CONFIG, problem) from None
    config = in_effect(own, defaults.default, defaults.bounds)
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        problem = (
            f"consumer.heartbeat.interval.ms would be {config.heartbeat_interval_ms}, and consumer.session.timeout.ms "
            f"{config.session_timeout_ms}: lower the first"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def in_effect(own: Mapping[str, str], default: C, bounds: GroupBounds) -> C:
    """Return what a group with `own` configs uses on a broker with these settings.

    A controller of a newer version may have set keys that this version does not know.
    """
    values: dict[str, Any] = {}
    for declared in GROUP_CONFIGS.values():
        if (text := own.get(declared.key)) is not None:
            least, most = _bounds_of(declared, bounds)
            values[declared.field_name] = min(max(int(text), least), most)
    return replace(default, **values)


def _bounds_of(declared: GroupConfigKey, bounds: GroupBounds) -> tuple[int, int]:
    return getattr(bounds.least, declared.field_name), getattr(bounds.most, declared.field_name)
