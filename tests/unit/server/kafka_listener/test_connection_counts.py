from __future__ import annotations

import pytest
from msgspec.structs import replace

from kraft.server.kafka_listener.connection_counts import (
    STRANGERS_MAX,
    STRANGERS_PART,
    ConnectionCountLimits,
    ConnectionCounts,
    count_limits,
)

LIMITS = ConnectionCountLimits(clients_max=3, strangers_max=8, address_max=100)


def opened(counts: ConnectionCounts, address: str, count: int, *, is_stranger: bool) -> str | None:
    """Open as many connections; return why the last one is refused."""
    objection = None
    for _ in range(count):
        objection = counts.objection(address, is_stranger=is_stranger)
        if objection is None:
            counts.opened(address, is_stranger=is_stranger)
    return objection


def test_strangers_take_no_place_of_clients_and_clients_none_of_strangers() -> None:
    counts = ConnectionCounts(LIMITS)
    for number in range(4):
        assert opened(counts, f"10.0.0.{number}", 2, is_stranger=True) is None
    assert opened(counts, "10.0.1.1", 3, is_stranger=False) is None
    objection = opened(counts, "10.0.1.1", 1, is_stranger=False)
    assert objection is not None
    assert "raise max.connections" in objection
    assert not counts.has_too_many_strangers
    counts.opened("10.0.0.9", is_stranger=True)
    assert counts.has_too_many_strangers


def test_one_address_has_a_part_of_the_strangers_places() -> None:
    counts = ConnectionCounts(LIMITS)
    assert opened(counts, "10.0.0.1", 2, is_stranger=True) is None
    objection = opened(counts, "10.0.0.1", 1, is_stranger=True)
    assert objection == "2 connections of 10.0.0.1 have not logged in yet"
    assert opened(counts, "10.0.0.2", 1, is_stranger=True) is None
    counts.logged_in("10.0.0.1")
    assert opened(counts, "10.0.0.1", 1, is_stranger=True) is None, "who has logged in leaves the place"


def test_a_stranger_that_logs_in_needs_a_clients_place() -> None:
    counts = ConnectionCounts(LIMITS)
    for number in range(4):
        opened(counts, f"10.0.0.{number}", 1, is_stranger=True)
    assert [counts.logged_in(f"10.0.0.{number}") for number in range(3)] == [None] * 3
    assert counts.logged_in("10.0.0.3") is not None
    counts.closed("10.0.0.3", is_stranger=False)
    assert (counts.clients, counts.strangers) == (3, 0)


@pytest.mark.parametrize("is_stranger", [True, False])
def test_an_address_has_so_many_connections_whoever_opened_them(is_stranger: bool) -> None:
    limits = replace(LIMITS, clients_max=100, strangers_max=400, address_max=2, address_overrides={"10.0.0.2": 1})
    counts = ConnectionCounts(limits)
    counts.opened("10.0.0.1", is_stranger=not is_stranger)
    assert opened(counts, "10.0.0.1", 1, is_stranger=is_stranger) is None
    objection = opened(counts, "10.0.0.1", 1, is_stranger=is_stranger)
    assert objection == "too many connections of 10.0.0.1: raise max.connections.per.ip, which allows 2"
    assert opened(counts, "10.0.0.2", 1, is_stranger=is_stranger) is None
    assert opened(counts, "10.0.0.2", 1, is_stranger=is_stranger) is not None
    counts.closed("10.0.0.1", is_stranger=not is_stranger)
    assert opened(counts, "10.0.0.1", 1, is_stranger=is_stranger) is None


@pytest.mark.parametrize(
    ("files", "connections_max", "asks_for_login", "clients", "strangers"),
    [
        (100_000, 1 << 31, True, 100_000 - STRANGERS_MAX, STRANGERS_MAX),
        (100_000, 500, True, 500, STRANGERS_MAX),
        (400, 1 << 31, True, 400 - 400 // STRANGERS_PART, 400 // STRANGERS_PART),
        (400, 1 << 31, False, 400, 0),
        (1, 1 << 31, True, 1, 1),
    ],
)
def test_all_connections_together_have_files(
    files: int, connections_max: int, asks_for_login: bool, clients: int, strangers: int
) -> None:
    limits = count_limits(files, connections_max, 7, {"10.0.0.1": 3}, asks_for_login=asks_for_login)
    assert (limits.clients_max, limits.strangers_max) == (clients, strangers)
    assert (limits.address_max, limits.address_overrides) == (7, {"10.0.0.1": 3})
