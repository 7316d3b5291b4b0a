"""Declarations of configuration keys: a field of a component, and the key that fills it.

    connections_max: int = key(
        "max.connections",
        whole_number(1, INT32_MAX),
        "Most open connections of the Kafka listeners together; further ones are closed at once.",
        default=INT32_MAX,
    )

The annotation is the type of the reader's result and of the default; mypy checks that they agree. A component is
declared where it is used, so that a setting of a pure core is stated once; `kraft.server.config` fills all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar, get_type_hints

from kraft.model.config_types import INT32_MAX, IntegerBetween
from kraft.model.configs import ConfigType
from kraft.model.password import Password

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

KEY: Final = "key"
"""Name of a key among the metadata of its field."""


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
    unit: int = 1
    """One of the key's number is so many of the field's."""
    dynamic: IntegerBetween | None = None
    """The values to which a running broker can be set; None: it reads the key at its start only."""

    @property
    def is_secret(self) -> bool:
        """True if no message, description or log event may show a value."""
        return self.read.type is ConfigType.PASSWORD

    def in_field(self, value: object) -> object:
        """Return the field's value for one of the key."""
        return value * self.unit if isinstance(value, int) and self.unit != 1 else value


def key(
    name: str,
    read: Reader[T],
    purpose: str,
    *,
    default: T | Required,
    older_name: str | None = None,
    unit: int = 1,
    dynamic: IntegerBetween | None = None,
) -> T:
    """Declare the field of a component that the key `name` fills; `default` is the field's."""
    of_key = default // unit if isinstance(default, int) and unit != 1 else default
    declared = Key(name, read, purpose, of_key, older_name, unit, dynamic)
    value: Any = MISSING if isinstance(default, Required) else default
    filled: T = field(default=value, metadata={KEY: declared})
    return filled


def keys_of(component: type[Any]) -> dict[str, Key]:
    """Return the keys of a component by the names of its fields."""
    return {each.name: each.metadata[KEY] for each in fields(component) if KEY in each.metadata}


def components_of(component: type[Any]) -> dict[str, type[Any]]:
    """Return the components inside a component by the names of their fields."""
    return {
        name: kind for name, kind in get_type_hints(component).items() if isinstance(kind, type) and is_dataclass(kind)
    }


# --- readers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader(Generic[T_co]):
    """A function from text to value, with Kafka's type of the value."""

    type: ConfigType
    read: Callable[[str], T_co]

    def __call__(self, text: str) -> T_co:
        return self.read(text)


def reads(type: ConfigType) -> Callable[[Callable[[str], T]], Reader[T]]:
    """Turn a function into a reader."""

    def reader(read: Callable[[str], T]) -> Reader[T]:
        return Reader(type, read)

    return reader


def whole_number(least: int, most: int = INT32_MAX) -> Reader[int]:
    @reads(ConfigType.INT if most <= INT32_MAX else ConfigType.LONG)
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise ValueError(f"expected a whole number from {least} to {most}")
        return int(text)

    return read


@reads(ConfigType.BOOLEAN)
def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


@reads(ConfigType.PASSWORD)
def password(text: str) -> Password:
    return Password(text)


def one_of(*choices: str) -> Reader[str]:
    """Return a reader of one of `choices`, in any case; the value has the case of `choices`."""
    by_lower = {choice.lower(): choice for choice in choices}

    @reads(ConfigType.STRING)
    def read(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"expected {' or '.join(choices)}")
        return by_lower[text.lower()]

    return read


def some_of(*choices: str) -> Reader[tuple[str, ...]]:
    """Return a reader of one or more of `choices`, each at most once, separated by commas."""

    @reads(ConfigType.LIST)
    def read(text: str) -> tuple[str, ...]:
        items = tuple(items_of(text))
        if not items or len(set(items)) < len(items) or not set(items) <= set(choices):
            raise ValueError(f"expected {' or '.join(choices)}, or several of them, separated by commas")
        return items

    return read


def items_of(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
