"""The decision that adds partitions to topics. Source: KIP-195."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.placement import place_more_partitions
from kraft.metadata.records import MetadataRecord
from kraft.metadata.topic_decisions import (
    PARTITIONS_PER_REQUEST_MAX,
    assignment_problem,
    check_named_once,
    partition_created,
    placeable_brokers,
)
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.wire.schema.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, *, placement_start: int
) -> Decision[CreatePartitionsResponse]:
    """Add partitions to each topic on its own: one that is refused does not stop the others. A name has one result.

    The new partitions get as many replicas as the topic's first one. Without assignments, placement continues where the
    topic has the fewest leaders; `placement_start` decides among places that are equally good.
    """
    named = Counter(asked.name for asked in request.topics)
    left = PARTITIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for asked in request.topics:
        try:
            topic = _topic(image, asked, named)
            added = asked.count - len(topic.partitions)
            _check_count(topic, asked, left)
            assignment = _placed_by_hand(image, topic, asked) if asked.assignments else []
            assignment = assignment or _placed(image, topic, added, placement_start)
        except Refusal as refusal:
            results[asked.name] = refused_partitions(asked, refusal)
            continue
        left -= added
        records += [
            partition_created(image, topic.topic_id, partition, replicas)
            for partition, replicas in enumerate(assignment, start=len(topic.partitions))
        ]
        results[asked.name] = CreatePartitionsTopicResult(name=asked.name, error_code=ErrorCode.NONE)
    response = CreatePartitionsResponse(results=tuple(results.values()))
    return Decision(records=[] if request.validate_only else records, response=response)


def refused_partitions(asked: CreatePartitionsTopic, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=asked.name, error_code=refusal.error_code, error_message=refusal.message)


def _topic(image: MetadataImage, asked: CreatePartitionsTopic, named: Counter[str]) -> TopicImage:
    check_named_once(asked.name, named)
    topic = image.topic(asked.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{asked.name[:300]}'")
    return topic


def _check_count(topic: TopicImage, asked: CreatePartitionsTopic, left: int) -> None:
    if topic.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        # The partition of a group or of a transactional id follows from their number.
        lost = "groups would lose their offsets" if topic.topic == OFFSETS_TOPIC else "transactions would be lost"
        problem = f"{lost}: topic '{topic.topic}' keeps its {len(topic.partitions)} partitions"
        raise Refusal(ErrorCode.INVALID_PARTITIONS, problem)
    has = len(topic.partitions)
    partitions = "1 partition" if has == 1 else f"{has} partitions"
    if asked.count == has:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"topic '{topic.topic}' already has {partitions}")
    if asked.count < has:
        problem = (
            f"topic '{topic.topic}' has {partitions}, and the number cannot go down to {asked.count}, because records "
            f"would be lost: ask for more than {has}"
        )
        raise Refusal(ErrorCode.INVALID_PARTITIONS, problem)
    if asked.count - has > left:
        problem = f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request: create fewer at a time"
        raise Refusal(ErrorCode.INVALID_PARTITIONS, problem)


def _placed(image: MetadataImage, topic: TopicImage, added: int, placement_start: int) -> list[list[BrokerId]]:
    return place_more_partitions(
        existing=[topic.partitions[number].target_replicas for number in sorted(topic.partitions)],
        partitions=added,
        replication_factor=_replication_factor(topic),
        brokers=placeable_brokers(image),
        start=placement_start,
    )


def _placed_by_hand(image: MetadataImage, topic: TopicImage, asked: CreatePartitionsTopic) -> list[list[BrokerId]]:
    first, added = len(topic.partitions), asked.count - len(topic.partitions)
    assignments = asked.assignments or ()
    if len(assignments) != added:
        problem = f"{len(assignments)} replica assignments for {added} new partitions: give one for each"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    assignment = [[BrokerId(broker_id) for broker_id in one.broker_ids] for one in assignments]
    for partition, replicas in enumerate(assignment, start=first):
        _check_replicas(image, topic, partition, replicas)
    return assignment


def _check_replicas(image: MetadataImage, topic: TopicImage, partition: int, replicas: Sequence[BrokerId]) -> None:
    problem = assignment_problem(image, replicas, _replication_factor(topic))
    if problem:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} on {list(replicas)}: {problem}")


def _replication_factor(topic: TopicImage) -> int:
    return len(topic.partitions[0].target_replicas)
