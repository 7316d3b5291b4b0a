from __future__ import annotations

import pytest

from kraft.metadata.racks import uneven_racks


@pytest.mark.parametrize("racks", ["", "a", "aaa", "ab", "abba", "abcabc"])
def test_nothing_is_said_of_racks_with_equally_many_brokers(racks: str) -> None:
    assert uneven_racks(racks) == ""
    assert uneven_racks([""] * len(racks)) == "", "brokers without racks"


def test_racks_of_unequal_sizes_are_named_with_what_follows_and_what_to_do() -> None:
    assert uneven_racks("caab") == (
        "racks have unequal numbers of brokers (a: 2, b: 1, c: 1), so topics with several replicas load the brokers of "
        "small racks more: put equally many brokers into each rack"
    )
    assert "(no rack: 2, a: 1)" in uneven_racks(["", "a", ""])


def test_of_many_racks_the_first_are_named() -> None:
    said = uneven_racks([*(f"r{number:02}" for number in range(13)), "r00"])
    assert "(r00: 2, r01: 1, " in said
    assert "r09: 1 and 3 more)" in said
