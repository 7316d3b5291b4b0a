"""The decision to create topics, with automatic or manual placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec import Struct

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.configs import checked
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import elect
from kraft.metadata.machines import shared_machine
from kraft.metadata.new_topics import CLUSTER_DEFAULT
from kraft.metadata.placement import place_partitions
from kraft.metadata.records import MetadataRecord, PartitionCreated, TopicConfigSet, TopicCreated
from kraft.metadata.topic_names import check_no_collision, check_topic_name
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Kafka's limit too: a single request must not keep the controller busy for seconds."""

TOPICS_PER_REQUEST_MAX = 2_000
"""Topics that one request may create. They are decided in one turn of the controller's event loop."""

Assignment = Sequence[Sequence[BrokerId]]
"""The replicas of each partition from 0, preferred leader first."""


class ControllerDefaults(Struct, frozen=True, kw_only=True):
    """Defaults for new topics.

    Kafka's keys: num.partitions, default.replication.factor, and the broker keys of the topic configs.
    """

    partitions: int = 1
    replication_factor: int = 1
    configs: TopicConfig = KAFKA_DEFAULTS


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    *,
    topic_ids: Sequence[UUID],
    placement_start: int,
    defaults: ControllerDefaults,
) -> Decision[CreateTopicsResponse]:
    """Create each topic on its own: one that is refused does not stop the others. A name has one result.

    `topic_ids` are new, one for each topic of the request. Automatic placement begins at `placement_start`, and
    continues from each topic of the request to the next.
    """
    assert len(topic_ids) == len(request.topics), "one id for each topic"
    creation = _Creation(image, defaults, placement_start)
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    for topic, topic_id in zip(request.topics, topic_ids, strict=True):
        try:
            check_named_once(topic.name, named)
            results[topic.name] = creation.create(topic, TopicId(topic_id))
        except Refusal as refusal:
            results[topic.name] = refused_topic(topic.name, refusal)
    if request.validate_only:
        # A topic that was only checked has no id yet.
        checked_only = tuple(replace(result, topic_id=ZERO_UUID) for result in results.values())
        return Decision(records=[], response=CreateTopicsResponse(topics=checked_only))
    return Decision(records=creation.records, response=CreateTopicsResponse(topics=tuple(results.values())))


def refused_topic(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refusal.error_code, error_message=refusal.message or None, configs=()
    )


class _Creation:
    """Creates the topics of one request in order, each checked against the ones before it too."""

    def __init__(self, image: MetadataImage, defaults: ControllerDefaults, placement_start: int) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._defaults = defaults
        self._placement_start = placement_start
        self._partitions_left = PARTITIONS_PER_REQUEST_MAX
        self._topics_left = TOPICS_PER_REQUEST_MAX

    def create(self, topic: CreatableTopic, topic_id: TopicId) -> CreatableTopicResult:
        configs, assignment = _configs(topic), _assignment(topic)
        self._check_topics_left()
        _check_new_name(self._image, topic.name)
        in_effect = checked(self._defaults.configs, configs)
        replicas = self._placed_by_hand(topic, assignment) if assignment else self._placed(topic)
        replication_factor = len(replicas[0])
        _check_min_insync_replicas(configs, replication_factor, in_effect.min_insync_replicas)
        records = _topic_records(self._image, topic.name, configs, topic_id, replicas)
        self._image = self._image.replay(records)
        self.records += records
        self._partitions_left -= len(replicas)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(replicas),
            replication_factor=replication_factor,
        )

    def _placed(self, topic: CreatableTopic) -> Assignment:
        partitions = _or_default(topic.num_partitions, self._defaults.partitions)
        self._check_partitions_left(partitions)
        replicas = place_partitions(
            partitions=partitions,
            replication_factor=_or_default(topic.replication_factor, self._defaults.replication_factor),
            brokers=placeable_brokers(self._image),
            start=self._placement_start,
        )
        self._placement_start += partitions
        return replicas

    def _placed_by_hand(self, topic: CreatableTopic, assignment: Assignment) -> Assignment:
        if topic.num_partitions != CLUSTER_DEFAULT or topic.replication_factor != CLUSTER_DEFAULT:
            problem = "a replica assignment fixes the partition count and the replication factor: leave those out"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        self._check_partitions_left(len(assignment))
        _check_assignment(self._image, assignment)
        return assignment

    def _check_topics_left(self) -> None:
        """Count a topic, whether it is created or refused: both take a controller some 20 us."""
        if not self._topics_left:
            problem = f"more than {TOPICS_PER_REQUEST_MAX} topics in one request: create fewer at a time"
            raise Refusal(ErrorCode.POLICY_VIOLATION, problem)
        self._topics_left -= 1

    def _check_partitions_left(self, partitions: int) -> None:
        if partitions > self._partitions_left:
            problem = f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request: create fewer at a time"
            raise Refusal(ErrorCode.INVALID_PARTITIONS, problem)


