from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode
from kraft.server.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from kraft.wire.schema.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.server.replicas import Broker, append_to, batch, lead
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import partitions_of


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Two records of epoch 1, one of epoch 4."""
    broker = Broker(tmp_path, partitions=partitions_of())
    partition = broker.open()
    lead(partition, epoch=1)
    append_to(partition, batch("a", "b"), 1)
    lead(partition, epoch=4, partition_epoch=1)
    append_to(partition, batch("c"), 1)
    return broker


def ask(broker: Broker, *topics: OffsetForLeaderTopic) -> list[tuple[str, int, int, int, int]]:
    handler = OffsetForLeaderEpochHandler(broker.partitions)
    response = run_virtually(handler.handle(OffsetForLeaderEpochRequest(topics=topics)))
    return [
        (topic.topic, each.partition, each.error_code, each.leader_epoch, each.end_offset)
        for topic in response.topics
        for each in topic.partitions
    ]


def topic(name: str, *partitions: tuple[int, int], current: int = -1) -> OffsetForLeaderTopic:
    """Partition numbers and epochs of the request."""
    return OffsetForLeaderTopic(
        topic=name,
        partitions=tuple(
            OffsetForLeaderPartition(partition=number, current_leader_epoch=current, leader_epoch=epoch)
            for number, epoch in partitions
        ),
    )


@pytest.mark.parametrize(("epoch", "found"), [(1, (1, 2)), (3, (1, 2)), (4, (4, 3)), (9, (-1, -1))])
def test_where_an_epoch_ends(broker: Broker, epoch: int, found: tuple[int, int]) -> None:
    assert ask(broker, topic("orders", (0, epoch))) == [("orders", 0, 0, *found)]


@pytest.mark.parametrize(("epoch", "found"), [(1, (1, 2)), (4, (4, 3)), (5, (4, 3)), (6, (6, 3)), (7, (-1, -1))])
def test_a_leader_that_has_written_nothing_yet_knows_its_own_epoch(
    broker: Broker, epoch: int, found: tuple[int, int]
) -> None:
    """A consumer that looked up its position in epoch 5, which has no records either, has lost nothing."""
    lead(broker.partitions.by_name("orders", 0), epoch=6, partition_epoch=2)
    assert ask(broker, topic("orders", (0, epoch))) == [("orders", 0, 0, *found)]


@pytest.mark.parametrize(
    ("epoch", "found"), [(-2, (-1, -1)), (-1, (-1, -1)), (0, (0, 0)), (1, (1, 0)), (2, (2, 0)), (3, (-1, -1))]
)
def test_in_a_log_without_records_every_epoch_ends_at_its_start(
    tmp_path: Path, epoch: int, found: tuple[int, int]
) -> None:
    broker = Broker(tmp_path, partitions=partitions_of())
    lead(broker.open(), epoch=2)
    assert ask(broker, topic("orders", (0, epoch))) == [("orders", 0, 0, *found)]


def test_partitions_of_several_topics_are_answered_in_the_requests_order(broker: Broker) -> None:
    assert ask(broker, topic("payments", (0, 1)), topic("orders", (7, 1), (0, 4), (2, 1))) == [
        ("payments", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        ("orders", 0, 0, 4, 3),
        ("orders", 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1),
    ]


@pytest.mark.parametrize(
    ("current", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH), (4, ErrorCode.NONE)]
)
def test_a_client_with_another_epoch_than_the_leader_is_fenced(broker: Broker, current: int, code: ErrorCode) -> None:
    ((_, _, error_code, _, _),) = ask(broker, topic("orders", (0, 4), current=current))
    assert error_code == code
