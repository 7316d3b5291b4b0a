"""Decisions that move a partition's replicas to other brokers.

A reassignment first adds the new replicas, which copy the leader's log; no replica is removed yet. The record that
brings the last of them into the ISR also completes the reassignment: it removes the replicas to be removed, and elects
another leader if the leader was one of them. Until then an operator can cancel it, which removes the added replicas. A
reassignment that adds no replica is completed at once.

Whenever a replica is removed, the leader epoch grows, so that a fetch which it sent before is ignored if it is added
again. Source: KIP-455; KIP-860.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kraft.log.topic_config import TopicConfig
from kraft.metadata.configs import overridden
from kraft.metadata.decision import Decision
from kraft.metadata.eligible_replicas import eligible_after, minimum_isr
from kraft.metadata.features import require_settings
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.leader_election import CanLead, elect, may_be_unclean
from kraft.metadata.machines import shared_machine
from kraft.metadata.partition_names import find_partition
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

REASSIGNMENTS_PER_REQUEST_MAX = 5_000
"""One request's reassignments have to fit into one entry of the metadata log."""


class _Layout(Struct, frozen=True, kw_only=True):
    """Replicas, reassignment and ISR of a partition."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]

    def completed(self) -> _Layout:
        """Return the layout without the replicas to be removed, once all added ones are in sync; until then, itself.

        It also waits until a replica that stays is in sync.
        """
        isr = _without(self.isr, self.removing)
        if not isr or not set(self.adding).issubset(isr):
            return self
        return _Layout(replicas=_without(self.replicas, self.removing), adding=(), removing=(), isr=isr)


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, *, defaults: TopicConfig
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begin or cancel the reassignment of each partition on its own; one that changes nothing gives no record.

    A new target replaces that of a reassignment under way. `defaults` apply to topics that do not set a config
    themselves. Raises Refusal UNSUPPORTED_VERSION while nodes may be running that would ignore these records' fields.
    """
    require_settings(image, "reassigning partitions")
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    if named.total() > REASSIGNMENTS_PER_REQUEST_MAX:
        problem = f"more than {REASSIGNMENTS_PER_REQUEST_MAX} partitions in one request: reassign fewer at a time"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    records: list[PartitionChanged] = []

    def decide(name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
        try:
            _check_named_once(name, asked, named)
            topic, partition = find_partition(image, name, asked.partition_index)
            if asked.replicas is None:
                changes = _cancelled(image, topic, partition, defaults)
            else:
                factor_may_change = request.allow_replication_factor_change
                _check_target(image, topic, partition, asked.replicas, factor_may_change, defaults)
                changes = _begun(image, topic, partition, asked.replicas, defaults)
        except Refusal as refusal:
            return refused_reassignment(asked, refusal)
        records.extend(changes)
        return ReassignablePartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.NONE, error_message=None
        )

    responses = tuple(
        ReassignableTopicResponse(
            name=topic.name, partitions=tuple(decide(topic.name, each) for each in topic.partitions)
        )
        for topic in request.topics
    )
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
    )
    return Decision(records=records, response=response)


def refused_reassignment(asked: ReassignablePartition, refusal: Refusal) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=refusal.error_code, error_message=refusal.message
    )


