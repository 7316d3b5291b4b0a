"""Who leads a partition, and what becomes of a broker's partitions when it goes or comes.

Only replicas that hold everything that was acknowledged are elected: members of the ISR, or, when none of those can
lead, eligible replicas outside it (see `kraft.metadata.eligible_replicas`), the elected one alone in the new ISR. The
ISR never becomes empty. Its last member stays in it without leading, when nobody else is known to hold what was
acknowledged. Only where the topic's unclean.leader.election.enable says so, or an operator asks for it, somebody else
leads all the same.

The leader epoch grows when the leader changes, and when a replica has failed; an ISR that merely shrinks does not
interrupt producers (as Kafka does since 3.6). The partition epoch grows with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kraft.metadata.configs import KAFKA_DEFAULTS, TOPIC_CONFIGS, TopicConfig
from kraft.metadata.eligible_replicas import eligible_after, minimum_isr
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.records import PartitionChanged
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch

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
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS, *, trusted: bool = True
) -> list[PartitionChanged]:
    """For a broker that is fenced or registers anew: it leaves every ISR where others remain, and leads nothing.

    One that is not `trusted` may have lost what it acknowledged: it leaves every ELR, and it is not the last of an ISR
    beside which there is one.
    """

    def can_lead(candidate: BrokerId) -> bool:
        # One that is shutting down still serves, which is better than nobody; it hands on with its next heartbeat.
        return candidate != broker_id and image.is_alive(candidate)

    distrusted = () if trusted else (broker_id,)
    changes = []
    for topic, partition in image.partitions_of(broker_id):
        if broker_id in partition.isr or (broker_id in distrusted and broker_id in partition.elr):
            isr = _without(partition.isr, broker_id)
            unclean = may_be_unclean(topic, defaults)
            changes += partition_change(
                image, topic, partition, isr, can_lead, defaults=defaults, unclean=unclean, distrusted=distrusted
            )
    return changes


def changes_when_unfenced(
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS
) -> list[PartitionChanged]:
    """For a broker that is back: it leads the partitions that waited for a member of their ISR or ELR."""

    def can_lead(candidate: BrokerId) -> bool:
        return candidate == broker_id or image.is_alive(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        if partition.has_leader:
            continue
        if partition.counts_on(broker_id):
            changes += partition_change(image, topic, partition, partition.isr, can_lead, defaults=defaults)
        elif may_be_unclean(topic, defaults):
            changes += unclean_change(image, topic, partition, can_lead, defaults=defaults)
    return changes


def changes_when_shutting_down(
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS
) -> list[PartitionChanged]:
    """For a broker in controlled shutdown: it hands on what somebody else in the ISR can lead.

    Where it is the only one in sync it goes on serving until it stops: there is nobody to hand the partition to.
    """

    def can_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and image.is_active(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        isr = _without(partition.isr, broker_id)
        if broker_id in partition.isr and elect(partition.replicas, isr, can_lead) != NO_BROKER:
            changes += partition_change(image, topic, partition, isr, can_lead, defaults=defaults)
    return changes


def changes_when_failed(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    broker_id: BrokerId,
    used_in: LeaderEpoch,
    defaults: TopicConfig = KAFKA_DEFAULTS,
) -> list[PartitionChanged]:
    """For a live broker whose replica failed, and that used it last in leader epoch `used_in`.

    The partition goes on to a later leader epoch than that even where the leader stays. A fetch that the broker sent
    before its replica failed, and that is still on its way, then says nothing to the leader any more; it would
    otherwise bring the broker back into the ISR, as the holder of records that it has lost.
    """

    def can_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and image.is_alive(candidate)

    isr = _without(partition.isr, broker_id)
    changes = partition_change(image, topic, partition, isr, can_lead, defaults=defaults, distrusted=(broker_id,))
    if changes and changes[0].leader_epoch <= used_in:
        return [replace(changes[0], leader_epoch=LeaderEpoch(used_in + 1))]
    if not changes and partition.leader_epoch <= used_in:
        return [replace(next_partition_epoch(topic, partition), leader_epoch=LeaderEpoch(used_in + 1))]
    return changes


def unclean_change(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, can_lead: CanLead, *, defaults: TopicConfig
) -> list[PartitionChanged]:
    """The record with which a replica leads that is not in sync, alone in its ISR; none when there is no such replica.

    For a partition without leader. Nothing is lost with one that is eligible, so that one comes first. One of its ISR
    that could lead by `can_lead` comes last: it is there and does not lead, so its replica has failed.
    """
    outside = [replica for replica in partition.replicas if not partition.counts_on(replica)]
    leader = elect([*partition.elr, *outside, *partition.isr], partition.replicas, can_lead)
    if leader == NO_BROKER:
        return []
    return partition_change(image, topic, partition, (leader,), can_lead, defaults=defaults)


def next_partition_epoch(topic: TopicImage, partition: PartitionImage) -> PartitionChanged:
    """The partition as it is, in a new partition epoch: whatever was asked for in the one before is void."""
    return _changed(topic, partition, partition.isr, partition.leader, partition.elr, partition.last_known_elr)


def partition_change(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    isr: Sequence[BrokerId],
    can_lead: CanLead,
    *,
    defaults: TopicConfig,
    unclean: bool = False,
    distrusted: Collection[BrokerId] = (),
) -> list[PartitionChanged]:
    """The record for a new ISR, with an election where the leader cannot stay; none when nothing changes.

    Where nobody of the ISR can lead, one of the ELR does, alone in the ISR; with `unclean`, if there is none either,
    any replica. An ISR that is empty is one whose last member is gone. `distrusted` may have lost what it acknowledged.
    `defaults` are of topics that set nothing themselves.
    """
    stays = partition.leader in isr and can_lead(partition.leader)
    leader = partition.leader if stays else elect(partition.replicas, isr, can_lead)
    if leader == NO_BROKER:
        eligible = _without(partition.elr, *distrusted)
        leader = elect(partition.replicas, eligible, can_lead)
        if unclean and leader == NO_BROKER:
            leader = elect(partition.replicas, partition.replicas, can_lead)
        if leader != NO_BROKER:
            isr = (leader,)
        elif not isr:
            is_replaced = eligible and not set(partition.isr).isdisjoint(distrusted)
            isr = eligible[:1] if is_replaced else partition.isr
    minimum = minimum_isr(image, topic.configs, partition.replicas, defaults)
    after = eligible_after(partition, isr, leader, replicas=partition.replicas, minimum=minimum, distrusted=distrusted)
    change = _changed(topic, partition, isr, leader, after.elr, after.last_known_elr)
    return [change] if _is_news(partition, change) else []


def _changed(
    topic: TopicImage,
    partition: PartitionImage,
    isr: Sequence[BrokerId],
    leader: BrokerId,
    elr: Sequence[BrokerId],
    last_known_elr: Sequence[BrokerId],
) -> PartitionChanged:
    return PartitionChanged(
        topic_id=topic.topic_id,
        partition=partition.partition,
        isr=list(isr),
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + (leader != partition.leader)),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        elr=list(elr),
        last_known_elr=list(last_known_elr),
    )


def _is_news(partition: PartitionImage, change: PartitionChanged) -> bool:
    before = (partition.leader, partition.isr, partition.elr, partition.last_known_elr)
    return before != (change.leader, tuple(change.isr), tuple(change.elr), tuple(change.last_known_elr))


def _without(members: Sequence[BrokerId], *leaving: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(member for member in members if member not in leaving)
