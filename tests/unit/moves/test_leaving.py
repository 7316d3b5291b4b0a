from __future__ import annotations

import pytest

from kraft.model.brokers import BrokerDescription
from kraft.model.ids import TopicPartition
from kraft.moves.leaving import CannotDecommission, ReplicaMovePlan, plan


def broker(broker_id: int, *, replicas: int = 0, rack: str = "", fenced: bool = False) -> BrokerDescription:
    return BrokerDescription(
        broker_id=broker_id,
        broker_epoch=1,
        addresses=[],
        rack=rack,
        fenced=fenced,
        fenced_by_operator=fenced,
        in_controlled_shutdown=False,
        leaders=0,
        replicas=replicas,
        in_sync=replicas,
        log_directory_ids=[],
        features=[],
    )


def orders(*replicas: tuple[int, ...]) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    return [(TopicPartition("orders", number), each) for number, each in enumerate(replicas)]


def targets(moves: list[ReplicaMovePlan]) -> dict[int, tuple[int, ...]]:
    return {move.partition.partition: move.target for move in moves}


def test_the_successor_takes_the_place_of_the_broker_and_the_others_stay() -> None:
    moves = plan(orders((1, 2), (2, 3), (4, 1)), [broker(each) for each in (1, 2, 3, 4)], 4)
    assert moves == [ReplicaMovePlan(partition=TopicPartition("orders", 2), replicas=(4, 1), target=(2, 1))]


def test_replicas_go_where_the_fewest_are() -> None:
    brokers = [broker(1, replicas=9), broker(2, replicas=0), broker(3, replicas=1), broker(4, replicas=4)]
    assert targets(plan(orders((4,), (4,), (4,), (4,)), brokers, 4)) == {0: (2,), 1: (2,), 2: (3,), 3: (2,)}


def test_racks_stay_as_different_as_they_were() -> None:
    brokers = [broker(1, rack="a"), broker(2, rack="a"), broker(3, rack="b", replicas=99), broker(4, rack="b")]
    assert targets(plan(orders((1, 4)), brokers, 4)) == {0: (1, 3)}


def test_brokers_out_of_service_take_nothing() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3, replicas=50), broker(4)]
    assert targets(plan(orders((1, 4)), brokers, 4)) == {0: (1, 3)}


def test_too_few_brokers_are_an_error_with_the_partitions_that_cannot_be_placed() -> None:
    brokers = [broker(each) for each in (1, 2, 3)]
    with pytest.raises(
        CannotDecommission, match=r"the 2 other brokers in service are too few .* of orders-0, orders-1:"
    ):
        plan(orders((1, 2, 3), (2, 3, 1), (3,)), brokers, 3)
    with pytest.raises(CannotDecommission, match="and 2 more"):
        plan(orders(*[(1, 2, 3)] * 7), brokers, 3)


def test_a_successor_is_never_on_a_machine_that_has_another_replica() -> None:
    one = [broker(each, rack="machine:1") for each in (1, 1001, 2001)]
    two = [broker(2, rack="machine:2"), broker(1002, rack="machine:2", replicas=99)]
    assert targets(plan(orders((2, 1), (1, 2)), [*one, *two], 2)) == {0: (1002, 1), 1: (1, 1002)}
    with pytest.raises(CannotDecommission, match=r"the 3 other brokers in service on 1 machine \(machine:1\) are too"):
        plan(orders((2, 1)), [*one, two[0]], 2)
