from __future__ import annotations

import pytest
import typer

from kraft.cli.groups.partition_choice import parse_choice, partitions_of
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition


def test_topics_are_chosen_whole_or_by_partition() -> None:
    assert parse_choice(["orders"]) == {"orders": None}
    assert parse_choice(["orders:0,2", "users:1", "orders:2,5"]) == {
        "orders": frozenset({0, 2, 5}),
        "users": frozenset({1}),
    }
    for texts in (["orders", "orders:1"], ["orders:1", "orders"]):
        assert parse_choice(texts) == {"orders": None}


@pytest.mark.parametrize(
    "text", ["", ":0", "orders:", "orders:x", "orders:0,,1", "orders:-1", "orders:0:1", "orders:0 1"]
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected TOPIC or TOPIC:0,1,2"):
        parse_choice(["fine", text])


def test_a_whole_topic_is_all_of_its_partitions() -> None:
    choice = parse_choice(["orders", "users:2,0"])
    assert partitions_of(choice, {"orders": 2, "users": 3}) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
        TopicPartition("users", 0),
        TopicPartition("users", 2),
    ]
    assert partitions_of({}, {}) == []


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Refusal, match="topic 'users' has partitions 0 to 2, not 3"):
        partitions_of(parse_choice(["users:3"]), {"users": 3})
