"""Regular expressions match whole names, of topics and transactional ids, in bounded time."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psutil import Process

from kraft.model.name_regex import LENGTH_MAX, MEMORY_MAX, InvalidRegex, NameRegex, regex_error

NAMES = ["", "a", "b", "A", "ab", "aab", "abab", "ab-c", "a.b", "orders", "orders-1", "Orders_2", "x", "0", "a0"]

SAME_AS_IN_PYTHON = [
    "",
    "a",
    "ab?",
    "(ab)+",
    "a|b",
    "a||b",
    "^a.*",
    "a$",
    "^$",
    "a^b",
    ".*",
    ".+-c",
    r"a\.b",
    r"\w+",
    r"\D+",
    r"[a-c]{2,3}",
    r"[^a-c]*",
    r"[]a]",
    r"[a\d]+",
    r"[a-]b?",
    r"(?i)ORDERS.*",
    r"(?i:O)rders",
    r"(?P<name>a)b",
    r"(?:a|ab)(?:c|b)?",
    r"a{2}b",
    r"a{0,1}b",
    r"a{2,}",
    r"a{,2}",
    r"x{",
    r"(a*)*",
    r"(a|b)*?",
    r"\x61",
    r"\Aab",
    r"[A-Z]\w+",
    r"\S+",
    r"a\s?b",
]


@pytest.mark.parametrize("text", SAME_AS_IN_PYTHON)
def test_names_match_as_in_python(text: str) -> None:
    regex = NameRegex(text)
    # Braces without a first number are literals in RE2.
    expected = re.compile(text.replace("{,", r"\{,"))
    assert [name for name in NAMES if regex.matches(name)] == [name for name in NAMES if expected.fullmatch(name)]


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        (r"[[:alpha:]]+", ["a", "b", "A", "ab", "aab", "abab", "orders", "x"]),
        (r"[[:^alpha:]]+", ["0"]),
        (r"ab\z", ["ab"]),
        (r"\x{61}b", ["ab"]),
        (r"(?i)A(?-i)b", ["ab"]),
        (r"((?i)A)B", []),
        ("ä|ab", ["ab"]),
    ],
)
def test_syntax_of_re2(text: str, matched: list[str]) -> None:
    regex = NameRegex(text)
    assert [name for name in NAMES if regex.matches(name)] == matched


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(a", "missing )"),
        ("*a", "no argument for repetition operator"),
        ("[a", "missing ]"),
        ("a\\", "trailing \\"),
        ("[b-a]", "invalid character class range"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(?=a)", "invalid perl operator: (?="),
        ("((((){1000}){1000}){1000}){1000}", "invalid repetition size"),
        ("a{1001}", "invalid repetition size"),
        ("[^a]{1000}" * 2, "pattern too large"),
        ("(" * 1_000, "missing )"),
        ("\n\0(", "missing )"),
        (r"\pN" * 101, r"more than 100 classes such as \pL"),
        ("a" * (LENGTH_MAX + 1), "1025 characters"),
    ],
)
def test_what_is_not_valid_is_refused_with_the_reason(text: str, words: str) -> None:
    error = regex_error(text)
    assert error is not None
    assert words in error
    assert error.isprintable()
    assert len(error) < 200


def test_a_valid_expression_has_no_error() -> None:
    assert regex_error("orders-.*") is None
    assert regex_error("a" * LENGTH_MAX) is None


WORST = ("(a|b)*a(a|b){600}", r"(\w*a\w{50}){8}c", "(a|a)*(a|aa)+(a*)*b", "(a?){300}a{300}", "[^a]{900}|(.*b){90}c")


@pytest.mark.parametrize("text", WORST)
def test_an_expression_that_makes_others_hang_costs_little(text: str) -> None:
    name = "".join(Random(1).choices("ab", k=2_000))
    regex, began_s = NameRegex(text), time.thread_time()
    regex.matches(name)
    # In its other implementations, the time is exponential.
    assert time.thread_time() - began_s < 2


@pytest.mark.parametrize("text", [*WORST, r"\pL" * 100, r"(?i)\PL" * 100, "(?i)[^a]" * 100])
def test_an_expression_is_read_in_a_turn_of_the_loop(text: str) -> None:
    began_s = time.thread_time()
    regex_error(text)
    assert time.thread_time() - began_s < 0.2


def test_matches_take_no_more_memory_than_is_allowed() -> None:
    regexes = [NameRegex(f"{number}|(a|b)*a(a|b){{600}}") for number in range(100)]
    name, process = "".join(Random(1).choices("ab", k=3_000)), Process()
    before = process.memory_info().rss
    assert not any(regex.matches(name) for regex in regexes if name[-601] != "a")
    assert process.memory_info().rss - before < 2 * len(regexes) * MEMORY_MAX


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(InvalidRegex):
        NameRegex(text).matches("orders")


# --- names of any characters ---------------------------------------------------------------------------------------

IDS = ["", "payer", "größe", "GRÖSSE", "πσς", "ΠΣΣ", "a b", "tab\there", "two\nlines", "\0", "\x7f", "😀", "漢字", "K"]


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("größe", ["größe"]),
        ("gr.+e", ["größe"]),
        ("[π-ω]+", ["πσς"]),
        ("(?i)[π-ω]+", ["πσς", "ΠΣΣ"]),
        ("(?i)ΠΣΣ", ["πσς", "ΠΣΣ"]),
        ("(?i)πςς", ["πσς", "ΠΣΣ"]),
        ("(?i)[^π-ω]", ["\0", "\x7f", "😀", "K"]),
        ("(?i)k", ["K"]),
        ("[^a-zA-Z]*", ["", "πσς", "ΠΣΣ", "\0", "\x7f", "😀", "漢字"]),
        (r"\w+", ["payer", "K"]),
        (r"\W", ["\0", "\x7f", "😀"]),
        (r"\w\s\w", ["a b"]),
        (r"tab\t\w+", ["tab\there"]),
        (r"\x{1F600}", ["😀"]),
        (r"\x00|\x7f", ["\0", "\x7f"]),
        ("two.lines", []),
        ("(?s)two.lines", ["two\nlines"]),
        ("two$\n^lines", []),
        ("(?m)^two$\n^lines$", ["two\nlines"]),
        (r"(?m)\Atwo\z\nlines", []),
        ("[[:cntrl:]]", ["\0", "\x7f"]),
        ("[[:^ascii:]]+", ["πσς", "ΠΣΣ", "😀", "漢字"]),
        ("[[:print:]]+", ["payer", "a b", "K"]),
        ("[[:graph:]]+", ["payer", "K"]),
        ("[[:^graph:][:alpha:]]+", [each for each in IDS if each]),
        ("[[:blank:][:lower:]]+", ["payer", "a b", "tab\there"]),
    ],
)
def test_ids_of_any_characters_match(text: str, matched: list[str]) -> None:
    regex = NameRegex(text)
    assert [each for each in IDS if regex.matches(each)] == matched
