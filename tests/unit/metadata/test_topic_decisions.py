from __future__ import annotations

from uuid import UUID

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.broker_decisions import begin_controlled_shutdown, fence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.new_topics import new_topic
from kraft.metadata.operator_decisions import fence_by_operator
from kraft.metadata.topic_decisions import (
    PARTITIONS_PER_REQUEST_MAX,
    TOPICS_PER_REQUEST_MAX,
    ControllerDefaults,
    create_topics,
)
from kraft.model.brokers import FenceBrokerRequest
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.cluster_images import cluster, epoch_of, with_topic


def create(
    image: MetadataImage,
    *topics: CreatableTopic,
    defaults: ControllerDefaults | None = None,
    validate_only: bool = False,
    placement_start: int = 0,
) -> Decision[CreateTopicsResponse]:
    return create_topics(
        image,
        CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only),
        topic_ids=[UUID(int=number) for number, _ in enumerate(topics, start=1)],
        placement_start=placement_start,
        defaults=defaults or ControllerDefaults(),
    )


def codes(decision: Decision[CreateTopicsResponse]) -> list[int]:
    return [result.error_code for result in decision.response.topics]


def message(decision: Decision[CreateTopicsResponse]) -> str:
    return decision.response.topics[0].error_message or ""


def replicas(image: MetadataImage, topic: str) -> list[list[int]]:
    created = image.topic(topic)
    assert created is not None
    return [list(partition.replicas) for partition in created.partitions.values()]


def test_a_topic_is_created_with_all_its_replicas_in_sync() -> None:
    image = cluster(0, 2, 3)
    asked = new_topic("orders", partitions=3, replication_factor=2, configs={"segment.bytes": "1000"})
    decision = create(image, asked)
    (result,) = decision.response.topics
    assert (result.error_code, result.topic_id) == (ErrorCode.NONE, UUID(int=1))
    assert (result.num_partitions, result.replication_factor) == (3, 2)
    after = image.replay(decision.records)
    assert replicas(after, "orders") == [[0, 2], [2, 3], [3, 0]]
    topic = after.topic("orders")
    assert topic is not None
    assert topic.configs == {"segment.bytes": "1000"}
    for partition in topic.partitions.values():
        assert (partition.isr, partition.leader) == (partition.replicas, partition.replicas[0])
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_what_a_topic_does_not_ask_for_is_the_clusters_default() -> None:
    decision = create(
        cluster(1, 2, 3), new_topic("orders"), defaults=ControllerDefaults(partitions=4, replication_factor=3)
    )
    (result,) = decision.response.topics
    assert (result.num_partitions, result.replication_factor) == (4, 3)


def test_one_refused_topic_does_not_stop_the_others() -> None:
    image = with_topic(cluster(1), [1])
    decision = create(image, new_topic("orders"), new_topic("a/b"), new_topic("payments"))
    assert codes(decision) == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert list(image.replay(decision.records).topic_ids) == ["orders", "payments"]


