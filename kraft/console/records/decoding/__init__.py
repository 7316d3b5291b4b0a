"""Bytes of a key, a value or a header to text that people read, and to a value that filters read."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

DECODED_BYTES_MAX: Final = 1 << 20
"""Larger bytes are shown by their beginning, and have no value for filters."""

HEX_BYTES_MAX: Final = 4 << 10
"""Bytes of which the hexadecimal form is shown."""

FORMATS: Final = ("json", "text", "hex")
"""Names that may be chosen."""


class Decoded(Struct, frozen=True, kw_only=True):
    """A key, a value or a header as people read it."""

    format: str
    """One of `FORMATS`, or "null"."""

    text: str
    value: Any = None
    """What JSON can say: None where the bytes are no such value."""

    problem: str = ""
    """Why it is not shown as was chosen, or not whole."""


def decode(data: bytes | None, topic: str, is_key: bool, chosen: str = "") -> Decoded:
    """Return the bytes in the chosen format, or in the first that fits: JSON, text, hexadecimal. Raises nothing."""
    if data is None:
        return Decoded(format="null", text="null")
    problem = ""
    if len(data) > DECODED_BYTES_MAX:
        problem = f"only the first {DECODED_BYTES_MAX:,} of {len(data):,} bytes are decoded"
        data = data[:DECODED_BYTES_MAX]
    if chosen == "hex":
        return _hex(data, problem)
    try:
        # Cut in the middle of a character, the beginning is text all the same.
        text = data.decode("utf-8", "ignore" if problem else "strict")
    except UnicodeDecodeError as error:
        return _hex(data, problem or f"not UTF-8 at byte {error.start:,}")
    if "\x00" in text and not chosen:
        return _hex(data, problem)
    if chosen == "text" or (problem and not chosen):
        return Decoded(format="text", text=text, problem=problem)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return Decoded(format="text", text=text, problem=problem or (f"not JSON: {error}" if chosen else ""))
    return Decoded(format="json", text=text, value=value)


def _hex(data: bytes, problem: str) -> Decoded:
    if len(data) > HEX_BYTES_MAX and not problem:
        problem = f"the first {HEX_BYTES_MAX:,} of {len(data):,} bytes"
    return Decoded(format="hex", text=data[:HEX_BYTES_MAX].hex(" "), problem=problem)
