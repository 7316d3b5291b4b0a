"""The kinds of config values, with conversion from text to value and back.

`read` raises ValueError for text that is not valid; `allows` says whether a value is, and `wanted` describes the valid
ones.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from kraft.model.configs import ConfigType
from kraft.model.throttled_replicas import ThrottledReplicas

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | ThrottledReplicas

T_co = TypeVar("T_co", bound=Value, covariant=True)

_TEXT_BYTES_MAX: Final = 100
"""Maximum length of a list's text, which comes from outside; no valid list is longer."""

# repr() writes up to 17 significant digits, after up to 4 zeros.
_DECIMAL: Final = re.compile(r"[0-9]{1,19}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", re.ASCII)


class ConfigValueKind(Protocol[T_co]):
    @property
    def type(self) -> ConfigType: ...

    @property
    def wanted(self) -> str: ...

    def allows(self, value: Any) -> bool: ...

    def read(self, text: str) -> T_co: ...


class IntegerBetween(Struct, frozen=True, kw_only=True):
    least: int
    most: int
    also: int | None = None
    """A number outside the range that is valid too."""

    @property
    def type(self) -> ConfigType:
        return ConfigType.INT if self.most <= INT32_MAX else ConfigType.LONG

    @property
    def wanted(self) -> str:
        also = "" if self.also is None else f", or {self.also}"
        return f"a whole number from {self.least} to {self.most}{also}"

    def allows(self, value: int) -> bool:
        return self.least <= value <= self.most or value == self.also

    def read(self, text: str) -> int:
        # int() would also accept '1_000' and digits of other scripts, and is slow on very long texts.
        digits = text.removeprefix("-")
        if len(digits) > 20 or not digits.isascii() or not digits.isdigit():
            raise ValueError(self.wanted)
        if not self.allows(int(text)):
            raise ValueError(self.wanted)
        return int(text)


class NumberBetween(Struct, frozen=True, kw_only=True):
    least: int
    most: int

    @property
    def type(self) -> ConfigType:
        return ConfigType.DOUBLE

    @property
    def wanted(self) -> str:
        return f"a number from {self.least} to {self.most}"

    def allows(self, value: float) -> bool:
        return self.least <= value <= self.most

    def read(self, text: str) -> float:
        if not _DECIMAL.fullmatch(text) or not self.allows(float(text)):
            raise ValueError(self.wanted)
        return float(text)


class TrueOrFalse(Struct, frozen=True, kw_only=True):
    @property
    def type(self) -> ConfigType:
        return ConfigType.BOOLEAN

    @property
    def wanted(self) -> str:
        return "true or false"

    def allows(self, value: bool) -> bool:
        return isinstance(value, bool)

    def read(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(self.wanted)
        return text.lower() == "true"


class OneOf(Struct, frozen=True, kw_only=True):
    values: tuple[str, ...]

    @property
    def type(self) -> ConfigType:
        return ConfigType.STRING

    @property
    def wanted(self) -> str:
        return " or ".join(self.values)

    def allows(self, value: str) -> bool:
        return value in self.values

    def read(self, text: str) -> str:
        if not self.allows(text):
            raise ValueError(self.wanted)
        return text


class ListOf(Struct, frozen=True, kw_only=True):
    """A list of `values`, each at most once, in any order, separated by commas. The empty text is the empty list."""

    values: tuple[str, ...]

    @property
    def type(self) -> ConfigType:
        return ConfigType.LIST

    @property
    def wanted(self) -> str:
        return f"{' or '.join(self.values)}, or several of them, separated by commas"

    def allows(self, value: tuple[str, ...]) -> bool:
        return len(set(value)) == len(value) and set(value) <= set(self.values)

    def read(self, text: str) -> tuple[str, ...]:
        if len(text) > _TEXT_BYTES_MAX:
            raise ValueError(self.wanted)
        items = list_items(text)
        if not self.allows(items):
            raise ValueError(self.wanted)
        return items


def list_items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def text_of(value: Value) -> str:
    """Return the text that the value's kind reads as this value."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case ThrottledReplicas():
            return value.text
        case _:
            return str(value)
