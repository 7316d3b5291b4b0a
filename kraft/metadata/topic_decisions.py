"""Decisions about topics: creation, with automatic or manual placement, and deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.configs import checked
from kraft.metadata.decision import Decision
from kraft.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from kraft.metadata.leader_election import elect
from kraft.metadata.machines import shared_machine
from kraft.metadata.placement import place_partitions
from kraft.metadata.records import MetadataRecord, PartitionCreated, TopicConfigSet, TopicCreated, TopicDeleted
from kraft.metadata.topic_names import check_no_collision, check_topic_name
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.model.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicResult, TopicResults

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Kafka's limit too: a single request must not keep the controller busy for seconds."""

TOPICS_PER_REQUEST_MAX = 2_000
"""Topics that one request may create. They are decided in one turn of the controller's event loop."""

CLUSTER_DEFAULT = -1
"""Used in a request for the cluster's default partition count or replication factor."""

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
) -> Decision[TopicResults]:
    """Create each topic on its own: one that is refused does not stop the others.

    `topic_ids` are new, one for each topic of the request. Automatic placement begins at `placement_start`, and
    continues from each topic of the request to the next.
    """
    assert len(topic_ids) == len(request.topics), "one id for each topic"
    creation = _Creation(image, defaults, placement_start)
    named = Counter(new_topic.topic for new_topic in request.topics)
    results = []
    for new_topic, topic_id in zip(request.topics, topic_ids, strict=True):
        try:
            _check_named_once(new_topic.topic, named)
            results.append(creation.create(new_topic, TopicId(topic_id)))
        except Refusal as refusal:
            results.append(_refused(new_topic.topic, refusal))
    if request.validate_only:
        return Decision(records=[], response=TopicResults(results=[_without_id(result) for result in results]))
    return Decision(records=creation.records, response=TopicResults(results=results))


def delete_topics(image: MetadataImage, request: DeleteTopicsRequest) -> Decision[TopicResults]:
    """Delete each topic on its own. One that the request names twice, by name or by id, is not deleted."""
    by_name = [(name, image.topic(name)) for name in request.topics]
    by_id = [(topic_id, image.topic_by_id(topic_id)) for topic_id in request.topic_ids]
    meant = Counter([*request.topics, *(topic.topic for _, topic in by_id if topic is not None)])
    records: list[MetadataRecord] = []
    results = []
    for name, topic in by_name:
        unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name[:300]}'")
        results.append(_deleted(name, topic, unknown, meant, records))
    for topic_id, topic in by_id:
        unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
        result = _deleted("" if topic is None else topic.topic, topic, unknown, meant, records)
        results.append(replace(result, topic_id=topic_id))
    return Decision(records=records, response=TopicResults(results=results))


def _deleted(
    name: str, topic: TopicImage | None, unknown: Refusal, meant: Counter[str], records: list[MetadataRecord]
) -> TopicResult:
    """Add the record of the deletion. `unknown` is the refusal if there is no such topic."""
    try:
        _check_named_once(name, meant)
        if topic is None:
            raise unknown
    except Refusal as refusal:
        return _refused(name, refusal)
    records.append(TopicDeleted(topic_id=topic.topic_id))
    return TopicResult(topic=name, error_code=ErrorCode.NONE, topic_id=topic.topic_id)


class _Creation:
    """Creates the topics of one request in order, each checked against the ones before it too."""

    def __init__(self, image: MetadataImage, defaults: ControllerDefaults, placement_start: int) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._defaults = defaults
        self._placement_start = placement_start
        self._partitions_left = PARTITIONS_PER_REQUEST_MAX
        self._topics_left = TOPICS_PER_REQUEST_MAX

    def create(self, new_topic: NewTopic, topic_id: TopicId) -> TopicResult:
        self._check_topics_left()
        _check_new_name(self._image, new_topic.topic)
        in_effect = checked(self._defaults.configs, new_topic.configs)
        replicas = self._placed_by_hand(new_topic) if new_topic.assignments else self._placed(new_topic)
        replication_factor = len(replicas[0])
        _check_min_insync_replicas(new_topic, replication_factor, in_effect.min_insync_replicas)
        records = _topic_records(self._image, new_topic, topic_id, replicas)
        self._image = self._image.replay(records)
        self.records += records
        self._partitions_left -= len(replicas)
        return TopicResult(
            topic=new_topic.topic,
            error_code=ErrorCode.NONE,
            topic_id=topic_id,
            partitions=len(replicas),
            replication_factor=replication_factor,
        )

    def _placed(self, new_topic: NewTopic) -> Assignment:
        partitions = _or_default(new_topic.partitions, self._defaults.partitions)
        self._check_partitions_left(partitions)
        replicas = place_partitions(
            partitions=partitions,
            replication_factor=_or_default(new_topic.replication_factor, self._defaults.replication_factor),
            brokers=placeable_brokers(self._image),
            start=self._placement_start,
        )
        self._placement_start += partitions
        return replicas

    def _placed_by_hand(self, new_topic: NewTopic) -> Assignment:
        if new_topic.partitions != CLUSTER_DEFAULT or new_topic.replication_factor != CLUSTER_DEFAULT:
            problem = "a replica assignment fixes the partition count and the replication factor: leave those out"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        assignment = [[BrokerId(replica) for replica in each.replicas] for each in new_topic.assignments]
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


def _check_named_once(name: str, named: Counter[str]) -> None:
    if named[name] > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"topic '{name[:300]}' is in the request {named[name]} times")


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


def _check_min_insync_replicas(new_topic: NewTopic, replication_factor: int, demanded: int) -> None:
    """Refuse a minimum above the number of replicas: it has no more effect than that number."""
    if demanded > replication_factor:
        origin = "set on the topic" if "min.insync.replicas" in new_topic.configs else "the cluster's default"
        problem = (
            f"min.insync.replicas is {demanded} ({origin}), but the replication factor is {replication_factor}: "
            f"raise the replication factor to {demanded}, or set min.insync.replicas={replication_factor} on the topic"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _topic_records(
    image: MetadataImage, new_topic: NewTopic, topic_id: TopicId, assignment: Assignment
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicCreated(topic=new_topic.topic, topic_id=topic_id)]
    records += [
        TopicConfigSet(topic_id=topic_id, key=key, value=value) for key, value in sorted(new_topic.configs.items())
    ]
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


def _refused(name: str, refusal: Refusal) -> TopicResult:
    return TopicResult(topic=name, error_code=refusal.error_code, error_message=refusal.message)


def _without_id(result: TopicResult) -> TopicResult:
    """Remove the id from the result: a topic that was only validated has none yet."""
    return TopicResult(
        topic=result.topic,
        error_code=result.error_code,
        error_message=result.error_message,
        partitions=result.partitions,
        replication_factor=result.replication_factor,
    )
