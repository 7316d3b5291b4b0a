"""What decoding one key or value may take, whatever its bytes say."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

DEPTH_MAX: Final = 64
"""Values inside of each other."""

SPENT_BYTES_MAX: Final = 4 << 20
"""Sum of all values and of the names of their fields, with `VALUE_BYTES` for each value."""

VALUE_BYTES: Final = 32
"""What a value costs by itself: one that takes no byte of the record, such as a null, must not be free."""

_INTS: Final = range(-(2**63), 2**64)
"""Numbers that the console's JSON has without a fraction."""

_TOO_LARGE: Final = "it holds more values than the console decodes"
_TOO_DEEP: Final = f"values are more than {DEPTH_MAX} levels deep"


class CannotDecode(Exception):
    """The bytes are not what the format or the schema says: one sentence, in which nothing of the bytes is told."""


class Budget:
    """What is left for one value: size and depth."""

    def __init__(self, left_bytes: int = SPENT_BYTES_MAX) -> None:
        self._left_bytes = left_bytes
        self._depth = 0

    def spend(self, size_bytes: int = 0) -> None:
        """Take what one more value costs. Raises CannotDecode."""
        self._left_bytes -= VALUE_BYTES + size_bytes
        if self._left_bytes < 0:
            raise CannotDecode(_TOO_LARGE)

    def enter(self) -> None:
        """Go one level down. Raises CannotDecode."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise CannotDecode(_TOO_DEEP)

    def leave(self) -> None:
        self._depth -= 1


def hexadecimal(data: bytes) -> str:
    """Return bytes inside of a value as text: JSON has no bytes."""
    return f"0x{data.hex()}"


def number(value: float) -> int | float | str:
    """Return a number as JSON has it; those that JSON does not have as text."""
    if isinstance(value, int):
        return value if value in _INTS else str(value)
    return value if abs(value) < float("inf") else str(value)


def json_value(data: bytes | str) -> Any:
    """Return the value that the JSON is. Raises CannotDecode."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise CannotDecode("values are too many levels deep") from None
    except UnicodeDecodeError:
        # Of the name of a member; in values, msgspec says it as its own error.
        raise CannotDecode("a name in it is not UTF-8") from None
    except msgspec.MsgspecError as error:
        raise CannotDecode(str(error).removeprefix("JSON is malformed: ")) from None


def plain(value: Any, budget: Budget) -> Any:
    """Return what a decoder made of bytes as JSON can say it. Raises CannotDecode."""
    match value:
        case None | bool():
            budget.spend()
            return value
        case int() | float():
            budget.spend()
            return number(value)
        case str():
            budget.spend(len(value))
            return value
        case bytes():
            budget.spend(2 * len(value))
            return hexadecimal(value)
        case dict():
            return _entries(value, budget)
        case list() | tuple():
            budget.spend()
            budget.enter()
            found = [plain(each, budget) for each in value]
            budget.leave()
            return found
        case datetime():
            budget.spend()
            return value.isoformat()
        case _:
            raise CannotDecode(f"it holds a value of type {type(value).__name__}, which is not supported")


def _entries(value: dict[Any, Any], budget: Budget) -> dict[str, Any]:
    budget.spend()
    budget.enter()
    found = {}
    for key, each in value.items():
        name = key if isinstance(key, str) else str(plain(key, budget))
        budget.spend(len(name))
        found[name] = plain(each, budget)
    budget.leave()
    return found
