"""Values of Avro in its binary encoding, as JSON can say them.

Ours, and not a library's: the readers at hand recurse in C without a limit, so that one record of a list that is a
million entries deep ends the process, and they believe a count of items that take no bytes. Everything here is paid
from a `Budget`. Source: Apache Avro 1.12, "Binary Encoding" and "Logical Types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from kraft.console.records.decoding.limits import Budget, CannotDecode, hexadecimal, number

ReadValue = Callable[["Reader"], Any]
Logical = Callable[[Any, Mapping[str, Any]], Any]

_VARINT_BYTES_MAX: Final = 10
_DECIMAL_BYTES_MAX: Final = 64
_SCALE_MAX: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_SHORT: Final = "the bytes end before the value does"
_OTHER_SCHEMA: Final = "the schema is not the one that the record was written with"


class Reader:
    """A place in the bytes of one value, and what it may still take."""

    def __init__(self, data: bytes, start: int, budget: Budget) -> None:
        self._data = data
        self._at = start
        self.budget = budget

    @property
    def left_bytes(self) -> int:
        return len(self._data) - self._at

    def take(self, size_bytes: int) -> bytes:
        """Return the next bytes. Raises CannotDecode."""
        if not 0 <= size_bytes <= self.left_bytes:
            raise CannotDecode(_TOO_SHORT)
        begin, self._at = self._at, self._at + size_bytes
        return self._data[begin : self._at]

    def long(self) -> int:
        """Return a number in zigzag varint form. Raises CannotDecode."""
        raw = shift = 0
        for each in self._data[self._at : self._at + _VARINT_BYTES_MAX]:
            self._at += 1
            raw |= (each & 0x7F) << shift
            if each < 0x80:
                return (raw >> 1) ^ -(raw & 1)
            shift += 7
        raise CannotDecode(_TOO_SHORT if shift < 7 * _VARINT_BYTES_MAX else "a number has more than 64 bits")

    def blocks(self) -> int:
        """Return the count of items in the next block of an array or a map; 0 after the last one."""
        count = self.long()
        if count < 0:
            # The size of the block is for those who skip it.
            self.long()
        return abs(count)


def _null(reader: Reader) -> None:
    reader.budget.spend()


def _boolean(reader: Reader) -> bool:
    reader.budget.spend()
    return reader.take(1) != b"\0"


def _long(reader: Reader) -> int | float | str:
    reader.budget.spend()
    return number(reader.long())


def _float(reader: Reader) -> int | float | str:
    reader.budget.spend()
    return number(struct.unpack("<f", reader.take(4))[0])


def _double(reader: Reader) -> int | float | str:
    reader.budget.spend()
    return number(struct.unpack("<d", reader.take(8))[0])


def _bytes(reader: Reader) -> bytes:
    found = reader.take(reader.long())
    reader.budget.spend(2 * len(found))
    return found


def _shown_bytes(reader: Reader) -> str:
    return hexadecimal(_bytes(reader))


def _string(reader: Reader) -> str:
    return _bytes(reader).decode("utf-8", "replace")


PRIMITIVES: Final[Mapping[str, ReadValue]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _shown_bytes,
    "string": _string,
}


class Readings:
    """What reads values of the types that are made of others."""

    @staticmethod
    def record(fields: Sequence[tuple[str, ReadValue]]) -> ReadValue:
        """The fields may be added later, as a record may hold itself."""

        def read(reader: Reader) -> dict[str, Any]:
            budget = reader.budget
            budget.spend()
            budget.enter()
            found = {}
            for name, of_field in fields:
                budget.spend(len(name))
                found[name] = of_field(reader)
            budget.leave()
            return found

        return read

    @staticmethod
    def array(of_item: ReadValue) -> ReadValue:
        def read(reader: Reader) -> list[Any]:
            reader.budget.spend()
            reader.budget.enter()
            found: list[Any] = []
            while count := reader.blocks():
                # Not by the count at once: each item is paid before the next one.
                for _ in range(count):
                    found.append(of_item(reader))  # noqa: PERF401 - a comprehension would be made before it is refused
            reader.budget.leave()
            return found

        return read

    @staticmethod
    def map(of_value: ReadValue) -> ReadValue:
        def read(reader: Reader) -> dict[str, Any]:
            reader.budget.spend()
            reader.budget.enter()
            found: dict[str, Any] = {}
            while count := reader.blocks():
                for _ in range(count):
                    name = _string(reader)
                    found[name] = of_value(reader)
            reader.budget.leave()
            return found

        return read

    @staticmethod
    def union(branches: Sequence[ReadValue]) -> ReadValue:
        def read(reader: Reader) -> Any:
            branch = reader.long()
            if not 0 <= branch < len(branches):
                raise CannotDecode(f"a union has no such branch: {_OTHER_SCHEMA}")
            return branches[branch](reader)

        return read

    @staticmethod
    def enum(symbols: Sequence[str]) -> ReadValue:
        def read(reader: Reader) -> str:
            symbol = reader.long()
            if not 0 <= symbol < len(symbols):
                raise CannotDecode(f"an enum has no such symbol: {_OTHER_SCHEMA}")
            reader.budget.spend(len(symbols[symbol]))
            return symbols[symbol]

        return read

    @staticmethod
    def fixed(size_bytes: int) -> ReadValue:
        def read(reader: Reader) -> str:
            reader.budget.spend(2 * size_bytes)
            return hexadecimal(reader.take(size_bytes))

        return read

    @staticmethod
    def logical(of_value: ReadValue, logical: Logical, schema: Mapping[str, Any]) -> ReadValue:
        """A value that its logical type does not fit is shown as the type below it, as the specification asks."""

        def read(reader: Reader) -> Any:
            value = of_value(reader)
            try:
                return logical(value, schema)
            except (ArithmeticError, OverflowError, ValueError, TypeError):
                return value

        return read


# --- logical types -------------------------------------------------------------------------------------------------


def _decimal(value: str, schema: Mapping[str, Any]) -> str:
    raw, scale = bytes.fromhex(value.removeprefix("0x")), schema.get("scale", 0)
    if len(raw) > _DECIMAL_BYTES_MAX or not isinstance(scale, int) or not 0 <= scale <= _SCALE_MAX:
        raise ValueError
    unscaled = int.from_bytes(raw, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


def _date(value: int, _: Mapping[str, Any]) -> str:
    return (date(1970, 1, 1) + timedelta(days=value)).isoformat()


def _timestamp(units_of_second: int, is_local: bool = False) -> Logical:
    def shown(value: int, _: Mapping[str, Any]) -> str:
        # In whole numbers: a float has not enough digits for microseconds.
        found = _EPOCH + timedelta(microseconds=value * 1_000_000 // units_of_second)
        return found.replace(tzinfo=None).isoformat() if is_local else found.isoformat()

    return shown


def _time(units_of_second: int) -> Logical:
    def shown(value: int, _: Mapping[str, Any]) -> str:
        if not 0 <= value < 86_400 * units_of_second:
            raise ValueError
        return (_EPOCH + timedelta(microseconds=value * 1_000_000 // units_of_second)).time().isoformat()

    return shown


LOGICAL_TYPES: Final[Mapping[tuple[str, object], Logical]] = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("int", "date"): _date,
    ("int", "time-millis"): _time(1_000),
    ("long", "time-micros"): _time(1_000_000),
    ("long", "timestamp-millis"): _timestamp(1_000),
    ("long", "timestamp-micros"): _timestamp(1_000_000),
    ("long", "timestamp-nanos"): _timestamp(1_000_000_000),
    ("long", "local-timestamp-millis"): _timestamp(1_000, is_local=True),
    ("long", "local-timestamp-micros"): _timestamp(1_000_000, is_local=True),
    ("long", "local-timestamp-nanos"): _timestamp(1_000_000_000, is_local=True),
}
"""By the type below, and the name. A UUID is text already."""


def avro_value(schema: ReadValue, data: bytes, start: int = 0) -> Any:
    """Return the value that begins there and ends with the bytes. Raises CannotDecode."""
    reader = Reader(data, start, Budget())
    found = schema(reader)
    if reader.left_bytes:
        raise CannotDecode(f"{reader.left_bytes:,} bytes are left over: {_OTHER_SCHEMA}")
    return found
