"""The language of filters: what its sentences mean, and that no text makes it hang, crash or run something."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.records.filter_syntax import LENGTH_MAX, WrongFilter
from kraft.console.records.filters import Subject, parse
from kraft.console.records.permissions import Viewing, ViewingRules
from kraft.console.records.viewing import shown

ORDER = b'{"total": 120.5, "country": "NO", "paid": true, "items": ["pen", 7], "a b": {"c-d": null}}'


def subject(
    value: bytes | None = ORDER,
    key: bytes | None = b"order-17",
    headers: tuple[tuple[str, bytes | None], ...] = (("trace", b"abc"), ("try", b"2"), ("try", b"3")),
    viewing: Viewing = Viewing.ON,
) -> Subject:
    permission = ViewingRules(viewing=viewing).permission("anna", {}, "orders")
    seen = shown(key, value, headers, permission)
    return Subject(
        partition=3,
        offset=1_000,
        timestamp_ms=1_700_000_000_000,
        key=seen.key,
        value=seen.value,
        headers=tuple((each.name, each.value) for each in seen.headers),
    )


@pytest.mark.parametrize(
    "text",
    [
        'value.total > 100 and value.country == "NO"',
        "value.total == 120.5",
        "value.total >= 120.5 and value.total <= 120.5",
        "value.paid == true",
        "not value.paid == false",
        'value.country in ("SE", "NO")',
        'value.items contains "pen" and value.items contains 7',
        "value.items[0] exists and value.items[-1] == 7 and not value.items[2] exists",
        'value["a b"]["c-d"] == null',
        'value["a b"].c-d exists',
        'value contains "country"',
        'key contains "17"',
        'key == "order-17" and key starts with "order" and key ends with "7"',
        'key matches "order-[0-9]+"',
        "headers.trace exists",
        'headers.trace == "abc"',
        'headers.try == 3 and headers.try == "2"',
        'headers == "trace"',
        "offset == 1000 and partition < 4",
        'timestamp > "2023-11-14T22:13:19Z" and timestamp < "2023-11-14T22:13:21"',
        "value.missing == 1 or (value.total > 1 and not (value.total > 1000))",
        'value.country != "SE"',
        'value.total != "120.5"',
        'key != "x"',
    ],
)
def test_what_is_true_of_a_record(text: str) -> None:
    assert parse(text)(subject())


@pytest.mark.parametrize(
    "text",
    [
        "value.missing == 1",
        "value.missing != 1",
        "value.country > 5",
        'value.total == "120.5"',
        "value.paid == 1",
        'key matches "order"',
        'key == "ORDER-17"',
        "headers.none exists",
        'headers.trace != "abc"',
        "value.items.pen exists",
        "value.country.length exists",
        'value["__class__"] exists',
    ],
)
def test_what_is_not_true_of_a_record(text: str) -> None:
    assert not parse(text)(subject())


def problem_of(text: str) -> str:
    try:
        parse(text)(subject())
    except WrongFilter as error:
        return str(error)
    return ""


def test_null_is_a_value_of_keys_and_values() -> None:
    tombstone = subject(value=None, key=None)
    assert parse("value == null and key == null")(tombstone)
    assert not parse('value contains "x" or value.total exists')(tombstone)
    assert not parse("value == null")(subject())


@pytest.mark.parametrize("value", [b"plain text", b"\xff\xfe\x00", b"7", b'"text"', b"[" * 10_000, b""])
def test_any_value_is_filtered(value: bytes) -> None:
    for text in ("value.total > 1", 'value contains "x"', "value == 7", "value[0] exists", 'value != "y"'):
        assert parse(text)(subject(value=value)) in (True, False)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "at its end: expected one of key, value"),
        ("value.total >", "at its end: expected a string in quotes, a number"),
        ("value.country == NO", "null; text is in quotes: "),
        ("total > 100", "at character 1, near 'total > 100': expected one of key, value, headers"),
        ("value.total = 5", "at character 13, near '= 5': this is no part of a filter"),
        ("value.total == 5 value", "expected and, or, or the end"),
        ("(value.total == 5", "at its end: expected )"),
        ("value.total == 007", "numbers and strings are written as in JSON"),
        (r'value == "\q"', "numbers and strings are written as in JSON"),
        ("value.total > true", "> compares numbers or strings"),
        ("offset.x == 1", "offset has nothing inside it"),
        ('key matches "("', "the regular expression is not valid"),
        ('timestamp > "yesterday"', "a time is written as"),
        ("value.5 == 1", "expected a name"),
        ('value[1.5] == "x"', "expected a number or a string"),
        ('__import__("os")', "expected one of key, value"),
    ],
)
def test_what_is_wrong_with_a_filter_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(WrongFilter) as caught:
        parse(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "value exists" + ")" * 400,
        "not " * 200 + "key exists",
        "value" + ".a" * 400 + " exists",
        "value == " + "1" * 900,
        '"' + "\\" * 900,
        " " * 999,
        "a-" * 450,
        "key exists " + "and key exists " * 60,
        "x" * (LENGTH_MAX + 1),
    ],
)
def test_filters_are_bounded(text: str) -> None:
    begun = time.monotonic()
    assert len(problem_of(text)) < 300
    assert time.monotonic() - begun < 10


def test_a_regular_expression_that_backtracks_elsewhere_takes_no_time() -> None:
    begun = time.monotonic()
    assert not parse('key matches "(a+)+b"')(subject(key=b"a" * 60_000))
    assert time.monotonic() - begun < 10


def test_what_is_masked_is_not_found() -> None:
    for text in ('value contains "NO"', "value.total > 100", 'key == "order-17"', 'headers.trace == "abc"'):
        assert parse(text)(subject())
        assert not parse(text)(subject(viewing=Viewing.MASKED))


# --- any text, any record --------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("value", "key", "headers", ".", "total", "[", "]", "0", '"a"', "==", "!=", "<", "and", "or", "not", "(", ")"),
        *("exists", "contains", "starts", "with", "matches", "in", ",", "1.5", "null", "timestamp", "offset"),
    ]
)
RECORDS = st.binary(max_size=40) | st.sampled_from([ORDER, b"[1, [2]]", b"null", b"1e999", b'"a"'])


@given(st.text(max_size=60) | st.lists(WORDS, max_size=25).map(" ".join), RECORDS, st.none() | RECORDS)
def test_any_text_is_a_filter_or_a_sentence(text: str, value: bytes, key: bytes | None) -> None:
    if not (problem := problem_of(text)):
        assert parse(text)(subject(value=value, key=key)) in (True, False)
    else:
        assert problem.startswith("the filter")


COMPARISONS = st.sampled_from(
    ["value.total > 100", "value.paid == true", 'key contains "17"', "headers.no exists", "offset < 5", "value.x == 1"]
)


@given(COMPARISONS, COMPARISONS, COMPARISONS)
def test_not_binds_before_and_and_that_before_or(one: str, two: str, three: str) -> None:
    a, b, c = (parse(each)(subject()) for each in (one, two, three))
    assert parse(f"{one} or {two} and {three}")(subject()) == (a or (b and c))
    assert parse(f"not {one} and {two}")(subject()) == ((not a) and b)
    assert parse(f"not ({one} and {two})")(subject()) == (not (a and b))


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30))
def test_any_text_can_be_looked_for(text: str) -> None:
    quoted = "".join(f"\\u{each}" for each in text.encode("utf-16-be").hex(" ", 2).split())
    assert parse(f'value contains "{quoted}"')(subject(value=f"<{text}>".encode()))
