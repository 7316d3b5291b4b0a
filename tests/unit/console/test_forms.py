"""What was typed, or sent as JSON, is read alike, and what cannot be read is said."""

from __future__ import annotations

import pytest

from kraft.console.forms import FIELDS_MAX, Form, WrongInput, form_of_body, form_of_json


def test_fields_of_a_form_and_members_of_an_object_are_the_same() -> None:
    typed = form_of_body(b"topic=orders&partitions=3&broker=1&broker=2&internal=on&config.retention.ms=60000")
    sent = form_of_json(
        b'{"topic": "orders", "partitions": 3, "broker": [1, 2], "internal": true, "nothing": null,'
        b' "config": {"retention.ms": 60000}}'
    )
    for form in (typed, sent):
        assert (form.text("topic"), form.number("partitions", 1, 10), form.all("broker")) == ("orders", 3, ("1", "2"))
        assert form.flag("internal")
        assert not form.flag("missing")
        assert form.below("config.") == {"retention.ms": "60000"}
        assert "nothing" not in form


def test_a_member_that_nobody_reads_is_refused_with_those_that_are_read() -> None:
    """A slip in a name would otherwise make a topic of one partition, or reset the offsets of all topics."""
    form = form_of_json(b'{"topic": "orders", "partitions": 6, "config": {"retention.ms": 60000}}')
    form.check_names(("topic", "partitions", "config"))
    with pytest.raises(WrongInput, match="'partitions' is no member that this address takes: it takes config, topic"):
        form.check_names(("topic", "config"))
    with pytest.raises(WrongInput, match="it takes none"):
        form.check_names(())


def test_text_is_stripped_and_raw_is_as_sent_with_the_line_ends_that_were_typed() -> None:
    form = form_of_body(b"value=%20a%0D%0Ab%20")
    assert (form.text("value"), form.raw("value")) == ("a\nb", " a\nb ")


@pytest.mark.parametrize("text", ["", "x", "1.5", "0", "11", "-1", "1" * 30, "٣", "--1", "1_0"])
def test_a_number_out_of_bounds_or_no_number_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(WrongInput, match="from 1 to 10"):
        Form(values={"n": (text,)}).number("n", 1, 10)


def test_an_empty_number_is_its_default() -> None:
    assert Form(values={"n": (" ",)}).number("n", 1, 10, default=7) == 7
    assert Form(values={"n": ("-5",)}).number("n", -10, 10) == -5


@pytest.mark.parametrize("body", [b"a=" + b"\xff", b"&".join(b"a=1" for _ in range(FIELDS_MAX + 1))])
def test_a_form_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(WrongInput, match="cannot be read"):
        form_of_body(body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff", "no JSON"),
        (b"[1]", "no object"),
        (b'{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}', "nested too deeply"),
        (b'{"a":[' + b",".join(b"1" for _ in range(FIELDS_MAX + 1)) + b"]}", "more than"),
    ],
)
def test_json_that_cannot_be_read_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(WrongInput, match=text):
        form_of_json(body)
