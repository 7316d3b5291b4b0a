"""What somebody types for a record, and what becomes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.forms import WrongInput, form_of
from kraft.console.pages.produce import HEADERS_MAX, NewRecord, new_record
from kraft.console.sent_forms import SENT_MAX, SentForms


def typed(**fields: str) -> NewRecord:
    return new_record(form_of(list(fields.items())))


@pytest.mark.parametrize(
    ("fields", "record"),
    [
        ({}, NewRecord(key=None, value=b"")),
        ({"key": " k ", "value": "\u00e9\n"}, NewRecord(key=b" k ", value=b"\xc3\xa9\n")),
        ({"value": "{ }", "value_format": "json"}, NewRecord(key=None, value=b"{ }")),
        ({"value": "0x00, 0xff", "value_format": "hex"}, NewRecord(key=None, value=b"\x00\xff")),
        ({"value": "AP8=\n", "value_format": "base64"}, NewRecord(key=None, value=b"\x00\xff")),
        ({"key": "k", "tombstone": "on"}, NewRecord(key=b"k", value=None)),
        ({"partition": "3", "compression": "lz4"}, NewRecord(key=None, value=b"", partition=3, codec="lz4")),
        (
            {"headers": "a: b: c\n\n none \nempty:"},
            NewRecord(key=None, value=b"", headers=(("a", b"b: c"), ("none", None), ("empty", b""))),
        ),
    ],
)
def test_a_record_is_what_was_typed(fields: dict[str, str], record: NewRecord) -> None:
    assert typed(**fields) == record


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"value": "{", "value_format": "json"}, "the value is not JSON"),
        ({"value": "[" * 10_000, "value_format": "json"}, "the value is not JSON: values are too many levels deep"),
        ({"key": "0", "key_format": "hex"}, "the key is not hexadecimal"),
        ({"key": "=", "key_format": "base64"}, "the key is not base64"),
        ({"value_format": "xml"}, "value_format='xml' is not one of text, json, hex, base64"),
        ({"tombstone": "on"}, "a tombstone needs a key"),
        ({"tombstone": "on", "key": "k", "value": "x"}, "a tombstone has no value"),
        ({"partition": "-1"}, "partition='-1': give a whole number"),
        ({"compression": "brotli"}, "compression='brotli' is not one of"),
        ({"headers": ": x"}, "has no name"),
        ({"headers": "a\n" * (HEADERS_MAX + 1)}, "there are 101 headers"),
    ],
)
def test_what_cannot_be_sent_is_a_sentence(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(WrongInput, match=problem):
        typed(**fields)


@given(st.text(max_size=30), st.sampled_from(["text", "json", "hex", "base64"]))
def test_any_text_is_bytes_or_a_sentence(text: str, chosen: str) -> None:
    try:
        typed(value=text, value_format=chosen)
    except WrongInput:
        return


def test_a_form_is_sent_once() -> None:
    sent = SentForms()
    for each in ("", "", "a", "b"):
        sent.note(each)
    with pytest.raises(WrongInput, match="sent before"):
        sent.note("a")
    with pytest.raises(WrongInput, match="longer"):
        sent.note("x" * 65)
    for number in range(SENT_MAX):
        sent.note(f"{number}")
    sent.note("a")
