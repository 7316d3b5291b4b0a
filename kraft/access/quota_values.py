"""Quotas for people: their values in words, and values as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kraft.metadata.quota_decisions import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    KEYS_OF_ADDRESSES,
    KEYS_OF_CLIENTS,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from kraft.model.errors import KraftError
from kraft.model.printable import readable_size

ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

KEYS: Final = {
    PRODUCER_BYTE_RATE: "What it may write, in bytes per second, such as 1 MiB",
    CONSUMER_BYTE_RATE: "What it may read, in bytes per second, such as 1 MiB",
    REQUEST_PERCENTAGE: "Processor time of each broker, in percent of one core",
    CONTROLLER_MUTATION_RATE: "Partitions that it may have created or deleted per second",
    CONNECTION_CREATION_RATE: "Connections that an address may open per second, at listeners of Kafka's protocol",
}
"""What each quota limits."""

_BYTE_RATES: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
_UNITS: Final = {"": 1, "b": 1} | {
    unit: base**power
    for base, units in ((1024, ("kib", "mib", "gib", "tib")), (1000, ("kb", "mb", "gb", "tb")))
    for power, unit in enumerate(units, 1)
}
_UNIT_OF: Final = {
    REQUEST_PERCENTAGE: "% of a core",
    CONTROLLER_MUTATION_RATE: "partitions/s",
    CONNECTION_CREATION_RATE: "connections/s",
}
_VALUE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([a-z]{0,3})(?:/s)?", re.IGNORECASE)


class WrongValue(KraftError):
    """What was written is no value of this quota; the text says what is."""


def keys_for(entity_types: Sequence[str]) -> tuple[str, ...]:
    """Return the quotas that an entity with parts of these types may have."""
    return tuple(KEYS_OF_ADDRESSES if IP in entity_types else KEYS_OF_CLIENTS)


def value_of(key: str, text: str) -> float:
    """Return the value that somebody wrote, for rates of bytes with a unit: `1.5 MiB`. Raises WrongValue."""
    found = _VALUE.fullmatch(text.strip())
    unit = "" if found is None else found[2].lower()
    is_known = unit in _UNITS if key in _BYTE_RATES else not unit
    if found is None or not is_known:
        example = "bytes per second, such as 1048576 or 1 MiB" if key in _BYTE_RATES else "a number, such as 25"
        raise WrongValue(f"{key}={text[:40]!r}: give {example}")
    value = float(found[1]) * _UNITS[unit]
    # A fraction of a byte is only what a unit leaves over.
    return float(round(value)) if key in _BYTE_RATES and unit else value


def in_words(key: str, value: float) -> str:
    if key in _BYTE_RATES:
        return f"{readable_size(int(value))}/s"
    number = f"{value:,g}" if value < 1e6 else f"{value:,.0f}"
    return f"{number} {_UNIT_OF.get(key, '')}".strip()


def entity_in_words(entity: Sequence[tuple[str, str | None]]) -> str:
    """Return a quota's entity for people: `user alice, the default client id`."""
    return ", ".join(
        f"the default {_words(kind)}" if name is None else f"{_words(kind)} {name}" for kind, name in entity
    )


def _words(entity_type: str) -> str:
    return {CLIENT_ID: "client id", IP: "IP address"}.get(entity_type, entity_type)
