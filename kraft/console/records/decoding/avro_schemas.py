"""Schemas of Avro, from their JSON to what reads a value.

Source: Apache Avro 1.12, "Schema Declaration" and "Names". Defaults, aliases and the order of fields are for readers
with a schema of their own: the console reads with the schema that the record was written with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kraft.console.records.decoding.avro_values import LOGICAL_TYPES, PRIMITIVES, Reader, Readings
from kraft.console.records.decoding.limits import DEPTH_MAX, CannotDecode, json_value

ReadValue = Callable[[Reader], Any]

_NAMED: Final = ("record", "error", "enum", "fixed")
_FIXED_BYTES_MAX: Final = 1 << 20


def avro_schema(text: str, referenced: Sequence[str] = ()) -> ReadValue:
    """Return what reads values of the schema. `referenced` are schemas whose names it may use. Raises CannotDecode."""
    names = _Names()
    for each in (*referenced, text):
        try:
            schema = json_value(each)
        except CannotDecode as error:
            raise CannotDecode(f"the registry's schema is not JSON: {error}") from None
        names.last = names.compiled(schema, "", 0)
    return names.last


class _Names:
    """Named types that were declared so far, by their full names."""

    def __init__(self) -> None:
        self._found: dict[str, ReadValue] = {}
        self.last: ReadValue = PRIMITIVES["null"]

    def compiled(self, schema: object, namespace: str, depth: int) -> ReadValue:
        if depth > DEPTH_MAX:
            raise CannotDecode(f"the registry's schema is more than {DEPTH_MAX} levels deep")
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return Readings.union([self.compiled(each, namespace, depth + 1) for each in schema])
        if not isinstance(schema, Mapping):
            raise CannotDecode("the registry's schema has a type that is no name, object or list")
        kind = schema.get("type")
        if kind in _NAMED:
            return self._declared(kind, schema, namespace, depth)
        if kind == "array":
            return Readings.array(self.compiled(schema.get("items"), namespace, depth + 1))
        if kind == "map":
            return Readings.map(self.compiled(schema.get("values"), namespace, depth + 1))
        found = self.compiled(kind, namespace, depth + 1)
        logical = LOGICAL_TYPES.get((kind, schema.get("logicalType"))) if isinstance(kind, str) else None
        return found if logical is None else Readings.logical(found, logical, schema)

    def _named(self, name: str, namespace: str) -> ReadValue:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        for full in (_full_name(name, namespace), name):
            if full in self._found:
                return self._found[full]
        raise CannotDecode(f"the registry's schema uses the type {name[:100]!r}, which it does not declare")

    def _declared(self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int) -> ReadValue:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise CannotDecode(f"the registry's schema has a type {kind} without a name")
        given = schema.get("namespace", namespace)
        full = _full_name(name, given if isinstance(given, str) else "")
        if kind == "enum":
            found = Readings.enum(_texts(schema.get("symbols")))
        elif kind == "fixed":
            fixed = Readings.fixed(_size(schema.get("size")))
            logical = LOGICAL_TYPES.get((kind, schema.get("logicalType")))
            found = fixed if logical is None else Readings.logical(fixed, logical, schema)
        else:
            return self._record(full, schema, depth)
        self._found[full] = found
        return found

    def _record(self, full: str, schema: Mapping[str, Any], depth: int) -> ReadValue:
        fields: list[tuple[str, ReadValue]] = []
        # Before its fields: they may be of the record itself.
        found = self._found[full] = Readings.record(fields)
        declared = schema.get("fields")
        for each in declared if isinstance(declared, list) else ():
            if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
                raise CannotDecode("the registry's schema has a field without a name")
            of_field = self.compiled(each.get("type"), full.rpartition(".")[0], depth + 1)
            fields.append((each["name"], of_field))
        return found


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise CannotDecode("the registry's schema has an enum whose symbols are no texts")
    return value


def _size(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _FIXED_BYTES_MAX:
        raise CannotDecode(f"the registry's schema has a fixed whose size is not from 0 to {_FIXED_BYTES_MAX}")
    return value
