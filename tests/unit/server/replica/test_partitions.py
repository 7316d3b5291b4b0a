from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from tests.support.server.replicas import ORDERS_0, Broker
from tests.support.turn_counter import TurnCounter


def refused(partitions: Partitions, topic: str, partition: int) -> ErrorCode:
    with pytest.raises(Refusal) as caught:
        partitions.by_name(topic, partition)
    return caught.value.error_code


def test_a_partition_that_is_not_here_is_elsewhere_or_does_not_exist() -> None:
    partitions = Partitions(lambda name: name == ORDERS_0)
    assert refused(partitions, "orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(partitions, "orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(partitions, "payments", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_here_is_found_without_the_metadata(tmp_path: Path) -> None:
    broker = Broker(tmp_path, partitions=Partitions(lambda _: False))
    partition = broker.open(TopicPartition("orders", 3))
    assert broker.partitions.by_name("orders", 3) is partition


async def test_ticks_of_many_partitions_give_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.server.replica.partitions._TICKS_AT_ONCE", 2)
    ticked: list[Partition] = []

    def tick(partition: Partition) -> None:
        ticked.append(partition)

    monkeypatch.setattr(Partition, "tick", tick)
    broker = Broker(tmp_path, partitions=Partitions(lambda _: False))
    held = [broker.open(TopicPartition("orders", number)) for number in range(6)]
    async with TurnCounter() as counter:
        await broker.partitions.tick()
    assert ticked == held
    assert counter.turns == 3
