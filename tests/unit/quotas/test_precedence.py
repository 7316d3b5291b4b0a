from __future__ import annotations

import pytest

from kraft.metadata.settings import QuotaSubject
from kraft.quotas.precedence import Client, QuotasInEffect
from tests.support.quotas import Names, subject

ALICE_LOADER = Client("alice", "loader")

IN_ORDER: list[tuple[Names, Client]] = [
    ({"user": "alice", "client-id": "loader"}, ALICE_LOADER),
    ({"user": "alice", "client-id": None}, ALICE_LOADER),
    ({"user": "alice"}, Client("alice", "")),
    ({"user": None, "client-id": "loader"}, ALICE_LOADER),
    ({"user": None, "client-id": None}, ALICE_LOADER),
    ({"user": None}, Client("alice", "")),
    ({"client-id": "loader"}, Client("", "loader")),
    ({"client-id": None}, Client("", "loader")),
]
"""Kafka's order of precedence, and what is counted together."""


def entries(*names: Names, key: str = "producer_byte_rate") -> dict[QuotaSubject, dict[str, float]]:
    return {subject(each): {key: float(number)} for number, each in enumerate(names, start=1)}


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_specific_entry_holds(first: int) -> None:
    names, counted = IN_ORDER[first]
    # Those after it, and entries for others, which hold in no case.
    quotas = QuotasInEffect(
        entries(names, *(each for each, _ in IN_ORDER[first + 1 :]), {"user": "bob"}, {"client-id": "x"})
    )
    found = quotas.of("producer_byte_rate", ALICE_LOADER)
    assert found is not None
    assert (found.limit, found.subject, found.counted) == (1.0, subject(names), counted)
    assert quotas.of("producer_byte_rate", ALICE_LOADER) is found


def test_an_entry_without_the_key_hides_nothing() -> None:
    quotas = QuotasInEffect(
        entries({"user": "alice", "client-id": "loader"}, key="consumer_byte_rate") | entries({"client-id": None})
    )
    found = quotas.of("producer_byte_rate", ALICE_LOADER)
    assert found is not None
    assert found.subject == subject({"client-id": None})
    assert quotas.of("request_percentage", ALICE_LOADER) is None
    assert quotas.keys == {"producer_byte_rate", "consumer_byte_rate"}


def test_a_client_without_an_id_has_only_the_quotas_of_its_user() -> None:
    nameless = Client("alice", "")
    assert QuotasInEffect(entries({"client-id": None})).of("producer_byte_rate", nameless) is None
    found = QuotasInEffect(entries({"user": "alice", "client-id": None}, {"user": "alice"})).of(
        "producer_byte_rate", nameless
    )
    assert found is not None
    assert found.limit == 2.0


def test_an_address_is_found_however_it_was_written() -> None:
    quotas = QuotasInEffect(
        entries({"ip": "2001:DB8:0::1"}, {"ip": "10.0.0.7"}, {"ip": None}, key="connection_creation_rate")
    )
    assert quotas.has_addresses
    assert not quotas.keys
    assert quotas.of_address("2001:db8::1") == (1, subject({"ip": "2001:DB8:0::1"}))
    assert quotas.of_address("10.0.0.7") == (2, subject({"ip": "10.0.0.7"}))
    assert quotas.of_address("10.0.0.8") == (3, subject({"ip": None}))
    assert QuotasInEffect(entries({"ip": "10.0.0.7"})).of_address("10.0.0.7") is None
