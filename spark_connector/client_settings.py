"""Settings of the client that a query passes through: `kafka.*` or `kraft.*`, by Kafka's names.

Spark's Kafka source refuses settings that would undermine it, and so does this one. A setting that could have no effect
is refused as well, so that none is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from spark_connector.given import Given, OptionError

PREFIXES: Final = ("kraft.", "kafka.")

_UNPREFIXED: Final = ("isolation.level",)
"""Settings that are known without a prefix, too."""

_DEFAULTS: Final = {"isolation.level": "read_committed"}

_OPTIONS_OF_THEIR_OWN: Final = ("bootstrap.servers", "group.id")

_REFUSED: Final = {
    "auto.offset.reset": "startingOffsets says where a query starts, and later it continues from its checkpoint",
    "key.deserializer": "keys are binary: convert them in the query",
    "value.deserializer": "values are binary: convert them in the query",
    "enable.auto.commit": "the query's position is in its checkpoint; group.id names a group that shows it",
    "interceptor.classes": "interceptors could change records",
}
"""Settings that Spark's Kafka source refuses, with the reason."""

_OF_MEMBERS: Final = (
    "auto.commit.interval.ms",
    "client.rack",
    "consumer.timeout.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
"""Settings of consumers that poll or join a group."""


def is_client_setting(name: str) -> bool:
    """True for an option in lower case that is a setting of the client."""
    return name.startswith(PREFIXES) or name in _UNPREFIXED


def names_of(setting: str) -> tuple[str, ...]:
    """Return the option names that a setting goes by: `bootstrap.servers` and the same with a prefix."""
    return (setting, *(prefix + setting for prefix in PREFIXES))


def client_settings(given: Given, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the settings among the option `names`, with defaults, as sorted pairs. Raises OptionError."""
    settings = dict(_DEFAULTS)
    for name in sorted(filter(is_client_setting, names)):
        setting = name.split(".", 1)[1] if name.startswith(PREFIXES) else name
        if setting not in _OPTIONS_OF_THEIR_OWN:
            _refuse_unfit(name, setting)
            given.first_of(names_of(setting))
            settings[setting] = (given.text(name) or "").strip()
    settings["isolation.level"] = settings["isolation.level"].lower()
    if settings != _DEFAULTS:
        _check(settings)
    return tuple(sorted(settings.items()))


def _refuse_unfit(name: str, setting: str) -> None:
    if setting in _REFUSED:
        raise OptionError(f"option {name} is not supported: {_REFUSED[setting]}")
    if setting.endswith("serializer"):
        raise OptionError(f"option {name} is not supported: keys and values are binary")
    if setting in _OF_MEMBERS:
        raise OptionError(
            f"option {name} has no effect: a query reads by offsets and is not a member of a group; leave it out"
        )


def _check(settings: Mapping[str, str]) -> None:
    # Imported here, because most queries set none, and Spark waits for the process that checks the options.
    from kraft.client import InvalidSetting, NotSupportedYet
    from kraft.client.model.settings import ConsumerSettings, settings_of

    try:
        settings_of(ConsumerSettings, ("localhost:1",), settings)
    except (InvalidSetting, NotSupportedYet) as error:
        raise OptionError(f"client settings: {error}") from None