def completed(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, isr: Sequence[BrokerId], defaults: TopicConfig
) -> list[PartitionChanged]:
    """Return the record that accepts this ISR and completes the reassignment; none if the ISR does not complete it."""
    if not partition.is_reassigned:
        return []
    layout = _Layout(
        replicas=partition.replicas,
        adding=partition.adding_replicas,
        removing=partition.removing_replicas,
        isr=tuple(isr),
    )
    after = layout.completed()
    return [] if after is layout else _change(image, topic, partition, after, defaults)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments under way; partitions that are not being reassigned or do not exist are left out."""
    wanted = None if request.topics is None else _named(request.topics)
    found: dict[str, list[OngoingPartitionReassignment]] = {}
    for name, partition in _under_way(image):
        if wanted is None or (name, partition.partition) in wanted:
            found.setdefault(name, []).append(_described(partition))
    topics = (OngoingTopicReassignment(name=name, partitions=tuple(each)) for name, each in found.items())
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=tuple(topics))


def _named(topics: Iterable[ListPartitionReassignmentsTopics]) -> set[tuple[str, int]]:
    return {(topic.name, partition) for topic in topics for partition in topic.partition_indexes}


def _described(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.partition,
        replicas=tuple(partition.replicas),
        adding_replicas=tuple(partition.adding_replicas),
        removing_replicas=tuple(partition.removing_replicas),
    )


def _under_way(image: MetadataImage) -> Iterator[tuple[str, PartitionImage]]:
    for name in sorted(image.topic_ids):
        partitions = image.topics[image.topic_ids[name]].partitions
        for number in sorted(partitions):
            if partitions[number].is_reassigned:
                yield name, partitions[number]


# --- one partition -------------------------------------------------------------------------------------------


def _begun(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, replicas: Sequence[int], defaults: TopicConfig
) -> list[PartitionChanged]:
    target = tuple(map(BrokerId, replicas))
    original = partition.original_replicas
    removing = _without(original, target)
    kept = (*target, *removing)
    # Replicas that an earlier target added and this one does not have are removed at once.
    isr = _without(partition.isr, _without(partition.replicas, kept)) or _eligible(image, partition, kept)
    if not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only brokers {list(partition.isr)} are in sync, which an earlier reassignment added: keep one of them in "
            "the target, or wait until others are in sync",
        )
    layout = _Layout(replicas=kept, adding=_without(target, original), removing=removing, isr=isr)
    return _change(image, topic, partition, layout.completed(), defaults)


def _cancelled(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig
) -> list[PartitionChanged]:
    if not partition.is_reassigned:
        problem = f"partition {partition.partition} of topic '{topic.topic}' is not being reassigned"
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, problem)
    replicas = partition.original_replicas
    isr = _without(partition.isr, partition.adding_replicas) or _eligible(image, partition, replicas)
    if not isr and may_be_unclean(topic, defaults):
        isr = tuple(replica for replica in replicas if image.is_active(replica))[:1]
    if not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only brokers {list(partition.isr)} are in sync, which the reassignment added, and to remove them would "
            "lose records: wait until others are in sync",
        )
    layout = _Layout(replicas=replicas, adding=(), removing=(), isr=isr)
    return _change(image, topic, partition, layout, defaults)


def _eligible(image: MetadataImage, partition: PartitionImage, replicas: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    """Return one of the replicas that is eligible and active, though not in sync; empty if there is none."""
    return tuple(replica for replica in replicas if replica in partition.elr and image.is_active(replica))[:1]


def _change(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, layout: _Layout, defaults: TopicConfig
) -> list[PartitionChanged]:
    before = _Layout(
        replicas=partition.replicas,
        adding=partition.adding_replicas,
        removing=partition.removing_replicas,
        isr=partition.isr,
    )
    if layout == before:
        return []
    leader = partition.leader
    # A partition that waits for a member of its ISR to lead keeps waiting, unless that member was removed.
    if leader not in layout.isr and (partition.has_leader or not set(layout.isr) & set(partition.isr)):
        leader = elect(layout.replicas, layout.isr, _can_lead(image, layout))
    minimum = minimum_isr(image, topic.configs, layout.replicas, defaults)
    eligible = eligible_after(partition, layout.isr, leader, replicas=layout.replicas, minimum=minimum)
    epoch_grows = leader != partition.leader or bool(_without(partition.replicas, layout.replicas))
    return [
        PartitionChanged(
            topic_id=topic.topic_id,
            partition=partition.partition,
            isr=list(layout.isr),
            leader=leader,
            leader_epoch=LeaderEpoch(partition.leader_epoch + epoch_grows),
            partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
            replicas=list(layout.replicas),
            adding_replicas=list(layout.adding),
            removing_replicas=list(layout.removing),
            elr=list(eligible.elr),
            last_known_elr=list(eligible.last_known_elr),
        )
    ]


def _can_lead(image: MetadataImage, layout: _Layout) -> CanLead:
    # A broker that is shutting down still serves, and is used if no other can lead.
    has_active = any(image.is_active(member) for member in layout.isr)
    return image.is_active if has_active else image.is_alive


# --- checks --------------------------------------------------------------------------------------------------


def _check_named_once(topic: str, asked: ReassignablePartition, named: Counter[tuple[str, int]]) -> None:
    times = named[topic, asked.partition_index]
    if times > 1:
        problem = f"partition {asked.partition_index} of topic '{topic[:300]}' is in the request {times} times"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _check_target(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    target: Sequence[int],
    allows_replication_factor_change: bool,
    defaults: TopicConfig,
) -> None:
    if not target:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the target has no replicas: name at least one broker")
    if len(set(target)) < len(target):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(target)} name a broker twice: name it once"
        )
    registered = {replica: image.broker(BrokerId(replica)) for replica in target}
    unknown = sorted(replica for replica, broker in registered.items() if broker is None)
    if unknown:
        problem = f"brokers {unknown} are not registered: name registered brokers"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if problem := shared_machine(broker for broker in registered.values() if broker is not None):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    replication_factor = len(partition.original_replicas)
    if len(target) != replication_factor and not allows_replication_factor_change:
        problem = (
            f"the replication factor would change from {replication_factor} to {len(target)}: "
            f"name {replication_factor} brokers, or allow the change"
        )
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    demanded = overridden(defaults, topic.configs).min_insync_replicas
    if len(target) < min(demanded, replication_factor):
        problem = (
            f"the target has {len(target)} replicas, but min.insync.replicas of topic '{topic.topic}' is {demanded}: "
            f"name at least as many, or set min.insync.replicas={len(target)} on the topic first"
        )
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _without(replicas: Sequence[BrokerId], others: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(replica for replica in replicas if replica not in others)
