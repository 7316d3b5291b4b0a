"""The words that the configuration's components are declared in: a field, and beside it the key that fills it.

    connections_max: int = key(
        "max.connections",
        whole_number(1, INT32_MAX),
        "Connections that the PLAINTEXT listener has at a time; one more is closed at once.",
        default=INT32_MAX,
    )

The annotation is the type of what the reader returns and of the default; mypy holds them against each other.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeVar

from kraft.server.config.readers import Reader

T = TypeVar("T")

_KEY: Final = "key"


@dataclass(frozen=True, slots=True)
class Required:
    """Stands where a key has no default: the file must say it, for example so."""

    example: str


@dataclass(frozen=True, slots=True)
class Key:
    """A key that a node's file may hold and that has an effect."""

    name: str
    read: Reader[object]
    purpose: str
    default: object
    older_name: str | None = None
    """Kafka's earlier name, taken with a warning."""


def key(name: str, read: Reader[T], purpose: str, *, default: T | Required, older_name: str | None = None) -> T:
    """The field of a component, which the key `name` fills."""
    declared = Key(name, read, purpose, default, older_name)
    value: Any = MISSING if isinstance(default, Required) else default
    filled: T = field(default=value, metadata={_KEY: declared})
    return filled


def keys_of(component: type[Any]) -> dict[str, Key]:
    """The keys that fill a component, by the names of its fields."""
    return {each.name: each.metadata[_KEY] for each in fields(component) if _KEY in each.metadata}
