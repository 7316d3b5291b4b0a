from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.server.config.properties import PropertiesError, Property, parse, serialize


def settings(text: str) -> dict[str, str]:
    return {found.key: found.value for found in parse(text.encode(), "server.properties")}


def test_a_key_ends_at_an_equals_sign_a_colon_or_a_blank() -> None:
    assert settings("a=1\nb: 2\nc 3\n  d  =  4\ne\n") == {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}


def test_only_the_first_separator_separates() -> None:
    assert settings("listeners=GRPC://localhost:9094\nx a=b\n") == {"listeners": "GRPC://localhost:9094", "x": "a=b"}


def test_comments_and_empty_lines_are_no_settings() -> None:
    assert settings("# one\n\n   ! two\n\t\na=1 # not a comment\n") == {"a": "1 # not a comment"}


def test_a_line_continues_after_a_backslash_and_loses_its_indentation() -> None:
    assert settings("voters=1@a:1,\\\n    2@b:2,\\\n    3@c:3\nnext=1\n") == {
        "voters": "1@a:1,2@b:2,3@c:3",
        "next": "1",
    }


def test_a_comment_does_not_go_on() -> None:
    assert settings("# a \\\nb=1\n") == {"b": "1"}


def test_an_even_number_of_backslashes_ends_the_line() -> None:
    assert settings("path=C:\\\\\nb=1\n") == {"path": "C:\\", "b": "1"}


def test_a_file_may_end_in_the_middle_of_a_continued_line() -> None:
    assert settings("a=1\\") == {"a": "1"}


def test_escapes_stand_for_their_characters() -> None:
    assert settings("a\\=b\\:c\\ d=\\t\\n\\u00e9\\q\\ud83d\\ude00") == {"a=b:c d": "\t\néq\U0001f600"}


def test_blanks_at_the_end_of_a_value_are_layout_unless_escaped() -> None:
    assert settings("a=1  \nb=2\\ \n") == {"a": "1", "b": "2 "}


def test_lines_may_end_as_on_other_systems() -> None:
    assert settings("a=1\r\nb=2\rc=3") == {"a": "1", "b": "2", "c": "3"}


def test_each_setting_knows_the_line_where_it_begins() -> None:
    assert parse(b"# x\na=1\\\n  2\nb=3\n", "f") == [Property("a", "12", 2), Property("b", "3", 4)]


def test_a_key_that_stands_twice_is_reported_twice() -> None:
    assert [found.value for found in parse(b"a=1\na=2\n", "f")] == ["1", "2"]


@pytest.mark.parametrize("text", [b"\n\na=\\u12", b"\n\na=\\u12g4", b"\n\n\\uzzzz=1"])
def test_a_broken_escape_names_file_and_line(text: bytes) -> None:
    with pytest.raises(PropertiesError, match=r"^server\.properties:3: .*four hexadecimal digits"):
        parse(text, "server.properties")


def test_a_broken_escape_shows_nothing_of_the_value() -> None:
    with pytest.raises(PropertiesError) as raised:
        parse(b"ssl.key.password=hun\\ter2\\u12g4", "server.properties")
    assert not [part for part in ("hun", "ter2", "12g4") if part in str(raised.value)]


def test_bytes_that_are_no_text_name_file_and_line() -> None:
    with pytest.raises(PropertiesError, match=r"^server\.properties:2: not UTF-8 text$"):
        parse(b"a=1\nb=\xff\n", "server.properties")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_what_is_serialized_is_parsed_back(values: dict[str, str]) -> None:
    assert {found.key: found.value for found in parse(serialize(values, comment="made by a test"), "f")} == values


@given(st.binary(max_size=80))
def test_any_bytes_are_settings_or_refused(data: bytes) -> None:
    with suppress(PropertiesError):
        assert all(found.line >= 1 for found in parse(data, "f"))
