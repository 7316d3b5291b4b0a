"""Declarations of configuration keys: a field of a component, and the key that fills it.

    connections_max: int = key(
        "max.connections",
        whole_number(1, INT32_MAX),
        "Most open connections of the Kafka listeners together; further ones are closed at once.",
        default=INT32_MAX,
    )

The annotation is the type of the reader's result and of the default; mypy checks that they agree.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeVar

from kraft.server.config.readers import Reader

T = TypeVar("T")

_KEY: Final = "key"


@dataclass(frozen=True, slots=True)
class Required:
    """Marks a key without a default: the file has to set it."""

    example: str


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration file that has an effect."""

    name: str
    read: Reader[object]
    purpose: str
    default: object
    older_name: str | None = None
    """Kafka's older name, accepted with a warning."""


def key(name: str, read: Reader[T], purpose: str, *, default: T | Required, older_name: str | None = None) -> T:
    """Declare the field of a component that the key `name` fills."""
    declared = Key(name, read, purpose, default, older_name)
    value: Any = MISSING if isinstance(default, Required) else default
    filled: T = field(default=value, metadata={_KEY: declared})
    return filled


def keys_of(component: type[Any]) -> dict[str, Key]:
    """Return the keys of a component by the names of its fields."""
    return {each.name: each.metadata[_KEY] for each in fields(component) if _KEY in each.metadata}
