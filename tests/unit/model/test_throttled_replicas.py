from __future__ import annotations

import pytest

from kraft.model.configs import ConfigType
from kraft.model.throttled_replicas import NO_REPLICAS, ReplicaNames

KIND = ReplicaNames()


@pytest.mark.parametrize(
    ("text", "canonical", "named"),
    [
        ("", "", set()),
        (" ", "", set()),
        (",,", "", set()),
        ("0:1", "0:1", {(0, 1)}),
        (" 0:1 , 12:3 ", "0:1,12:3", {(0, 1), (12, 3)}),
        ("0:1,0:1,0:2", "0:1,0:1,0:2", {(0, 1), (0, 2)}),
        ("0:1,,", "0:1", {(0, 1)}),
        ("2147483647:2147483647", "2147483647:2147483647", {(2**31 - 1, 2**31 - 1)}),
        ("007:01", "007:01", {(7, 1)}),
    ],
)
def test_replicas_are_named_by_partition_and_broker(text: str, canonical: str, named: set[tuple[int, int]]) -> None:
    value = KIND.read(text)
    assert (value.text, set(value.named)) == (canonical, named)
    assert KIND.read(value.text) == value
    assert all(value.includes(partition, broker) for partition, broker in named)
    assert not value.includes(99, 1)


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "0",
        "0:",
        ":1",
        "0:1:2",
        "-1:1",
        "0:-1",
        "0.1:1",
        "*,*",
        "*,0:1",
        "0:1,*",
        "*:1",
        "0:1,,0:2",
        ",0:1",
        "0:1;0:2",
        "2147483648:0",
        "0:2147483648",
        "0:" + "9" * 30,
        "\u0660:1",
        "0:1\x00",
        ",".join(["0:1"] * 8_193),
    ],
    ids=lambda text: text[:10],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\* or a list of partition:broker"):
        KIND.read(text)


def test_a_star_names_all() -> None:
    value = KIND.read(" * ")
    assert (value.text, value.includes(0, 1), value.includes(10_000, 7)) == ("*", True, True)
    assert not NO_REPLICAS.includes(0, 1)


def test_it_is_a_list_whose_text_may_be_as_long_as_in_kafka() -> None:
    assert KIND.type is ConfigType.LIST
    longest = ",".join(["0:1"] * 8_192)
    assert len(longest) == 32_767
    assert KIND.read(longest).includes(0, 1)
    assert KIND.allows(KIND.read("0:1"))
    assert not KIND.allows("0:1")
