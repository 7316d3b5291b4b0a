from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.replica.partitions import Partitions
from tests.support.server.replicas import ORDERS_0, Broker


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
