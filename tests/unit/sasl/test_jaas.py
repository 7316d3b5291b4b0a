from __future__ import annotations

import pytest

from kraft.sasl.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_sample_of_kafkas_guides_is_read() -> None:
    text = f"""{PLAIN} required
       username="admin"
       password="admin-secret" // of the brokers
       user_admin="admin-secret" /* and
       of clients */ user_alice='alice "1"';"""
    module = parse_jaas(text)
    assert module.short_name == "PlainLoginModule"
    assert module.options == {
        "username": "admin",
        "password": "admin-secret",
        "user_admin": "admin-secret",
        "user_alice": 'alice "1"',
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"a=b;c"', "a=b;c"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("plain-word_1.2$", "plain-word_1.2$"),
        ('""', ""),
        ('"a//b"', "a//b"),
    ],
)
def test_a_value_is_a_word_or_quoted(written: str, value: str) -> None:
    assert parse_jaas(f"{PLAIN} required password={written};").options == {"password": value}


def test_a_module_may_have_no_options() -> None:
    assert parse_jaas(f"{PLAIN} required;").options == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "does not end with a semicolon"),
        (f'{PLAIN} required password="hunter2"', "does not end with a semicolon"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "expected one login module"),
        (f'{PLAIN} password="hunter2";', "then required"),
        (f"{PLAIN};", "then required"),
        (";", "then required"),
        ("= required;", "then required"),
        (f"{PLAIN} required password hunter2;", "expected options as name=value"),
        (f"{PLAIN} required password==hunter2;", "expected options as name=value"),
        (f"{PLAIN} required password=;", "expected options as name=value"),
        (f"{PLAIN} required = = hunter2;", "expected options as name=value"),
        (f"{PLAIN} required password=hunter2 password=hunter2;", "expected options as name=value, each once"),
        (f'{PLAIN} required password="hunter2;', "a quote that does not end"),
        (f"{PLAIN} required password=hunter2&;", "a character outside of double quotes"),
    ],
)
def test_what_is_no_login_module_is_refused_without_a_secret(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as raised:
        parse_jaas(text)
    assert "hunter2" not in str(raised.value)


def test_a_login_module_does_not_show_its_options() -> None:
    assert "hunter2" not in repr(parse_jaas(f"{PLAIN} required password=hunter2;"))
