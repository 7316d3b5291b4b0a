"""Decisions on elections that are not caused by a broker that was fenced or unfenced.

Preferred elections make the first replica the leader again, on request or when too many leaderships have moved away
from a broker. Unclean elections give a partition a leader at the cost of records. Source: KIP-460; leader rebalancing
in KafkaController and QuorumController.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.decision import Decision
from kraft.metadata.eligible_replicas import has_stale_elr
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.leader_election import may_be_unclean, partition_change, unclean_change
from kraft.metadata.partition_names import find_partition
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.model.partitions import ElectionType
from kraft.wire.schema.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ELECTIONS_AT_ONCE_MAX = 1_000
"""Maximum of automatic elections at a time. The rest waits, so that not all clients change leaders at once."""

ELECTIONS_PER_REQUEST_MAX = 8_000
"""One request's elections have to fit into one entry of the metadata log."""


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[ElectLeadersResponse]:
    """Elect a leader for each partition on its own; a partition that is named twice gets one election.

    `defaults` apply to topics that do not set a config themselves. Raises Refusal INVALID_REQUEST for an unknown type.
    """
    election = _election(request.election_type)
    records: list[PartitionChanged] = []
    results: dict[str, list[PartitionResult]] = {}
    for name, number in _named(image, request):
        try:
            topic, partition = find_partition(image, name, number)
            if len(records) == ELECTIONS_PER_REQUEST_MAX:
                problem = f"more than {ELECTIONS_PER_REQUEST_MAX} elections in one request: repeat it for the rest"
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)
            records += election(image, topic, partition, defaults)
        except Refusal as refusal:
            results.setdefault(name, []).append(refused_election(number, refusal))
        else:
            elected = PartitionResult(partition_id=number, error_code=ErrorCode.NONE, error_message=None)
            results.setdefault(name, []).append(elected)
    response = ElectLeadersResponse(
        error_code=ErrorCode.NONE,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=name, partition_result=tuple(each)) for name, each in results.items()
        ),
    )
    return Decision(records=records, response=response)


def refused_election(partition: int, refusal: Refusal) -> PartitionResult:
    return PartitionResult(partition_id=partition, error_code=refusal.error_code, error_message=refusal.message)


def balance_leaders(
    image: MetadataImage,
    *,
    imbalance_percentage: int,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    newcomers: Collection[BrokerId] = (),
) -> Decision[int]:
    """Move leaderships back to their preferred brokers; the response is the number of moved ones.

    A broker gets them back if more than `imbalance_percentage` of the partitions that prefer it have another leader.
    The `newcomers` get none yet. Partitions that are being reassigned stay as they are.
    """
    preferring: dict[BrokerId, int] = defaultdict(int)
    elsewhere: dict[BrokerId, list[tuple[TopicImage, PartitionImage]]] = defaultdict(list)
    for topic, partition in _partitions(image):
        preferred = partition.replicas[0]
        preferring[preferred] += 1
        if partition.leader != preferred:
            elsewhere[preferred].append((topic, partition))
    records: list[PartitionChanged] = []
    for broker_id in sorted(elsewhere):
        is_balanced = 100 * len(elsewhere[broker_id]) <= imbalance_percentage * preferring[broker_id]
        if is_balanced or broker_id in newcomers or not image.is_active(broker_id):
            continue
        for topic, partition in elsewhere[broker_id]:
            if partition.has_leader and broker_id in partition.isr and not partition.is_reassigned:
                records += _led_by(image, topic, partition, broker_id, defaults)
    moved = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=moved, response=len(moved))


def elect_unclean_leaders(image: MetadataImage, *, defaults: TopicConfig) -> Decision[int]:
    """Elect unclean leaders for partitions without a leader; the response is the number of elections.

    Only topics with unclean.leader.election.enable=true are considered. Most such elections happen when the broker is
    fenced; this one serves topics that set the config afterwards.
    """
    records: list[PartitionChanged] = []
    for topic, partition in _partitions(image):
        if not partition.has_leader and may_be_unclean(topic, defaults):
            records += unclean_change(image, topic, partition, image.is_active, defaults=defaults)
    elected = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=elected, response=len(elected))


def clear_stale_elrs(image: MetadataImage, *, defaults: TopicConfig) -> Decision[int]:
    """Clear each ELR that is no longer needed; the response is their number.

    That happens when min.insync.replicas was lowered in the files of restarted nodes. A change of the config while the
    cluster runs clears them at once.
    """
    records = [record for topic in image.topics.values() for record in without_stale_elrs(image, topic, defaults)]
    removed = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=removed, response=len(removed))


def without_stale_elrs(image: MetadataImage, topic: TopicImage, defaults: TopicConfig) -> Iterator[PartitionChanged]:
    """Yield the records that clear the topic's ELRs that are no longer needed."""
    for partition in topic.partitions.values():
        if has_stale_elr(image, topic, partition, defaults):
            yield from _led_by(image, topic, partition, partition.leader, defaults)


def _preferred(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig
) -> list[PartitionChanged]:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred leader, is already the leader")
    # If the partition has no leader although this replica is in sync and its broker active, the replica has failed.
    if not (partition.has_leader and preferred in partition.isr and image.is_active(preferred)):
        state = "in sync" if preferred in partition.isr else "not in sync"
        alive = "in service" if image.is_active(preferred) else "not in service"
        problem = f"the preferred leader, broker {preferred}, is {state} and {alive}: retry when it is both"
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, problem)
    return _led_by(image, topic, partition, preferred, defaults)


def _unclean(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig
) -> list[PartitionChanged]:
    if partition.has_leader:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"the partition has a leader, broker {partition.leader}")
    changes = unclean_change(image, topic, partition, image.is_active, defaults=defaults)
    if not changes:
        problem = f"none of the brokers {list(partition.replicas)} is in service: start one of them"
        raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, problem)
    return changes


def _led_by(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, broker_id: BrokerId, defaults: TopicConfig
) -> list[PartitionChanged]:
    return partition_change(
        image, topic, partition, partition.isr, lambda candidate: candidate == broker_id, defaults=defaults
    )


def _election(
    election_type: int,
) -> Callable[[MetadataImage, TopicImage, PartitionImage, TopicConfig], list[PartitionChanged]]:
    match election_type:
        case ElectionType.PREFERRED:
            return _preferred
        case ElectionType.UNCLEAN:
            return _unclean
        case _:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"unknown election type {election_type}")


def _named(image: MetadataImage, request: ElectLeadersRequest) -> Iterable[tuple[str, int]]:
    if request.topic_partitions is not None:
        return dict.fromkeys((topic.topic, each) for topic in request.topic_partitions for each in topic.partitions)
    # All of the cluster: of most, no election is needed, and to say why of each would take longer than all the rest.
    return [
        (name, number)
        for name in sorted(image.topic_ids)
        for number, partition in sorted(image.topics[image.topic_ids[name]].partitions.items())
        if _may_be_needed(partition, request.election_type)
    ]


def _may_be_needed(partition: PartitionImage, election_type: int) -> bool:
    """Return whether the election is not refused with ELECTION_NOT_NEEDED."""
    is_preferred = election_type == ElectionType.PREFERRED
    return partition.leader != partition.replicas[0] if is_preferred else not partition.has_leader


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            yield topic, partition
