"""Who leads a partition, and what becomes of a broker's partitions when it goes or comes.

Only members of the ISR are elected: everything that was acknowledged is on each of them. The ISR never becomes empty.
Its last member stays in it without leading, because nobody else is known to hold what was acknowledged. Only where the
topic's unclean.leader.election.enable says so, or an operator asks for it, somebody else leads all the same.

The leader epoch grows when the leader changes, and when a replica has failed; an ISR that merely shrinks does not
interrupt producers (as Kafka does since 3.6). The partition epoch grows with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kraft.metadata.configs import KAFKA_DEFAULTS, TOPIC_CONFIGS, TopicConfig
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.records import PartitionChanged
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId

CanLead = Callable[[BrokerId], bool]

_UNCLEAN = TOPIC_CONFIGS["unclean.leader.election.enable"]


def elect(replicas: Sequence[BrokerId], isr: Sequence[BrokerId], can_lead: CanLead) -> BrokerId:
    """The first of the replicas that is in sync and can lead; NO_BROKER when there is none."""
    return next((replica for replica in replicas if replica in isr and can_lead(replica)), NO_BROKER)


def may_be_unclean(topic: TopicImage, defaults: TopicConfig) -> bool:
    """Whether a replica that is not in sync may lead a partition of the topic when no other can."""
    own = topic.configs.get(_UNCLEAN.key)
    return defaults.unclean_leader_election_enable if own is None else bool(_UNCLEAN.kind.read(own))


def changes_when_gone(
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS
) -> list[PartitionChanged]:
    """For a broker that is fenced or registers anew: it leaves every ISR where others remain, and leads nothing."""

    def can_lead(candidate: BrokerId) -> bool:
        # One that is shutting down still serves, which is better than nobody; it hands on with its next heartbeat.
        return candidate != broker_id and image.is_alive(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        if broker_id in partition.isr:
            isr = _without(partition.isr, broker_id) or partition.isr
            unclean = may_be_unclean(topic, defaults)
            changes += partition_change(topic.topic_id, partition, isr, can_lead, unclean=unclean)
    return changes


def changes_when_unfenced(
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS
) -> list[PartitionChanged]:
    """For a broker that is back: it leads the partitions that waited for a member of their ISR."""

    def can_lead(candidate: BrokerId) -> bool:
        return candidate == broker_id or image.is_alive(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        if partition.has_leader:
            continue
        if broker_id in partition.isr:
            changes += partition_change(topic.topic_id, partition, partition.isr, can_lead)
        elif may_be_unclean(topic, defaults):
            changes += unclean_change(topic.topic_id, partition, can_lead)
    return changes


def changes_when_shutting_down(image: MetadataImage, broker_id: BrokerId) -> list[PartitionChanged]:
    """For a broker in controlled shutdown: it hands on what somebody else in the ISR can lead.

    Where it is the only one in sync it goes on serving until it stops: there is nobody to hand the partition to.
    """

    def can_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and image.is_active(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        isr = _without(partition.isr, broker_id)
        if broker_id in partition.isr and elect(partition.replicas, isr, can_lead) != NO_BROKER:
            changes += partition_change(topic.topic_id, partition, isr, can_lead)
    return changes


def changes_when_failed(
    image: MetadataImage, topic_id: TopicId, partition: PartitionImage, broker_id: BrokerId, used_in: LeaderEpoch
) -> list[PartitionChanged]:
    """For a live broker whose replica failed, and that used it last in leader epoch `used_in`.

    The partition goes on to a later leader epoch than that even where the leader stays. A fetch that the broker sent
    before its replica failed, and that is still on its way, then says nothing to the leader any more; it would
    otherwise bring the broker back into the ISR, as the holder of records that it has lost.
    """

    def can_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and image.is_alive(candidate)

    isr = _without(partition.isr, broker_id) or partition.isr
    changes = partition_change(topic_id, partition, isr, can_lead)
    if changes and changes[0].leader_epoch <= used_in:
        return [replace(changes[0], leader_epoch=LeaderEpoch(used_in + 1))]
    if not changes and partition.leader_epoch <= used_in:
        return [
            PartitionChanged(
                topic_id=topic_id,
                partition=partition.partition,
                isr=list(partition.isr),
                leader=partition.leader,
                leader_epoch=LeaderEpoch(used_in + 1),
                partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
            )
        ]
    return changes


def unclean_change(topic_id: TopicId, partition: PartitionImage, can_lead: CanLead) -> list[PartitionChanged]:
    """The record with which a replica leads that is not in sync, alone in its ISR; none when there is no such replica.

    For a partition without leader. One of its ISR that could lead by `can_lead` comes last: it is there and does not
    lead, so its replica has failed.
    """
    outside = [replica for replica in partition.replicas if replica not in partition.isr]
    leader = elect([*outside, *partition.isr], partition.replicas, can_lead)
    if leader == NO_BROKER:
        return []
    return partition_change(topic_id, partition, (leader,), can_lead)


def partition_change(
    topic_id: TopicId,
    partition: PartitionImage,
    isr: Sequence[BrokerId],
    can_lead: CanLead,
    *,
    unclean: bool = False,
) -> list[PartitionChanged]:
    """The record for a new ISR, with an election where the leader cannot stay; none when nothing changes.

    With `unclean`, where nobody in sync can lead, another replica does, alone in the ISR.
    """
    stays = partition.leader in isr and can_lead(partition.leader)
    leader = partition.leader if stays else elect(partition.replicas, isr, can_lead)
    if unclean and leader == NO_BROKER:
        leader = elect(partition.replicas, partition.replicas, can_lead)
        isr = isr if leader == NO_BROKER else (leader,)
    if leader == partition.leader and tuple(isr) == partition.isr:
        return []
    return [
        PartitionChanged(
            topic_id=topic_id,
            partition=partition.partition,
            isr=list(isr),
            leader=leader,
            leader_epoch=LeaderEpoch(partition.leader_epoch + (leader != partition.leader)),
            partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        )
    ]


def _without(isr: Sequence[BrokerId], broker_id: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(member for member in isr if member != broker_id)
