"""Generates the functions that write a value into a protobuf message and read it back, for one pair of types.

They are what one would write by hand; for a request with topics and a time limit:

    def write(value, message):
        add = message.topics.add
        for item in value.topics:
            write_topics(item, add())
        message.timeout_ms = value.timeout_ms

    def read(message):
        topics = tuple([read_topics(item) for item in message.topics])
        return CreateTopicsRequest(topics=topics, timeout_ms=message.timeout_ms)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from kraft.wire.source import Source

# Protobuf's C and Python descriptors have different types.
Descriptor = Any

Convert = Callable[[Any], Any]


class Converters(NamedTuple):
    """Functions of a pair of types: one writes a value into an empty message, the other returns a message's value."""

    write: Callable[[Any, Any], None]
    read: Convert


class Scalar(NamedTuple):
    """Conversion of a single value to the message's and back; None where they are the same."""

    encode: Convert | None = None
    decode: Convert | None = None


SAME: Final = Scalar()


class MappedField(NamedTuple):
    """A field of a value. Every kind of value declares its fields in its own way; this is what they have in common."""

    name: str
    content: Scalar | type[Any]
    """How one value is converted, or the type of a value that has fields itself."""

    many: type[Any] | None = None
    """`list` or `tuple` of values, or `dict`."""

    nullable: bool = False
    default: Any = None
    """What a field that is absent and not nullable has; None for the zero value."""


class ConverterWriter:
    """Writes the two functions. `nested` returns those of a value's type and its message, for the values in fields."""

    def __init__(
        self, kind: type[Any], descriptor: Descriptor, nested: Callable[[type[Any], Descriptor], Converters]
    ) -> None:
        self._fields = descriptor.fields_by_name
        self._nested = nested
        self._write = Source()
        self._read = Source()
        self._kind = self._read.constant(kind)

    def converters(self, fields: Iterable[MappedField]) -> Converters:
        read: list[str] = []
        with self._write.block("def write(value, message):"):
            for field in fields:
                self._add(field, self._fields[field.name], read)
        with self._read.block("def read(message):"):
            self._read.line(f"return {self._kind}({', '.join(read)})")
        return Converters(self._write.run("write"), self._read.run("read"))

    def _add(self, field: MappedField, declared: Descriptor, read: list[str]) -> None:
        value, target = f"value.{field.name}", f"message.{field.name}"
        wrapped = field.many is not None and not declared.is_repeated
        if wrapped:
            (declared,) = declared.message_type.fields
        inside = f"{target}.{declared.name}" if wrapped else target
        with self._write.block(f"if {value} is not None:") if field.nullable else nullcontext():
            if wrapped:
                self._write.line(f"{target}.SetInParent()")
            self._write_content(field, declared, value, inside)
        read.append(f"{field.name}={self._read_field(field, self._read_content(field, declared, inside))}")

    def _write_content(self, field: MappedField, declared: Descriptor, value: str, target: str) -> None:
        write, name = self._write, field.name
        if field.many is dict:
            write.line(f"{target}.update({value})")
        elif isinstance(field.content, Scalar):
            encode = self._named(write, f"encode_{name}", field.content.encode)
            if field.many is not None:
                write.line(f"{target}.extend({f'map({encode}, {value})' if encode else value})")
            else:
                write.line(f"{target} = {f'{encode}({value})' if encode else value}")
        else:
            nested = self._named(write, f"write_{name}", self._nested(field.content, declared.message_type).write)
            if field.many is None:
                write.line(f"{nested}({value}, {target})")
                write.line(f"{target}.SetInParent()")
            else:
                write.line(f"add = {target}.add")
                with write.block(f"for item in {value}:"):
                    write.line(f"{nested}(item, add())")

    def _read_content(self, field: MappedField, declared: Descriptor, source: str) -> str:
        if field.many is dict:
            return f"dict({source})"
        if isinstance(field.content, Scalar):
            decode = self._named(self._read, f"decode_{field.name}", field.content.decode)
            if field.many is not None:
                # Protobuf's containers hand out a list at once, and are slow to be iterated.
                return f"{field.many.__name__}({f'map({decode}, {source}[:])' if decode else f'{source}[:]'})"
            return f"{decode}({source})" if decode else source
        read = self._nested(field.content, declared.message_type).read
        nested = self._named(self._read, f"read_{field.name}", read)
        if field.many is not None:
            return f"{field.many.__name__}([{nested}(item) for item in {source}])"
        return f"{nested}({source})"

    def _read_field(self, field: MappedField, content: str) -> str:
        declared = self._fields[field.name]
        if field.nullable:
            if declared.has_presence:
                return f'{content} if message.HasField("{field.name}") else None'
            return f"{content} or None"
        if declared.has_presence and field.default is not None:
            default = self._named(self._read, f"default_{field.name}", field.default)
            return f'{content} if message.HasField("{field.name}") else {default}'
        return content

    @staticmethod
    def _named(source: Source, name: str, meant: object) -> str:
        """Return the name by which the function refers to something; empty for None."""
        if meant is None:
            return ""
        source.names[name] = meant
        return name
