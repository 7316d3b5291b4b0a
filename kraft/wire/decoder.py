"""Generates the function that decodes one version of one message.

The generated code is what one would write by hand for speed: adjacent fields of fixed size are unpacked together,
structs are filled in place, nested ones in the loop over their array. `python -m kraft.wire` prints it:

    def decode(data, p, budget):
        ...
        acks, timeout_ms, n = unpack_from_hii(data, p)

In it `p` is the position, `end` the position after the last byte, `n` a length, and `budget` the number of array
elements and tagged fields that this message may still have. A length is compared with the bytes that are left before
anything is allocated for it, so that memory stays in proportion to the bytes received.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from struct import calcsize, unpack_from
from struct import error as struct_error
from typing import Any, Final, TypeAlias
from uuid import UUID

from kraft.wire.declaration import ArrayOf, Field, Fixed, Form, Identifier, Message, Sized, Struct, tagged_fields
from kraft.wire.errors import ends_early, not_text, too_many_elements, wrong_length, wrong_tagged_size
from kraft.wire.source import Source
from kraft.wire.varint import decode_uvarint

Decode: TypeAlias = Callable[[memoryview, int, int], tuple[Any, int]]
"""Takes data, position and budget; returns the message and the position after it. Raises ProtocolError."""

_STRING_BYTES_MAX: Final = 0x7FFF
"""Kafka's limit, also in flexible versions, whose lengths could be larger."""

_NUMBERS_SHIFT: Final = 3
"""Eight plain numbers count as one element: each takes 40 bytes at most, a struct takes hundreds."""


def decoder(message: type[Message], version: int) -> Decode:
    return decoder_source(message, version).run("decode")


def decoder_source(message: type[Message], version: int) -> Source:
    writer = _DecoderWriter(message, version)
    writer.write()
    return writer.source


