"""Bytes of a key, a value or a header to text that people read, and to a value that filters read.

What one value may take is bounded: its bytes here, the values and levels that it holds by a `Budget`. All of it may
block, by the registry, so that it is called in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kraft.console.records.decoding.limits import Budget, CannotDecode, json_value, plain
from kraft.console.records.decoding.registered import REGISTERED_PREFIX, registered
from kraft.console.records.decoding.registry import Registry
from kraft.model.printable import readable_size

DECODED_BYTES_MAX: Final = 1 << 20
"""Larger bytes are shown by their beginning, and have no value for filters."""

HEX_BYTES_MAX: Final = 4 << 10
"""Bytes of which the hexadecimal form is shown."""

FORMATS: Final = ("json", "text", "msgpack", "avro", "protobuf", "hex")
"""Names that may be chosen."""

_HAS_NO_TEXT: Final = frozenset(map(chr, range(32))) - set("\t\n\r\f\b\x1b")


class Decoded(Struct, frozen=True, kw_only=True):
    """A key, a value or a header as people read it."""

    format: str
    """One of `FORMATS`, or "null"."""

    text: str
    value: Any = None
    """What JSON can say: None where the bytes are no such value."""

    problem: str = ""
    """Why it is not shown as was chosen, or not whole."""


def decode(data: bytes | None, chosen: str = "", registry: Registry | None = None) -> Decoded:
    """Return the bytes in the chosen format, or in the first that fits: by the registry's schema, JSON, text,
    MessagePack, hexadecimal. Raises nothing.
    """
    if data is None:
        return Decoded(format="null", text="null")
    if len(data) > DECODED_BYTES_MAX:
        return _beginning(data, chosen)
    if chosen not in _READS:
        return _automatic(data, registry)
    try:
        return _READS[chosen](data, registry)
    except CannotDecode as error:
        return replace(_unstructured(data), problem=f"not {_NAMES[chosen]}: {error}")


def _automatic(data: bytes, registry: Registry | None) -> Decoded:
    problem = ""
    if data.startswith(REGISTERED_PREFIX) and registry is not None:
        try:
            return _registered(data, registry)
        except CannotDecode as error:
            problem = str(error)
    for read in (_json, _text, _msgpack):
        try:
            found = read(data, None)
        except CannotDecode:
            continue
        # One byte of MessagePack is a number, and most bytes are one: what people mean by it is an object.
        if read is not _msgpack or isinstance(found.value, dict | list):
            return found
    return replace(_hex(data, None), problem=problem) if problem else _hex(data, None)


def _beginning(data: bytes, chosen: str) -> Decoded:
    size = readable_size(len(data))
    problem = f"it has {size}: what is larger than {readable_size(DECODED_BYTES_MAX)} is not decoded, and cut"
    if chosen != "hex":
        # Cut in the middle of a character, the beginning is text all the same.
        text = data[:DECODED_BYTES_MAX].decode("utf-8", "replace").removesuffix("\ufffd")
        if "\ufffd" not in text and not _HAS_NO_TEXT.intersection(text):
            return Decoded(format="text", text=text, problem=problem)
    return replace(_hex(data, None), problem=problem)


def _unstructured(data: bytes) -> Decoded:
    try:
        return _text(data, None)
    except CannotDecode:
        return _hex(data, None)


def _json(data: bytes, _: Registry | None) -> Decoded:
    value = plain(json_value(data), Budget())
    return Decoded(format="json", text=data.decode(), value=value)


def _text(data: bytes, _: Registry | None) -> Decoded:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CannotDecode(f"not UTF-8 at byte {error.start:,}") from None
    if _HAS_NO_TEXT.intersection(text):
        raise CannotDecode("it holds control characters")
    return Decoded(format="text", text=text)


def _msgpack(data: bytes, _: Registry | None) -> Decoded:
    try:
        value = msgspec.msgpack.decode(data)
    except RecursionError:
        raise CannotDecode("values are too many levels deep") from None
    except UnicodeDecodeError:
        raise CannotDecode("a text in it is not UTF-8") from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise CannotDecode(str(error).removeprefix("MessagePack data is malformed: ").lower()) from None
    return _structured("msgpack", plain(value, Budget()))


def _hex(data: bytes, _: Registry | None) -> Decoded:
    is_cut = len(data) > HEX_BYTES_MAX
    problem = f"the first {readable_size(HEX_BYTES_MAX)} of {readable_size(len(data))}" if is_cut else ""
    return Decoded(format="hex", text=data[:HEX_BYTES_MAX].hex(" "), problem=problem)


def _registered(data: bytes, registry: Registry | None) -> Decoded:
    found = registered(data, registry)
    if found.format == "json":
        return Decoded(format="json", text=found.text, value=found.value)
    return _structured(found.format, found.value, found.note)


def _only(name: str) -> Callable[[bytes, Registry | None], Decoded]:
    def read(data: bytes, registry: Registry | None) -> Decoded:
        found = _registered(data, registry)
        if found.format != name:
            raise CannotDecode(f"the registry says that its schema is of {_NAMES.get(found.format, found.format)}")
        return found

    return read


def _structured(name: str, value: Any, note: str = "") -> Decoded:
    return Decoded(format=name, text=msgspec.json.encode(value).decode(), value=value, problem=note)


_READS: Final[Mapping[str, Callable[[bytes, Registry | None], Decoded]]] = {
    "json": _json,
    "text": _text,
    "msgpack": _msgpack,
    "avro": _only("avro"),
    "protobuf": _only("protobuf"),
    "hex": _hex,
}
_NAMES: Final = {
    "json": "JSON",
    "text": "text",
    "msgpack": "MessagePack",
    "avro": "Avro",
    "protobuf": "Protobuf",
    "hex": "hexadecimal",
}