def test_validate_only_says_what_would_happen_and_does_nothing() -> None:
    decision = create(cluster(1), new_topic("a", partitions=2), new_topic(".."), validate_only=True)
    assert decision.records == []
    assert codes(decision) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert [result.num_partitions for result in decision.response.topics] == [2, -1]
    assert decision.response.topics[0].topic_id == ZERO_UUID


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        (new_topic("a", partitions=0), ErrorCode.INVALID_PARTITIONS, "at least 1"),
        (new_topic("a", partitions=-2), ErrorCode.INVALID_PARTITIONS, "at least 1"),
        (new_topic("a", partitions=10**9), ErrorCode.INVALID_PARTITIONS, "create fewer at a time"),
        (new_topic("a", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
        (new_topic("a", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR, "2 brokers are in service"),
        (new_topic("a", configs={"segment.bytes": "x"}), ErrorCode.INVALID_CONFIG, "segment.bytes=x"),
        (new_topic("a", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG, "not supported yet"),
        (
            new_topic("a", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            ErrorCode.INVALID_CONFIG,
            "min.compaction.lag.ms (2) is above max.compaction.lag.ms (1)",
        ),
        (
            new_topic("a", replication_factor=1, configs={"min.insync.replicas": "2"}),
            ErrorCode.INVALID_CONFIG,
            "the replication factor is 1: raise the replication factor to 2, or set min.insync.replicas=1",
        ),
    ],
)
def test_an_impossible_topic_is_refused_with_a_remedy(topic: CreatableTopic, code: ErrorCode, words: str) -> None:
    decision = create(cluster(1, 2), topic)
    assert decision.records == []
    assert codes(decision) == [code]
    assert words in message(decision)


def test_a_default_min_isr_above_the_replication_factor_is_refused_too() -> None:
    defaults = ControllerDefaults(configs=broker_defaults({"min.insync.replicas": "2"}))
    decision = create(cluster(1, 2), new_topic("a", replication_factor=1), defaults=defaults)
    assert codes(decision) == [ErrorCode.INVALID_CONFIG]
    assert "the cluster's default" in message(decision)
    own = new_topic("a", replication_factor=1, configs={"min.insync.replicas": "1"})
    assert codes(create(cluster(1, 2), own, defaults=defaults)) == [ErrorCode.NONE]


def test_a_request_creates_a_bounded_number_of_partitions_in_all() -> None:
    most = new_topic("a", partitions=PARTITIONS_PER_REQUEST_MAX)
    decision = create(cluster(1), most, new_topic("b"))
    assert codes(decision) == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]


def test_a_request_creates_a_bounded_number_of_topics_and_refused_ones_count() -> None:
    topics = [new_topic("no!"), *(new_topic(f"t{number}") for number in range(TOPICS_PER_REQUEST_MAX))]
    found = codes(create(cluster(1), *topics))
    assert found[:2] == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    assert found[-2:] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_a_broker_with_an_operator_fence_gets_nothing() -> None:
    image = cluster(1, 2, 3)
    request = FenceBrokerRequest(broker_id=3, timeout_ms=1_000)
    image = image.replay(fence_by_operator(image, request, defaults=KAFKA_DEFAULTS).records)
    assert codes(create(image, new_topic("a", replication_factor=3))) == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_fenced_brokers_and_those_shutting_down_get_no_replicas_that_another_can_have() -> None:
    image = cluster(1, 2, 3)
    image = image.replay(fence_broker(image, BrokerId(1), epoch_of(image, 1)).records)
    image = image.replay(begin_controlled_shutdown(image, BrokerId(2), epoch_of(image, 2)).records)
    decision = create(image, new_topic("a", partitions=2))
    assert replicas(image.replay(decision.records), "a") == [[3], [3]]
    # The broker that is shutting down gets none at all, as in Kafka; once it has stopped, it counts as fenced.
    assert codes(create(image, new_topic("a", replication_factor=3))) == [ErrorCode.INVALID_REPLICATION_FACTOR]


# --- placement by hand ---


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ([[1], []], "no broker is named"),
        ([[1, 1]], "a broker is named twice"),
        ([[1, 2], [1]], "same number"),
        ([[1, 9]], "brokers [9] are not registered"),
        ([[3]], "none of these brokers is in service"),
    ],
)
def test_an_impossible_assignment_is_refused(assignment: list[list[int]], words: str) -> None:
    image = cluster(1, 2, 3)
    image = image.replay(fence_broker(image, BrokerId(3), epoch_of(image, 3)).records)
    decision = create(image, new_topic("a", assignments=assignment))
    assert codes(decision) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert words in message(decision)


def test_an_assignment_of_two_replicas_to_one_machine_is_refused() -> None:
    racks = {1: "machine:1", 1001: "machine:1", 2: "machine:2", 3: "east", 4: "east"}
    image = cluster(*racks, racks=racks)
    (result,) = create(image, new_topic("a", assignments=[[1, 2], [2, 1001]])).response.topics
    assert result.error_code is ErrorCode.NONE
    (result,) = create(image, new_topic("a", assignments=[[1, 2], [1, 1001]])).response.topics
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == (
        "partition 1 on [1, 1001]: brokers 1 and 1001 are on one machine, machine:1, which would have two replicas: "
        "name brokers of different machines"
    )
    # A rack that people name is no machine.
    (result,) = create(image, new_topic("a", assignments=[[3, 4]])).response.topics
    assert result.error_code is ErrorCode.NONE


def test_an_assignment_excludes_counts() -> None:
    decision = create(cluster(1), new_topic("a", partitions=1, assignments=[[1]]))
    assert codes(decision) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("numbers", [(0, 2), (1,), (0, 0)], ids=["hole", "not from 0", "twice"])
def test_an_assignment_that_skips_or_repeats_a_partition_is_refused(numbers: tuple[int, ...]) -> None:
    placed = (CreatableReplicaAssignment(partition_index=number, broker_ids=(1,)) for number in numbers)
    decision = create(cluster(1), replace(new_topic("a"), assignments=tuple(placed)), new_topic("b"))
    assert codes(decision) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NONE]


def test_a_config_without_a_value_is_refused() -> None:
    without = replace(new_topic("a"), configs=(CreatableTopicConfig(name="retention.ms", value=None),))
    decision = create(cluster(1), without, new_topic("b"))
    assert codes(decision) == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    refused = decision.response.topics[0]
    assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, ())