def check_named_once(name: str, named: Counter[str]) -> None:
    if named[name] > 1:
        problem = f"topic '{name[:300]}' is in the request {named[name]} times: name it once"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _configs(topic: CreatableTopic) -> dict[str, str]:
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"config '{config.name[:100]}' has no value: give it one")
        configs[config.name] = config.value
    return configs


def _assignment(topic: CreatableTopic) -> Assignment:
    """Return the assignments in the order of partitions. Raises Refusal if one is missing or there twice."""
    placed = sorted(topic.assignments, key=lambda each: each.partition_index)
    if [each.partition_index for each in placed] != list(range(len(placed))):
        problem = "replica assignment skips or repeats a partition: name each partition once, from 0 on"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return [[BrokerId(broker_id) for broker_id in each.broker_ids] for each in placed]


def _check_new_name(image: MetadataImage, name: str) -> None:
    check_topic_name(name)
    if image.topic(name) is not None:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{name}' already exists")
    check_no_collision(name, image.topic_ids)


def _check_assignment(image: MetadataImage, assignment: Assignment) -> None:
    for partition, replicas in enumerate(assignment):
        problem = assignment_problem(image, replicas, len(assignment[0]))
        if problem:
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} on {list(replicas)}: {problem}")


def assignment_problem(image: MetadataImage, replicas: Sequence[BrokerId], replication_factor: int) -> str:
    """Return why a new partition cannot be on these brokers, and the remedy; empty if it can."""
    if not replicas:
        return "no broker is named: name at least one"
    if len(set(replicas)) < len(replicas):
        return "a broker is named twice: name it once"
    if len(replicas) != replication_factor:
        return f"partition 0 has {replication_factor} replicas: give every partition the same number"
    registered = {broker_id: image.broker(broker_id) for broker_id in replicas}
    unknown = [broker_id for broker_id, broker in registered.items() if broker is None]
    if unknown:
        return f"brokers {unknown} are not registered: name registered brokers"
    if problem := shared_machine(broker for broker in registered.values() if broker is not None):
        return problem
    if not any(image.is_active(broker_id) for broker_id in replicas):
        return "none of these brokers is in service: name one that is"
    return ""


def _check_min_insync_replicas(configs: Mapping[str, str], replication_factor: int, demanded: int) -> None:
    """Refuse a minimum above the number of replicas: it has no more effect than that number."""
    if demanded > replication_factor:
        origin = "set on the topic" if "min.insync.replicas" in configs else "the cluster's default"
        problem = (
            f"min.insync.replicas is {demanded} ({origin}), but the replication factor is {replication_factor}: "
            f"raise the replication factor to {demanded}, or set min.insync.replicas={replication_factor} on the topic"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _topic_records(
    image: MetadataImage, name: str, configs: Mapping[str, str], topic_id: TopicId, assignment: Assignment
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicCreated(topic=name, topic_id=topic_id)]
    records += [TopicConfigSet(topic_id=topic_id, key=key, value=value) for key, value in sorted(configs.items())]
    records += [
        partition_created(image, topic_id, partition, replicas) for partition, replicas in enumerate(assignment)
    ]
    return records


def placeable_brokers(image: MetadataImage) -> list[BrokerRegistration]:
    """Return the brokers that may get replicas of new partitions, by id: in service, or fenced and expected back.

    One that is shutting down is left out until it is fenced. One with an operator fence is, too: it is being
    decommissioned, or repaired.
    """
    return [
        broker
        for _, broker in sorted(image.brokers.items())
        if broker.active or (broker.fenced and not broker.fenced_by_operator)
    ]


def partition_created(
    image: MetadataImage, topic_id: TopicId, partition: int, replicas: Sequence[BrokerId]
) -> PartitionCreated:
    """Return the record of a new partition, led by the first of these brokers that is in service."""
    # An empty log is in sync on every broker in service.
    isr = [broker_id for broker_id in replicas if image.is_active(broker_id)]
    return PartitionCreated(
        topic_id=topic_id,
        partition=partition,
        replicas=list(replicas),
        isr=isr,
        leader=elect(replicas, isr, image.is_active),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )


def _or_default(asked: int, default: int) -> int:
    return default if asked == CLUSTER_DEFAULT else asked
