"""What people see of a key or a value, and what is masked for them."""

from __future__ import annotations

import pytest

from kraft.console.records.decoding import DECODED_BYTES_MAX, decode
from kraft.console.records.viewing import MASK, Viewing, shown


@pytest.mark.parametrize(
    ("data", "chosen", "format_", "text"),
    [
        (b'{"total": 7}', "", "json", '{"total": 7}'),
        (b'{"total": 7}', "text", "text", '{"total": 7}'),
        (b"{", "json", "text", "{"),
        (b"caf\xc3\xa9", "", "text", "café"),
        (b"\xff\xfe", "", "hex", "ff fe"),
        (b"a\x00b", "", "hex", "61 00 62"),
        (b"ab", "hex", "hex", "61 62"),
        (None, "", "null", "null"),
        (b"", "", "text", ""),
    ],
)
def test_bytes_are_shown_in_the_first_format_that_fits(
    data: bytes | None, chosen: str, format_: str, text: str
) -> None:
    found = decode(data, "orders", is_key=False, chosen=chosen)
    assert (found.format, found.text) == (format_, text)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff" * (2 << 20), b'"' + b"\xc3\xa9" * (1 << 20) + b'"'])
def test_deep_broken_and_large_bytes_are_a_sentence(data: bytes) -> None:
    found = decode(data, "orders", is_key=False)
    assert found.value is None
    assert len(found.text) <= DECODED_BYTES_MAX
    assert found.problem or found.format == "text"


def test_what_is_masked_is_in_neither_text_nor_value() -> None:
    secret = decode(b'{"card": "4111"}', "orders", is_key=False)
    assert shown(secret, Viewing.ON) == secret
    masked = shown(secret, Viewing.MASKED)
    assert (masked.text, masked.value) == (MASK, None)
    assert shown(secret, Viewing.OFF).text == ""