class _DecoderWriter:
    def __init__(self, message: type[Message], version: int) -> None:
        self.source = Source()
        self._message = message
        self._version = version
        self._is_flexible = version in message.flexible
        self._run: list[tuple[str, str]] = []
        """Fields of fixed size that are not unpacked yet: the code of each, and the target of its value."""
        self._identifiers: list[tuple[str, str]] = []
        """The UUIDs among them: the target, and the variable with the unpacked bytes."""
        self.source.names.update(
            MESSAGE=f"{message.__name__} version {version}",
            decode_length=_decode_length,
            decode_uvarint=decode_uvarint,
            ends_early=ends_early,
            identifier=_identifier,
            new=object.__new__,
            not_text=not_text,
            skip_tagged_fields=skip_tagged_fields,
            struct_error=struct_error,
            too_many_elements=too_many_elements,
            unpack_from=unpack_from,
            wrong_length=wrong_length,
            wrong_tagged_size=wrong_tagged_size,
        )

    def write(self) -> None:
        source = self.source
        with source.block("def decode(data, p, budget):"):
            source.line("end = len(data)")
            with source.block("try:"):
                made = self._struct(self._message)
                source.line(f"return {made}, p")
            with source.block("except (IndexError, struct_error):"):
                source.line("raise ends_early(MESSAGE, p) from None")
            with source.block("except UnicodeDecodeError:"):
                source.line("raise not_text(MESSAGE, p) from None")

    # --- structs -----------------------------------------------------------------------------------------------

    def _struct(self, struct: type[Struct]) -> str:
        """Write code that decodes a struct; return the variable that holds it. The run is empty afterwards."""
        made = self.source.variable("s")
        self.source.line(f"{made} = new({self.source.constant(struct)})")
        for field in struct.fields:
            if self._version not in field.versions:
                self._set(made, field, field.default)
            elif field.tag is not None:
                self._set(made, field, field.absent)
            else:
                self._value(field.form, self._version in field.nullable, f"{made}.{field.name}")
        self._flush()
        if self._is_flexible:
            self._tagged_fields(made, tagged_fields(struct, self._version))
        return made

    def _set(self, owner: str, field: Field, value: object) -> None:
        self.source.line(f"{owner}.{field.name} = {self.source.constant(value)}")

    def _tagged_fields(self, owner: str, fields: list[Field]) -> None:
        source = self.source
        if not fields:
            with source.block("if data[p]:"):
                source.line("p, budget = skip_tagged_fields(MESSAGE, data, p, budget)")
            with source.block("else:"):
                source.line("p += 1")
            return
        stop = source.variable("stop")
        source.line("n = data[p]")
        source.line("p += 1")
        with source.block("if n:"):
            source.line("n, p = decode_uvarint(data, p - 1)")
            self._spend_budget("n")
        with source.block("for _ in range(n):"):
            source.line("tag, p = decode_uvarint(data, p)")
            source.line("n, p = decode_uvarint(data, p)")
            source.line(f"{stop} = p + n")
            with source.block(f"if {stop} > end:"):
                source.line("raise wrong_length(MESSAGE, n, p, end)")
            for number, field in enumerate(fields):
                with source.block(f"{'elif' if number else 'if'} tag == {field.tag}:"):
                    self._tagged_value(field, f"{owner}.{field.name}")
                    self._flush()
                    with source.block(f"if p != {stop}:"):
                        source.line(f"raise wrong_tagged_size(MESSAGE, {field.tag}, p)")
            source.line(f"p = {stop}")

    def _tagged_value(self, field: Field, target: str) -> None:
        nullable = self._version in field.nullable
        if nullable and isinstance(field.form, type):
            # Here a variable-length number precedes the struct: 0 for null.
            self.source.line("n, p = decode_uvarint(data, p)")
            with self.source.block("if n == 0:"):
                self.source.line(f"{target} = None")
            with self.source.block("else:"):
                self.source.line(f"{target} = {self._struct(field.form)}")
        else:
            self._value(field.form, nullable, target)

    # --- values ------------------------------------------------------------------------------------------------

    def _value(self, form: Form, nullable: bool, target: str) -> None:
        match form:
            case Fixed(code):
                self._run.append((code, target))
            case Identifier():
                raw = self.source.variable("raw")
                self._run.append(("16s", raw))
                self._identifiers.append((target, raw))
            case Sized():
                self._sized(form, nullable, target)
            case ArrayOf(element):
                self._array(element, nullable, target)
            case _:
                self._nested(form, nullable, target)

    def _sized(self, form: Sized, nullable: bool, target: str) -> None:
        source = self.source
        self._length(form.value.strip(), _STRING_BYTES_MAX if form is Sized.STRING else None)
        with self._unless_null(nullable, target):
            with source.block("if not 0 <= n <= end - p:"):
                source.line("raise wrong_length(MESSAGE, n, p, end)")
            cut = "data[p : p + n]"
            value = {Sized.STRING: f'str({cut}, "utf-8")', Sized.BYTES: f"bytes({cut})", Sized.RECORDS: cut}[form]
            source.line(f"{target} = {value}")
            source.line("p += n")

    def _array(self, element: Form, nullable: bool, target: str) -> None:
        source = self.source
        self._length("i")
        with self._unless_null(nullable, target):
            size = bytes_min(element, False, self._version, self._is_flexible)
            # An element of no bytes would make the check below useless.
            assert size > 0, f"an element of {target} may be empty"
            with source.block(f"if not 0 <= n <= (end - p) // {size}:"):
                source.line("raise wrong_length(MESSAGE, n, p, end)")
            if isinstance(element, Fixed):
                with source.block(f"if n >= {1 << _NUMBERS_SHIFT}:"):
                    self._spend_budget(f"n >> {_NUMBERS_SHIFT}")
                source.line(f'{target} = unpack_from(f">{{n}}{element.code}", data, p)')
                source.line(f"p += n * {size}")
                return
            self._spend_budget("n")
            items = source.variable("items")
            source.line(f"{items} = []")
            with source.block("for _ in range(n):"):
                if isinstance(element, type):
                    item = self._struct(element)
                else:
                    item = source.variable("item")
                    self._value(element, False, item)
                    self._flush()
                source.line(f"{items}.append({item})")
            source.line(f"{target} = tuple({items})")

    def _nested(self, struct: type[Struct], nullable: bool, target: str) -> None:
        self._flush()
        if nullable:
            # A signed byte precedes the struct: below zero for null.
            self.source.line("n = -1 if data[p] > 127 else 1")
            self.source.line("p += 1")
        with self._unless_null(nullable, target):
            self.source.line(f"{target} = {self._struct(struct)}")

    # --- pieces ------------------------------------------------------------------------------------------------

    def _length(self, code: str, length_max: int | None = None) -> None:
        """Write code that puts a length into `n`; -1 for null. A length of fixed size must keep `length_max`."""
        if not self._is_flexible:
            self._run.append((code, "n"))
            self._flush()
            return
        self._flush()
        source = self.source
        source.line("n = data[p] - 1")
        source.line("p += 1")
        with source.block("if n > 126:"):
            source.line("n, p = decode_length(data, p - 1)")
            if length_max is not None:
                with source.block(f"if n > {length_max}:"):
                    source.line("raise wrong_length(MESSAGE, n, p, end)")

    def _unless_null(self, nullable: bool, target: str) -> AbstractContextManager[None]:
        if not nullable:
            return nullcontext()
        with self.source.block("if n == -1:"):
            self.source.line(f"{target} = None")
        return self.source.block("else:")

    def _spend_budget(self, elements: str) -> None:
        self.source.line(f"budget -= {elements}")
        with self.source.block("if budget < 0:"):
            self.source.line("raise too_many_elements(MESSAGE, p)")

    def _flush(self) -> None:
        """Write code that unpacks the run."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        comma = "," if len(self._run) == 1 else ""
        self.source.line(f"{targets}{comma} = {self.source.fixed(codes, 'unpack_from')}(data, p)")
        self.source.line(f"p += {calcsize(f'>{codes}')}")
        for target, raw in self._identifiers:
            self.source.line(f"{target} = identifier({raw})")
        self._run.clear()
        self._identifiers.clear()


def bytes_min(form: Form, nullable: bool, version: int, is_flexible: bool) -> int:
    """Return the smallest number of bytes of such a value."""
    match form:
        case Fixed():
            return form.size
        case Identifier():
            return 16
        case Sized():
            return 1 if is_flexible else calcsize(f">{form.value.strip()}")
        case ArrayOf():
            return 1 if is_flexible else 4
        case _:
            sizes = [
                bytes_min(field.form, version in field.nullable, version, is_flexible)
                for field in form.fields
                if version in field.versions and field.tag is None
            ]
            return 1 if nullable else sum(sizes) + (1 if is_flexible else 0)


# --- called by the generated functions -------------------------------------------------------------------------


def _decode_length(data: memoryview, p: int) -> tuple[int, int]:
    """Decode a length of more than one byte. The encoded number is one more than the length; 0 is null."""
    length, p = decode_uvarint(data, p)
    return length - 1, p


def skip_tagged_fields(message: str, data: memoryview, p: int, budget: int) -> tuple[int, int]:
    """Skip tagged fields, none of which is known here: a later version of Kafka may have added them."""
    end = len(data)
    count, p = decode_uvarint(data, p)
    budget -= count
    if budget < 0:
        raise too_many_elements(message, p)
    for _ in range(count):
        _, p = decode_uvarint(data, p)
        size, p = decode_uvarint(data, p)
        if size > end - p:
            raise wrong_length(message, size, p, end)
        p += size
    return p, budget


@lru_cache(maxsize=4096)
def _identifier(raw: bytes) -> UUID:
    """Return the UUID, cached: topic ids are few and in every request, and a look-up costs a tenth of a new UUID."""
    return UUID(bytes=raw)
