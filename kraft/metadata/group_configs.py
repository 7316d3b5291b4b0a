"""Configs of consumer groups, which override what the brokers' files say for one group of the consumer protocol.

A value is checked against the bounds in the file of the active controller. A broker whose own bounds differ uses the
nearest value that they allow. Source: GroupConfig in Kafka (KIP-848).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from msgspec import Struct

from kraft.model.config_types import INT32_MAX, IntegerBetween
from kraft.model.configs import ConfigType
from kraft.model.errors import ErrorCode, Refusal

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"

_SERVER_PREFIX: Final = "group.consumer."


class GroupConfigKey(Struct, frozen=True, kw_only=True):
    """A config of groups; `server_key` gives its default."""

    key: str
    server_key: str
    documentation: str
    type: ConfigType = ConfigType.INT

    @property
    def bound_keys(self) -> str:
        """The keys of the brokers' files that bound a group's own value."""
        setting = self.server_key.removeprefix(_SERVER_PREFIX)
        return f"{_SERVER_PREFIX}min.{setting} and {_SERVER_PREFIX}max.{setting}"


GROUP_CONFIGS: Final[Mapping[str, GroupConfigKey]] = {
    each.key: each
    for each in (
        GroupConfigKey(
            key=HEARTBEAT_INTERVAL,
            server_key="group.consumer.heartbeat.interval.ms",
            documentation="Interval of the heartbeats of the group's members.",
        ),
        GroupConfigKey(
            key=SESSION_TIMEOUT,
            server_key="group.consumer.session.timeout.ms",
            documentation="Time without a heartbeat after which a member is removed from the group.",
        ),
        GroupConfigKey(
            key=ASSIGNMENT_INTERVAL,
            server_key="group.consumer.assignment.interval.ms",
            documentation="Time between two target assignments of the group; changes in between share the next.",
        ),
    )
}


class Bounded(Struct, frozen=True):
    """A setting of the brokers: the default for groups, and the bounds of a group's own value."""

    default: int
    least: int
    most: int

    def nearest(self, value: int) -> int:
        return min(max(value, self.least), self.most)


class GroupDefaults(Struct, frozen=True, kw_only=True):
    """Settings of the brokers for groups of the consumer protocol."""

    session_timeout_ms: Bounded = Bounded(45_000, 45_000, 60_000)
    heartbeat_interval_ms: Bounded = Bounded(5_000, 5_000, 15_000)
    assignment_interval_ms: Bounded = Bounded(1_000, 0, 15_000)

    def of(self, key: str) -> Bounded:
        return {
            SESSION_TIMEOUT: self.session_timeout_ms,
            HEARTBEAT_INTERVAL: self.heartbeat_interval_ms,
            ASSIGNMENT_INTERVAL: self.assignment_interval_ms,
        }[key]


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
        bounds = defaults.of(key)
        try:
            IntegerBetween(least=bounds.least, most=min(bounds.most, INT32_MAX)).read(text)
        except ValueError as error:
            problem = f"{key}={text[:60]!r}: expected {error}, as {GROUP_CONFIGS[key].bound_keys} of the brokers allow"
            raise Refusal(ErrorCode.INVALID_CONFIG, problem) from None
    heartbeat_ms, session_ms = (in_effect(own, key, defaults) for key in (HEARTBEAT_INTERVAL, SESSION_TIMEOUT))
    if heartbeat_ms >= session_ms:
        problem = f"{HEARTBEAT_INTERVAL} would be {heartbeat_ms}, and {SESSION_TIMEOUT} {session_ms}: lower the first"
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def in_effect(own: Mapping[str, str], key: str, defaults: GroupDefaults) -> int:
    """Return the value that the group uses on a broker with these settings."""
    bounds = defaults.of(key)
    return bounds.nearest(int(own[key])) if key in own else bounds.default
