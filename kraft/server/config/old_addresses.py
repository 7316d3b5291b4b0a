"""Addresses by the keys of Kafka before 3.0, where a node had one listener: `port`, `host.name`, `advertised.*`.

They mean a PLAINTEXT listener, and hold only where `listeners`, or `advertised.listeners`, is not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.server.config.kafka_files import VOTERS
from kraft.server.config.properties import Property
from kraft.server.config.values import CONTROLLER, ConfigWarning, SecurityProtocol

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PORT: Final = 9092
"""Kafka's default of `port`."""

OLD_NAMES: Final[Mapping[str, str]] = {
    "host.name": LISTENERS,
    "port": LISTENERS,
    "advertised.host.name": ADVERTISED,
    "advertised.port": ADVERTISED,
}
"""The old keys, each with the key of today."""


def with_addresses(settings: Mapping[str, Property]) -> tuple[Mapping[str, Property], list[ConfigWarning]]:
    """Add the keys of today that follow from the old ones, and say what becomes of each of these."""
    host, port = _host(_text(settings, "host.name")), _text(settings, "port") or str(PORT)
    meant = {
        LISTENERS: (host, port),
        ADVERTISED: (
            _host(_text(settings, "advertised.host.name")) or host,
            _text(settings, "advertised.port") or port,
        ),
    }
    values = {new: f"{SecurityProtocol.PLAINTEXT}://{':'.join(address)}" for new, address in meant.items()}
    values[LISTENERS] = ",".join([values[LISTENERS], *_controller(settings)])
    found, warnings = dict(settings), list[ConfigWarning]()
    for old, new in OLD_NAMES.items():
        if old not in settings:
            continue
        if new in settings:
            warnings.append(ConfigWarning(old, f"has no effect: {new} is set"))
            continue
        # An address that is advertised is that of a listener, on the default port if none is given.
        for each in {LISTENERS, new} - settings.keys():
            found[each] = Property(each, values[each], settings[old].line)
        warnings.append(ConfigWarning(old, f"is an older key: the node uses {new}={values[new]}"))
    return found, warnings


def _controller(settings: Mapping[str, Property]) -> list[str]:
    """Return the listener of a controller: old files have none, and the others look for it where the voters say."""
    own_id = _text(settings, "node.id") or _text(settings, "broker.id")
    if "controller" not in _text(settings, "process.roles"):
        return []
    voters = (each.strip().partition("@") for each in _text(settings, VOTERS).split(","))
    return [f"{CONTROLLER}://{address}" for voter_id, _, address in voters if voter_id == own_id]


def _text(settings: Mapping[str, Property], key: str) -> str:
    return settings[key].value.strip() if key in settings else ""


def _host(text: str) -> str:
    return f"[{text}]" if ":" in text and not text.startswith("[") else text
