"""Regular expressions match whole names, of topics and transactional ids, in bounded time."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator import name_regex
from kraft.coordinator.character_class import character_class, complement
from kraft.coordinator.name_regex import LENGTH_MAX, InvalidRegex, NameRegex, regex_error

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
        ("(a", "a ( without a )"),
        ("a)", "a ) without a ("),
        ("*a", "nothing to repeat"),
        ("a**", "two repetitions in a row"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("[b-a]", "a range in brackets"),
        (r"\bword", r"\b, which is not supported"),
        (r"(a)\1", r"\1, which is not supported"),
        (r"\p{Greek}", r"\p, which is not supported"),
        ("(?=a)", "(?=, which is not supported"),
        ("(?<!a)", "no > at the end"),
        ("(?<!a>)", "a group with the name"),
        ("((((){1000}){1000}){1000}){1000}", "repeats too much"),
        ("a{1001}", "more than 1000 times"),
        ("a{3,2}", "at least 3 and at most 2"),
        ("((a{100}){100}){100}", "too large"),
        ("(" * 1_000, "groups inside of each other"),
        ("[[:what:]]", "[:what:], which is no class"),
        (r"\x{110000}", "no number of a character"),
        (r"\xZZ", "no number of a character"),
    ],
)
def test_what_is_not_valid_is_refused_with_the_reason(text: str, words: str) -> None:
    error = regex_error(text)
    assert error is not None
    assert words in error
    assert error.isprintable()


def test_a_valid_expression_has_no_error() -> None:
    assert regex_error("orders-.*") is None
    assert regex_error("a" * LENGTH_MAX) is None


def test_an_expression_that_is_too_long_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_regex, "NameRegex", None)
    error = regex_error("a" * (LENGTH_MAX + 1))
    assert error is not None
    assert "1025 characters" in error
    assert len(error) < 200


def test_an_expression_that_makes_others_hang_costs_little() -> None:
    regex = NameRegex("(a|a)*(a|aa)+(a*)*b")
    began = time.process_time()
    assert not any(regex.matches("a" * 249) for _ in range(100))
    assert NameRegex("(a?){100}a{100}").matches("a" * 150)
    assert time.process_time() - began < 60


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


def test_many_characters_take_no_more_memory_than_steps_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_regex, "REMEMBERED_MAX", 300)
    regex = NameRegex("[^a]*")
    assert regex.matches("".join(map(chr, range(0x4E00, 0x9FFF))))
    assert len(regex._steps) <= 100


def test_sets_of_many_states_take_no_more_memory_than_remembered_states_do() -> None:
    regex = NameRegex("(a|b)*a(a|b){600}")
    regex.matches("".join(Random(1).choices("ab", k=3_000)))
    kept = [place[0] for place in regex._steps] + list(regex._steps.values())
    assert sum(map(len, kept)) <= name_regex.REMEMBERED_MAX


def test_a_long_match_pauses_after_each_piece_and_counts_its_work() -> None:
    name = "".join(Random(2).choices("ab", k=2_000))
    regex = NameRegex("(a|b)*a(a|b){600}")
    pauses = [regex.looks for _ in regex.match(name)]
    assert regex.matches(name) == (name[-601] == "a")
    steps = [after - before for before, after in pairwise(pauses)]
    assert len(pauses) > 50
    # A piece ends with the character that it is at.
    assert max(steps) <= name_regex.LOOKS_AT_ONCE + 2 * name_regex.STATES_MAX + 1


# Expressions in RE2's syntax, and the same in Python's.
SAME = ["a", "B", "é", "漢", "[ab]", "[^a]", "[a-é]", "[^é-漢]", "[-b]", "(?i:b)", "(?i:É)", "(?i:[a-c])", "(?i:[^bé])"]
SAME += ["(?s:.)", ".", "^", "(?m:^)", "(?m:$)", r"\A", r"\x41", r"\n"]
OTHERS = [
    ("$", r"\Z"),
    (r"\z", r"\Z"),
    (r"\w", "[a-zA-Z0-9_]"),
    (r"\W", "[^a-zA-Z0-9_]"),
    (r"\d", "[0-9]"),
    (r"\s", r"[\t\n\f\r ]"),
    (r"\S", r"[^\t\n\f\r ]"),
    (r"[\Sa]", r"[^\t\n\f\r ]"),
    ("[[:punct:]]", r"[!-/:-@\[-`{-~]"),
    ("[[:^alpha:]b]", "[^a-zA-Z]|b"),
    (r"\x{6F22}", "漢"),
]
ATOMS = st.sampled_from([*((each, each) for each in SAME), *((ours, f"(?:{theirs})") for ours, theirs in OTHERS)])
Pair = tuple[str, str]


def joined(pairs: Sequence[Pair], form: str) -> Pair:
    ours, theirs = zip(*pairs, strict=True)
    return form.format(*ours), form.format(*theirs)


EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pairs: joined(pairs, "{}{}")),
        st.tuples(inner, inner).map(lambda pairs: joined(pairs, "(?:{}|{})")),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{{2}}", "{{1,2}}"])).map(
            lambda drawn: joined([drawn[0]], f"(?:{{}}){drawn[1]}")
        ),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS, st.text("abBé É漢\n_-\t1\0", max_size=6))
def test_any_expression_matches_as_in_python(pair: Pair, name: str) -> None:
    ours, theirs = pair
    assert NameRegex(ours).matches(name) == bool(re.fullmatch(theirs, name))


RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple), max_size=6)


@given(RANGES)
def test_a_class_and_its_complement_have_every_character_once(ranges: list[tuple[int, int]]) -> None:
    inside, outside = character_class(ranges), character_class(complement(ranges))
    negated = character_class(ranges, is_negated=True)
    for number in (*range(50), 0x10FFFF):
        expected = any(start <= number <= end for start, end in ranges)
        letter = chr(number)
        assert (inside.accepts(letter), outside.accepts(letter), negated.accepts(letter)) == (
            expected,
            not expected,
            not expected,
        )
    assert all(before[1] + 1 < after[0] for before, after in pairwise(inside.ranges))
