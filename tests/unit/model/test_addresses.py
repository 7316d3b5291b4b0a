"""Addresses take turns, whichever has more to do."""

from __future__ import annotations

import pytest

from kraft.model.addresses import AddressTurns, address_of, address_of_peer


def test_an_address_is_the_same_whichever_socket_accepted_it() -> None:
    assert address_of(("10.0.0.7", 5_100)) == "10.0.0.7"
    assert address_of(("::ffff:10.0.0.7", 5_100, 0, 0)) == "10.0.0.7"
    assert address_of(("::1", 5_100, 0, 0)) == "::1"
    assert address_of("") == "?"


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::7", "2001:db8:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::ffff:a00:7", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "::1"),
        ("no:address", "no:address"),
        ("?", "?"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(host: str, counted: str) -> None:
    assert address_of((host, 5_100, 0, 0)) == counted
    assert address_of_peer(f"[{host}]:5100") == counted


def test_what_one_address_has_to_do_delays_the_others_by_one_turn() -> None:
    turns: AddressTurns[str] = AddressTurns()
    for number in range(3):
        turns.append("flood", f"flood-{number}")
    turns.append("honest", "honest-0")
    turns.append("other", "other-0")
    assert "honest-0" in turns
    taken = [turns.popleft() for _ in range(5)]
    assert taken == ["flood-0", "honest-0", "other-0", "flood-1", "flood-2"]
    assert not turns
    with pytest.raises(StopIteration):
        turns.popleft()


def test_who_comes_while_an_address_has_its_turn_is_next() -> None:
    turns: AddressTurns[str] = AddressTurns()
    turns.append("flood", "flood-0")
    turns.append("flood", "flood-1")
    assert turns.popleft() == "flood-0"
    turns.append("honest", "honest-0")
    assert [turns.popleft(), turns.popleft()] == ["honest-0", "flood-1"]
    # Also when the address had nothing more, and has again.
    turns.append("flood", "flood-2")
    turns.append("honest", "honest-1")
    assert [turns.popleft(), turns.popleft()] == ["honest-1", "flood-2"]


def test_everything_is_taken_at_the_end() -> None:
    turns: AddressTurns[int] = AddressTurns()
    for number, address in enumerate(("a", "b", "a")):
        turns.append(address, number)
    assert sorted(turns.take_all()) == [0, 1, 2]
    assert not turns
