from __future__ import annotations

import math

from kraft.server.kafka_listener.creation_rate import ADDRESSES_MAX, AddressRates, Allowance


def test_so_many_at_once_and_then_so_many_in_each_second() -> None:
    allowance = Allowance(10, 20, now_s=100.0)
    assert [allowance.take(100.0) for _ in range(21)] == [True] * 20 + [False]
    assert allowance.wait_s(100.0) == 0.1
    assert [allowance.take(100.5) for _ in range(6)] == [True] * 5 + [False]
    assert allowance.wait_s(1_000.0) == 0.0
    assert [allowance.take(1_000.0) for _ in range(21)] == [True] * 20 + [False]


def test_a_rate_of_nothing_never_allows_more() -> None:
    allowance = Allowance(0, 1, now_s=0.0)
    assert allowance.take(0.0)
    assert not allowance.take(1e9)
    assert allowance.wait_s(1e9) == math.inf


def test_each_address_has_a_rate_of_its_own() -> None:
    rates = AddressRates(per_second=1, burst=2)
    assert [rates.take("10.0.0.1", 5.0) for _ in range(3)] == [True, True, False]
    assert rates.take("10.0.0.2", 5.0)
    assert rates.take("10.0.0.1", 6.0)


def test_an_address_pays_for_connections_that_ended_without_login() -> None:
    rates = AddressRates(per_second=10, burst=25)
    for _ in range(2):
        assert rates.take("10.0.0.1", 0.0)
        rates.failed("10.0.0.1", 0.0)
    # 22 of 25 are gone.
    assert [rates.take("10.0.0.1", 0.0) for _ in range(4)] == [True, True, True, False]
    rates.failed("10.0.0.1", 0.0)
    assert not rates.take("10.0.0.1", 1.0)
    assert rates.take("10.0.0.1", 1.2)
    assert rates.take("10.0.0.2", 0.0)


def test_what_an_address_pays_in_advance_has_an_end() -> None:
    rates = AddressRates(per_second=10, burst=20)
    for _ in range(1_000):
        rates.failed("10.0.0.1", 0.0)
    assert not rates.take("10.0.0.1", 2.0)
    assert rates.take("10.0.0.1", 2.2)


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    rates = AddressRates(per_second=1, burst=1)
    assert rates.take("first", 0.0)
    for number in range(ADDRESSES_MAX - 1):
        rates.take(str(number), 0.0)
    assert not rates.take("first", 0.0)
    for number in range(ADDRESSES_MAX):
        rates.take(f"other {number}", 0.0)
    assert rates.take("first", 0.0), "it was forgotten"
