"""Settings of consumers in groups: the names of protocols and assignors, and what fits together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kraft.client.model.errors import InvalidSetting

if TYPE_CHECKING:
    from kraft.client.model.settings import ConsumerSettings

log = logging.getLogger("kraft.client")

GROUP_PROTOCOLS: Final = ("consumer", "classic")

ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
"""Assignors of the classic protocol by name, with the simple name of Kafka's class."""

_OF_CLASSIC_ONLY: Final = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")


def parse_group_names(named: dict[str, Any]) -> None:
    """Replace Kafka's names of assignors and protocols by ours, and choose the protocol. Raises InvalidSetting."""
    if "partition_assignment_strategy" in named:
        named["partition_assignment_strategy"] = _assignors(named["partition_assignment_strategy"])
    of_classic = [name for name in _OF_CLASSIC_ONLY if name in named]
    protocol = str(named.get("group_protocol", "classic" if of_classic else "consumer")).lower()
    if of_classic and "group_protocol" not in named:
        log.info("group.protocol=classic, because %s is set", dotted(of_classic[0]))
    named["group_protocol"] = protocol
    if protocol == "consumer" and of_classic:
        raise InvalidSetting(
            f"{dotted(of_classic[0])} has no effect with group.protocol=consumer, in which the broker decides it; "
            "leave it out, or use group.protocol=classic"
        )


def check_group(settings: ConsumerSettings) -> None:
    """Raise InvalidSetting for settings that do not fit together."""
    if settings.group_protocol not in GROUP_PROTOCOLS:
        raise InvalidSetting(
            f"group.protocol={settings.group_protocol} is not one of {', '.join(GROUP_PROTOCOLS)}",
        )
    for name in ("group_id", "group_instance_id"):
        if getattr(settings, name) == "":
            raise InvalidSetting(f"{dotted(name)} is empty; give a name, or leave it out")
    if settings.group_protocol == "classic":
        if settings.group_remote_assignor is not None:
            raise InvalidSetting("group.remote.assignor has no effect with group.protocol=classic; leave it out")
        if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
            raise InvalidSetting(
                f"heartbeat.interval.ms={settings.heartbeat_interval_ms} must be below "
                f"session.timeout.ms={settings.session_timeout_ms}"
            )


def _assignors(given: Any) -> tuple[str, ...]:
    words = given.split(",") if isinstance(given, str) else list(given)
    names = {**{name: name for name in ASSIGNORS}, **{kafkas: name for name, kafkas in ASSIGNORS.items()}}
    found = []
    for word in words:
        name = names.get(str(word).strip().rpartition(".")[2])
        if name is None:
            raise InvalidSetting(f"partition.assignment.strategy: {word!r} is not one of {', '.join(ASSIGNORS)}")
        found.append(name)
    if not found:
        raise InvalidSetting(f"partition.assignment.strategy is empty; use one or more of {', '.join(ASSIGNORS)}")
    return tuple(dict.fromkeys(found))


def dotted(name: str) -> str:
    return name.replace("_", ".")
