"""Generates the function that encodes one version of one message.

The counterpart of `decoder.py`, also made for speed: adjacent fields of fixed size are packed together, and everything
is appended to one bytearray, `out`. Records are the exception: their buffer is passed through without a copy, and a new
`out` begins after it. `python -m kraft.wire` prints the generated code:

    def encode(s, out):
        buffers = []
        ...
        out += pack_iq(s.partition_index, s.high_watermark)
"""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any, Final, TypeAlias

from kraft.wire.declaration import (
    ArrayOf,
    Buffer,
    Field,
    Fixed,
    Form,
    Identifier,
    Message,
    Sized,
    Struct,
    tagged_fields,
)
from kraft.wire.source import Source
from kraft.wire.varint import SMALL_UVARINTS, encode_uvarint

Encode: TypeAlias = Callable[[Any, bytearray], list[Buffer]]
"""Takes a message and the first buffer, and returns all buffers. The first one's content stays in front."""

_ZERO_BYTE: Final = "x"
"""The `struct` code of a padding byte: it takes no argument and is written as zero."""


def encoder(message: type[Message], version: int) -> Encode:
    return encoder_source(message, version).run("encode")


def encoder_source(message: type[Message], version: int) -> Source:
    writer = _EncoderWriter(message, version)
    writer.write()
    return writer.source


class _EncoderWriter:
    def __init__(self, message: type[Message], version: int) -> None:
        self.source = Source()
        self._message = message
        self._version = version
        self._is_flexible = version in message.flexible
        self._run: list[tuple[str, str]] = []
        """Fields of fixed size that are not packed yet: the code of each, and its value."""
        self.source.names.update(
            MESSAGE=f"{message.__name__} version {version}",
            SMALL_UVARINTS=SMALL_UVARINTS,
            encode_uvarint=encode_uvarint,
            pack=pack,
        )

    def write(self) -> None:
        with self.source.block("def encode(s, out):"):
            self.source.line("buffers = []")
            self._struct(self._message, "s")
            with self.source.block("if out:"):
                self.source.line("buffers.append(out)")
            self.source.line("return buffers")

    # --- structs -----------------------------------------------------------------------------------------------

    def _struct(self, struct: type[Struct], held: str) -> None:
        """Write code that encodes the struct in the variable `held`. The run is empty afterwards."""
        for field in struct.fields:
            if field.tag is None and self._version in field.versions:
                self._value(field.form, self._version in field.nullable, f"{held}.{field.name}")
        if self._is_flexible:
            self._tagged_fields(tagged_fields(struct, self._version), held)
        self._flush()

    def _tagged_fields(self, fields: list[Field], held: str) -> None:
        """Write code that encodes the tagged fields that have to be written."""
        if not fields:
            self._run.append((_ZERO_BYTE, ""))
            return
        self._flush()
        source = self.source
        are_absent = [_is_equal(f"{held}.{field.name}", source.constant(field.absent)) for field in fields]
        with source.block(f"if {' and '.join(are_absent)}:"):
            source.line('out += b"\\0"')
        with source.block("else:"):
            count, tagged, outer = (source.variable(name) for name in ("count", "tagged", "outer"))
            source.line(f"{count}, {tagged}, {outer} = 0, bytearray(), out")
            for field, is_absent in zip(fields, are_absent, strict=True):
                with source.block(f"if not {is_absent}:"):
                    source.line("out = bytearray()")
                    self._tagged_value(field, f"{held}.{field.name}")
                    self._flush()
                    source.line(f"{tagged} += encode_uvarint({field.tag}) + encode_uvarint(len(out)) + out")
                    source.line(f"{count} += 1")
            source.line(f"out = {outer}")
            source.line(f"out += encode_uvarint({count}) + {tagged}")

    def _tagged_value(self, field: Field, value: str) -> None:
        nullable = self._version in field.nullable
        if nullable and isinstance(field.form, type):
            # Here null is 0.
            self._nested(field.form, nullable, value, null=r"\0")
        else:
            self._value(field.form, nullable, value)

    # --- values ------------------------------------------------------------------------------------------------

    def _value(self, form: Form, nullable: bool, value: str) -> None:
        match form:
            case Fixed(code):
                self._run.append((code, value))
            case Identifier():
                self._run.append(("16s", f"{value}.bytes"))
            case Sized.STRING:
                self._text(nullable, value)
            case Sized():
                self._bytes(form, nullable, value)
            case ArrayOf(element):
                self._array(element, nullable, value)
            case _:
                self._nested(form, nullable, value)

    def _text(self, nullable: bool, value: str) -> None:
        if nullable:
            self.source.line(f"text = {value}")
            self.source.line('data = b"" if text is None else text.encode()')
            self._length("h", "data", "text is None")
        else:
            self.source.line(f"data = {value}.encode()")
            self._length("h", "data", "")
        self.source.line("out += data")

    def _bytes(self, form: Sized, nullable: bool, value: str) -> None:
        self.source.line(f"data = {value}")
        self._length("i", "data", "data is None" if nullable else "")
        with self.source.block("if data:"):
            if form is Sized.RECORDS:
                self.source.line("buffers.append(out)")
                self.source.line("buffers.append(data)")
                self.source.line("out = bytearray()")
            else:
                self.source.line("out += data")

    def _array(self, element: Form, nullable: bool, value: str) -> None:
        source = self.source
        items = source.variable("items")
        source.line(f"{items} = {value}")
        self._length("i", items, f"{items} is None" if nullable else "")
        if isinstance(element, Fixed):
            with source.block(f"if {items}:"):
                source.line(f'out += pack(f">{{len({items})}}{element.code}", *{items})')
            return
        item = source.variable("s")
        with source.block(f"for {item} in {items}{' or ()' if nullable else ''}:"):
            if isinstance(element, type):
                self._struct(element, item)
            else:
                self._value(element, False, item)
                self._flush()

    def _nested(self, struct: type[Struct], nullable: bool, value: str, null: str = r"\xff") -> None:
        held = self.source.variable("s")
        self.source.line(f"{held} = {value}")
        self._flush()
        if not nullable:
            self._struct(struct, held)
            return
        with self.source.block(f"if {held} is None:"):
            self.source.line(f'out += b"{null}"')
        with self.source.block("else:"):
            self.source.line('out += b"\\x01"')
            self._struct(struct, held)

    # --- pieces ------------------------------------------------------------------------------------------------

    def _length(self, code: str, counted: str, is_null: str) -> None:
        """Write code that encodes the length of `counted`; `is_null` is the condition for null, or empty."""
        if not self._is_flexible:
            self._run.append((code, f"-1 if {is_null} else len({counted})" if is_null else f"len({counted})"))
            self._flush()
            return
        # One more than the length; 0 is null.
        self._flush()
        self.source.line(f"n = 0 if {is_null} else len({counted}) + 1" if is_null else f"n = len({counted}) + 1")
        self.source.line("out += SMALL_UVARINTS[n] if n < 128 else encode_uvarint(n)")

    def _flush(self) -> None:
        """Write code that packs the run."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        if codes == _ZERO_BYTE:
            self.source.line('out += b"\\0"')
            self._run.clear()
            return
        values = ", ".join(value for _, value in self._run if value)
        self.source.line(f"out += {self.source.fixed(codes, 'pack')}({values})")
        self._run.clear()


def _is_equal(value: str, default: str) -> str:
    """Return the condition; where a comparison is costly, identity with the default is tested first."""
    is_named = default.startswith("DEFAULT_")
    return f"({value} is {default} or {value} == {default})" if is_named else f"({value} == {default})"
