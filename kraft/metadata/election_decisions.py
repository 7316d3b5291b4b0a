"""The decisions on elections that do not follow from a broker's coming or going.

Preferred ones put partitions back where their first replica is, on demand or when too many have moved away from a
broker. Unclean ones end the time without a leader at the cost of records. Source: KIP-460; KafkaController's and
QuorumController's leader rebalancing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kraft.metadata.configs import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.decision import Decision
from kraft.metadata.eligible_replicas import is_settled
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.leader_election import may_be_unclean, partition_change, unclean_change
from kraft.metadata.partition_names import find_partition
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.model.partitions import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionName,
    PartitionResult,
)

ELECTIONS_AT_ONCE_MAX = 1_000
"""Of those that nobody asked for. The rest is left for the next time, so that clients are not all sent elsewhere."""

ELECTIONS_PER_REQUEST_MAX = 8_000
"""What is decided at once has to fit into one entry of the metadata log."""


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[ElectLeadersResponse]:
    """Elects for each partition on its own. A partition that is named twice is elected for once.

    `defaults` are of topics that set nothing themselves.
    """
    elections = {ElectionType.PREFERRED: _preferred, ElectionType.UNCLEAN: _unclean}
    election = elections[request.election_type]
    records: list[PartitionChanged] = []
    results = []
    for name in _named(image, request):
        try:
            topic, partition = find_partition(image, name.topic, name.partition)
            if len(records) == ELECTIONS_PER_REQUEST_MAX:
                problem = f"more than {ELECTIONS_PER_REQUEST_MAX} elections in one request: ask again for the rest"
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)
            records += election(image, topic, partition, defaults)
        except Refusal as refusal:
            if not request.all_partitions or refusal.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append(_result(name, refusal.error_code, refusal.message))
        else:
            results.append(_result(name, ErrorCode.NONE, ""))
    return Decision(records=records, response=ElectLeadersResponse(results=results))


def balance_leaders(
    image: MetadataImage, *, imbalance_percentage: int, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[int]:
    """Gives brokers back the partitions that prefer them, where others lead more than this part of those.

    Partitions that are being reassigned are left alone. The answer is how many were moved.
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
        if is_balanced or not image.is_active(broker_id):
            continue
        for topic, partition in elsewhere[broker_id]:
            if partition.has_leader and broker_id in partition.isr and not partition.is_reassigned:
                records += _led_by(image, topic, partition, broker_id, defaults)
    moved = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=moved, response=len(moved))


def elect_unclean_leaders(image: MetadataImage, *, defaults: TopicConfig) -> Decision[int]:
    """Elects where nobody leads and the topic's unclean.leader.election.enable is true; the answer is how often.

    Most such elections come with the broker that went. This is for topics that set the config afterwards.
    """
    records: list[PartitionChanged] = []
    for topic, partition in _partitions(image):
        if not partition.has_leader and may_be_unclean(topic, defaults):
            records += unclean_change(image, topic, partition, image.is_active, defaults=defaults)
    elected = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=elected, response=len(elected))


def settle_eligible_replicas(image: MetadataImage, *, defaults: TopicConfig) -> Decision[int]:
    """Ends each ELR that has outlived its reason; the answer is how many.

    So it is with a min.insync.replicas that was lowered in the files of restarted nodes. Of what is set while the
    cluster runs the ELRs hear at once.
    """
    records = [record for topic in image.topics.values() for record in unsettled_in(image, topic, defaults)]
    settled = records[:ELECTIONS_AT_ONCE_MAX]
    return Decision(records=settled, response=len(settled))


def unsettled_in(image: MetadataImage, topic: TopicImage, defaults: TopicConfig) -> Iterator[PartitionChanged]:
    """The records that end those ELRs of the topic which have outlived their reason."""
    for partition in topic.partitions.values():
        if not is_settled(image, topic, partition, defaults):
            yield from _led_by(image, topic, partition, partition.leader, defaults)


def _preferred(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig
) -> list[PartitionChanged]:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred leader, leads already")
    # One that is in sync, alive and does not lead though nobody else does has failed on that broker.
    if not (partition.has_leader and preferred in partition.isr and image.is_active(preferred)):
        state = "in sync" if preferred in partition.isr else "not in sync"
        alive = "in service" if image.is_active(preferred) else "not in service"
        problem = f"the preferred leader, broker {preferred}, is {state} and {alive}"
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, problem)
    return _led_by(image, topic, partition, preferred, defaults)


def _unclean(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig
) -> list[PartitionChanged]:
    if partition.has_leader:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads")
    changes = unclean_change(image, topic, partition, image.is_active, defaults=defaults)
    if not changes:
        problem = f"none of the brokers {list(partition.replicas)} is in service"
        raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, problem)
    return changes


def _led_by(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, broker_id: BrokerId, defaults: TopicConfig
) -> list[PartitionChanged]:
    return partition_change(
        image, topic, partition, partition.isr, lambda candidate: candidate == broker_id, defaults=defaults
    )


def _named(image: MetadataImage, request: ElectLeadersRequest) -> list[PartitionName]:
    if not request.all_partitions:
        return list(dict.fromkeys(request.partitions))
    return [
        PartitionName(topic=name, partition=number)
        for name in sorted(image.topic_ids)
        for number in sorted(image.topics[image.topic_ids[name]].partitions)
    ]


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            yield topic, partition


def _result(name: PartitionName, error_code: ErrorCode, error_message: str) -> PartitionResult:
    return PartitionResult(
        topic=name.topic, partition=name.partition, error_code=error_code, error_message=error_message
    )
