from __future__ import annotations

import pytest

from kraft.client import Refusal
from kraft.metadata.placement import place_partitions
from kraft.model.ids import BrokerId, TopicPartition
from kraft.moves.even import ChosenBroker, EvenSpread

BROKERS = [ChosenBroker(broker_id=BrokerId(each), rack="ab"[each % 2]) for each in (1, 2, 3, 4, 5)]


def assignment(topic: str, replicas: list[list[int]]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition(topic, number): each for number, each in enumerate(replicas)}


@pytest.mark.parametrize("start", range(len(BROKERS)))
def test_a_topic_that_is_even_already_stays_whatever_was_placed_for_others(start: int) -> None:
    spread = EvenSpread(BROKERS)
    for partitions, replication_factor in ((3, 2), (40, 2), (7, 3), (1, 1), (41, 2)):
        placed = place_partitions(
            partitions=partitions, replication_factor=replication_factor, brokers=BROKERS, start=start
        )
        even = assignment("orders", [[*map(int, each)] for each in placed])
        assert spread.proposed(even) == even


def test_of_all_even_assignments_the_one_with_the_fewest_moves_is_proposed() -> None:
    placed = place_partitions(partitions=5, replication_factor=2, brokers=BROKERS, start=3)
    even = assignment("orders", [[*map(int, each)] for each in placed])
    uneven = even | {TopicPartition("orders", 4): [int(placed[0][0]), int(placed[0][1])]}
    assert EvenSpread(BROKERS).proposed(uneven) == even


def test_topics_do_not_share_lists_that_somebody_may_change() -> None:
    spread = EvenSpread(BROKERS)
    first = spread.proposed(assignment("a", [[1]]))
    first[TopicPartition("a", 0)].append(9)
    assert spread.proposed(assignment("b", [[1]])) == assignment("b", [[1]])


def test_a_topic_with_too_many_replicas_is_refused_and_others_are_not() -> None:
    spread = EvenSpread(BROKERS)
    for _ in range(2):
        with pytest.raises(Refusal, match="replication factor"):
            spread.proposed(assignment("orders", [[1, 2, 3, 4, 5, 6]]))
    assert spread.proposed(assignment("orders", [[3]])) == assignment("orders", [[3]])
