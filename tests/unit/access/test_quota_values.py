"""Quotas as people write and read them."""

from __future__ import annotations

import pytest

from kraft.access.quota_values import WrongValue, entity_in_words, in_words, keys_for, value_of


@pytest.mark.parametrize(
    ("key", "text", "value", "words"),
    [
        ("producer_byte_rate", "1 MiB", 1_048_576, "1.0 MiB/s"),
        ("producer_byte_rate", "1.5KiB/s", 1_536, "1.5 KiB/s"),
        ("consumer_byte_rate", "1 MB", 1_000_000, "976.6 KiB/s"),
        ("consumer_byte_rate", "4096", 4_096, "4.0 KiB/s"),
        ("request_percentage", "12.5", 12.5, "12.5 % of a core"),
        ("controller_mutation_rate", "5", 5, "5 partitions/s"),
        ("connection_creation_rate", "20", 20, "20 connections/s"),
    ],
)
def test_a_value_is_read_and_said(key: str, text: str, value: float, words: str) -> None:
    assert value_of(key, text) == value
    assert in_words(key, value) == words


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "1 parsec", "1 MiB MiB", "٣", "1" * 30, "nan", "inf"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(WrongValue, match="give bytes per second"):
        value_of("producer_byte_rate", text)
    with pytest.raises(WrongValue, match="give a number"):
        value_of("request_percentage", f"{text} KiB")


def test_an_entity_is_said_and_has_its_quotas() -> None:
    assert entity_in_words([("user", "alice"), ("client-id", None)]) == "user alice, the default client id"
    assert "connection_creation_rate" in keys_for(["ip"])
    assert "connection_creation_rate" not in keys_for(["user"])
