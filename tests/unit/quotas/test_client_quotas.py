from __future__ import annotations

import pytest

from kraft.quotas import client_quotas
from kraft.quotas.client_quotas import ClientQuotas, told_to_producer
from kraft.quotas.precedence import Client
from kraft.quotas.rate import Windows
from tests.support.quotas import Names, subject

ALICE = Client("alice", "loader")
BOB = Client("bob", "loader")


def quotas(names: Names, **values: float) -> ClientQuotas:
    found = ClientQuotas()
    found.reconfigure({subject(names): values})
    return found


def test_without_quotas_nothing_is_measured() -> None:
    found = ClientQuotas()
    assert (found.has_any, found.measures_time, found.limits_addresses) == (False, False, False)
    assert found.produced(ALICE, 1 << 40, 0) == found.fetched(ALICE, 1 << 40, 0) == 0
    assert found.mutated(ALICE, 1_000_000, 0) == found.connected("10.0.0.7", 0) == 0
    assert found.fetch_bytes_max(ALICE) is None


def test_each_user_of_the_default_has_its_own() -> None:
    found = quotas({"user": None}, producer_byte_rate=100.0)
    assert found.has_any
    assert found.produced(ALICE, 1_100, 0) == 1_000
    assert found.produced(BOB, 1_000, 0) == 0
    # All clients of a user together.
    assert found.produced(Client("alice", "another"), 100, 0) == 2_000
    exceeded = {key: (count, found.exceeded_ms[key]) for key, count in found.exceeded.items() if count}
    assert exceeded == {"producer_byte_rate": (2, 3_000)}
    assert found.fetched(ALICE, 1 << 30, 0) == 0


def test_a_fetch_is_measured_when_it_is_answered_and_asked_before_the_next() -> None:
    found = quotas({"client-id": "loader"}, consumer_byte_rate=100.0)
    assert found.fetch_bytes_max(ALICE) == 100
    assert found.fetch_wait_ms(ALICE, 0) == 0
    assert found.fetched(ALICE, 1_500, 0) == 5_000
    assert found.fetch_wait_ms(BOB, 4_000) == 1_000
    assert found.fetch_wait_ms(BOB, 5_000) == 0


def test_a_changed_quota_goes_on_with_what_was_used_and_a_removed_one_forgets_it() -> None:
    found = quotas({"user": "alice"}, producer_byte_rate=100.0)
    assert found.produced(ALICE, 2_000, 0) == 10_000
    found.reconfigure({subject({"user": "alice"}): {"producer_byte_rate": 200.0}})
    assert found.produced(ALICE, 0, 0) == 5_000
    found.reconfigure({})
    assert not found.has_any
    assert found.produced(ALICE, 1 << 40, 0) == 0
    found.reconfigure({subject({"user": "alice"}): {"producer_byte_rate": 100.0}})
    assert found.produced(ALICE, 1_000, 0) == 0


def test_the_wait_for_processor_time_is_a_second_at_most() -> None:
    found = quotas({"user": "alice"}, request_percentage=10.0)
    assert found.measures_time
    # A tenth of ten seconds.
    assert found.worked(ALICE, 1_000_000_000, 0) == 0
    assert found.worked(ALICE, 10_000_000, 0) == 100
    assert found.worked(ALICE, 5_000_000_000, 0) == 1_000


def test_windows_say_how_much_passes_at_once_and_how_long_a_wait_is() -> None:
    found = ClientQuotas(Windows(4, 2_000), Windows(2, 3_000))
    found.reconfigure(
        {
            subject({"user": "alice"}): {
                "producer_byte_rate": 100.0,
                "controller_mutation_rate": 1.0,
                "request_percentage": 10.0,
            },
            subject({"ip": None}): {"connection_creation_rate": 1.0},
        }
    )
    assert found.produced(ALICE, 600, 0) == 0
    assert found.produced(ALICE, 100, 0) == 1_000
    assert found.mutated(ALICE, 6, 0) == 0
    assert found.mutated(ALICE, 1, 0) == 1_000
    assert found.worked(ALICE, 5_000_000_000, 0) == 2_000
    assert [found.connected("10.0.0.7", 0) for _ in range(6)] == [0] * 6
    assert found.connected("10.0.0.7", 0) == 1_000


def test_changes_of_topics_overdraw_a_bucket_once() -> None:
    found = quotas({"user": "alice"}, controller_mutation_rate=1.0)
    assert found.mutation_wait_ms(ALICE, 0) == 0
    assert found.mutated(ALICE, 13, 0) == 2_000
    assert found.mutated(ALICE, -13, 0) == 0
    assert found.mutation_wait_ms(BOB, 0) == 0


def test_a_connection_that_is_refused_is_not_counted() -> None:
    found = quotas({"ip": None}, connection_creation_rate=1.0)
    assert (found.has_any, found.limits_addresses) == (False, True)
    assert [found.connected("10.0.0.7", 0) for _ in range(10)] == [0] * 10
    assert [found.connected("10.0.0.7", 0) for _ in range(3)] == [1_000] * 3
    assert found.connected("10.0.0.8", 0) == 0
    # Refused ones have not made it wait longer.
    assert found.connected("10.0.0.7", 11_000) == 0


def test_idle_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    found = quotas({"client-id": None}, producer_byte_rate=1.0)
    meters = found._buckets["producer_byte_rate"]
    found.produced(Client("alice", "old"), 5, 0)
    found.produced(Client("alice", "new"), 5, 1_800_000)
    found.produced(Client("alice", "another"), 5, 3_600_000)
    assert len(meters) == 2
    monkeypatch.setattr(client_quotas, "METERS_MAX", 100)
    for number in range(300):
        found.produced(Client("alice", str(number)), 1_000, 3_600_000)
    assert len(meters) == 100
    # The last one is still measured.
    assert found.produced(Client("alice", "299"), 0, 3_600_000) > 0


@pytest.mark.parametrize(
    ("wait_ms", "timeout_ms", "told_ms"),
    [
        (0, 30_000, 0),
        (700, 30_000, 700),
        (5_000, 30_000, 1_000),
        (60_000, 30_000, 50_000),
        (5_000, 3_000, 4_000),
        (5_000, 0, 5_000),
        (5_000, -1, 5_000),
    ],
)
def test_a_producer_is_told_so_much_that_its_next_request_is_answered_in_time(
    wait_ms: int, timeout_ms: int, told_ms: int
) -> None:
    assert told_to_producer(wait_ms, timeout_ms) == told_ms


def test_connections_that_are_refused_do_not_use_up_what_comes_later() -> None:
    found = quotas({"ip": None}, connection_creation_rate=1.0)
    assert [found.connected("10.0.0.7", 0) for _ in range(10)] == [0] * 10
    assert all(found.connected("10.0.0.7", 10_000) for _ in range(50))
    assert found.connected("10.0.0.7", 11_000) == 0
