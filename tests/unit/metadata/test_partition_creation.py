from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_creation import create_partitions
from kraft.metadata.records import BrokerUnregistered
from kraft.metadata.topic_decisions import PARTITIONS_PER_REQUEST_MAX
from kraft.metadata.topic_names import AUDIT_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, TopicId
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.support.cluster_images import ORDERS, cluster, epoch_of, with_topic


def add(
    image: MetadataImage, *topics: CreatePartitionsTopic, validate_only: bool = False, start: int = 0
) -> Decision[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=validate_only)
    return create_partitions(image, request, placement_start=start)


def to(count: int, *assignments: list[int], topic: str = "orders") -> CreatePartitionsTopic:
    placed = tuple(CreatePartitionsAssignment(broker_ids=tuple(replicas)) for replicas in assignments)
    return CreatePartitionsTopic(name=topic, count=count, assignments=placed or None)


def replicas(image: MetadataImage) -> list[tuple[int, ...]]:
    return [tuple(each.replicas) for each in image.topics[ORDERS].partitions.values()]


def refusal(decision: Decision[CreatePartitionsResponse]) -> tuple[int, str]:
    (result,) = decision.response.results
    assert decision.records == []
    return result.error_code, result.error_message or ""


def without(image: MetadataImage, broker_id: int) -> MetadataImage:
    fenced = fence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id))
    return image.replay(fenced.records)


def test_partitions_are_added_where_the_request_says() -> None:
    image = without(with_topic(cluster(1, 2, 3), [1, 2]), 2)
    after = image.replay(add(image, to(3, [2, 3], [3, 1])).records)
    assert replicas(after)[1:] == [(2, 3), (3, 1)]
    waiting = after.topics[ORDERS].partitions[1]
    assert (waiting.isr, waiting.leader) == ((3,), 3)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (2, "topic 'orders' already has 2 partitions"),
        (1, "topic 'orders' has 2 partitions, and the number cannot go down to 1"),
        (-1, "cannot go down to -1"),
        (PARTITIONS_PER_REQUEST_MAX + 3, "more than 10000 partitions in one request"),
    ],
)
def test_only_a_higher_count_is_taken(count: int, message: str) -> None:
    code, text = refusal(add(with_topic(cluster(1), [1], [1]), to(count)))
    assert code is ErrorCode.INVALID_PARTITIONS
    assert message in text


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[1, 2]], "1 replica assignments for 2 new partitions"),
        ([[1, 2], [1, 1]], "partition 2 on [1, 1]: a broker is named twice"),
        ([[1, 2], [1]], "partition 2 on [1]: "),
        ([[1, 2], [1, 9]], "partition 2 on [1, 9]: brokers [9] are not registered"),
        ([[3, 4], [1, 2]], "partition 1 on [3, 4]: none of these brokers is in service"),
        ([[1, 2], []], "partition 2 on []: no broker is named"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(assignments: list[list[int]], message: str) -> None:
    image = without(without(with_topic(cluster(1, 2, 3, 4), [1, 2]), 3), 4)
    code, text = refusal(add(image, to(3, *assignments)))
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in text


def test_more_replicas_than_registered_brokers_are_refused() -> None:
    image = without(with_topic(cluster(1, 2), [1, 2]), 2)
    image = image.replay([BrokerUnregistered(broker_id=BrokerId(2), broker_epoch=epoch_of(image, 2))])
    code, text = refusal(add(image, to(2)))
    assert (code, "1 broker is in service" in text) == (ErrorCode.INVALID_REPLICATION_FACTOR, True)


def test_each_topic_is_decided_on_its_own() -> None:
    image = with_topic(cluster(1), [1])
    image = with_topic(image, [1], topic="bills", topic_id=TopicId(UUID(int=101)))
    decision = add(image, to(2), to(3, topic="nowhere"), to(2, topic="bills"), to(3, topic="bills"))
    assert [result.error_code for result in decision.response.results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        # It is there twice, and has one result.
        ErrorCode.INVALID_REQUEST,
    ]
    assert len(decision.records) == 1


def test_the_topic_of_transactions_keeps_its_partitions_and_that_of_the_audit_may_get_more() -> None:
    image = with_topic(cluster(1), [1], topic=TRANSACTIONS_TOPIC)
    code, _ = refusal(add(image, to(2, topic=TRANSACTIONS_TOPIC)))
    assert code is ErrorCode.INVALID_PARTITIONS
    image = with_topic(cluster(1), [1], topic=AUDIT_TOPIC)
    response = add(image, to(2, topic=AUDIT_TOPIC)).response
    assert [each.error_code for each in response.results] == [0]


def test_the_offsets_topic_keeps_its_partitions_because_groups_belong_to_them() -> None:
    image = with_topic(cluster(1), [1], topic=OFFSETS_TOPIC)
    code, message = refusal(add(image, to(2, topic=OFFSETS_TOPIC)))
    assert code is ErrorCode.INVALID_PARTITIONS
    assert message == "groups would lose their offsets: topic '__consumer_offsets' keeps its 1 partitions"
