"""Leader elections, and the changes to a broker's partitions when it is fenced, unfenced or shut down.

Only replicas that hold every acknowledged record are elected: members of the ISR or, if none of those can lead,
eligible replicas outside it (see `kraft.metadata.eligible_replicas`); such a leader is then alone in the ISR. The ISR
never becomes empty: its last member stays in it without leading if no other replica is known to hold every acknowledged
record. Another replica leads only if the topic's unclean.leader.election.enable allows it, or an operator asks for it.

The leader epoch grows when the leader changes, and when a replica has failed; an ISR that only shrinks does not
interrupt producers (as in Kafka since 3.6). The partition epoch grows with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TOPIC_CONFIGS, TopicConfig
from kraft.metadata.eligible_replicas import eligible_after, minimum_isr
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.records import PartitionChanged
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch

CanLead = Callable[[BrokerId], bool]

_UNCLEAN = TOPIC_CONFIGS["unclean.leader.election.enable"]


def elect(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], can_lead: CanLead, newcomers: Collection[BrokerId] = ()
) -> BrokerId:
    """Return the first of the replicas that is in sync and can lead; NO_BROKER if there is none.

    One of the `newcomers` is chosen only if no other can be.
    """
    found = [replica for replica in replicas if replica in isr and can_lead(replica)]
    settled = (replica for replica in found if replica not in newcomers)
    return next(settled, found[0] if found else NO_BROKER)


def may_be_unclean(topic: TopicImage, defaults: TopicConfig) -> bool:
    """Return whether a replica that is not in sync may lead a partition of the topic if no other can."""
    own = topic.configs.get(_UNCLEAN.key)
    return defaults.unclean_leader_election_enable if own is None else bool(_UNCLEAN.kind.read(own))


def changes_when_gone(
    image: MetadataImage,
    broker_id: BrokerId,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    *,
    trusted: bool = True,
    newcomers: Collection[BrokerId] = (),
) -> list[PartitionChanged]:
    """Return the changes for a broker that is fenced or registers again: it leads nothing, and leaves ISRs with others.

    A broker that is not `trusted` may have lost acknowledged records: it leaves every ELR, and does not stay as the
    last member of an ISR if there is an ELR. One of the `newcomers` leads only if no other can.
    """

    can_lead = _alive_without(image, broker_id)
    distrusted = () if trusted else (broker_id,)
    changes = []
    for topic, partition in image.partitions_of(broker_id):
        if broker_id in partition.isr or (broker_id in distrusted and broker_id in partition.elr):
            isr = _without(partition.isr, broker_id)
            unclean = may_be_unclean(topic, defaults)
            changes += partition_change(
                image,
                topic,
                partition,
                isr,
                can_lead,
                defaults=defaults,
                unclean=unclean,
                distrusted=distrusted,
                newcomers=newcomers,
            )
    return changes


def changes_when_unfenced(
    image: MetadataImage, broker_id: BrokerId, defaults: TopicConfig = KAFKA_DEFAULTS
) -> list[PartitionChanged]:
    """Return the changes for an unfenced broker: it leads partitions that waited for a member of their ISR or ELR."""

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
    image: MetadataImage,
    broker_id: BrokerId,
    defaults: TopicConfig = KAFKA_DEFAULTS,
    *,
    newcomers: Collection[BrokerId] = (),
) -> list[PartitionChanged]:
    """Return the changes for a controlled shutdown: another member of the ISR becomes leader where one can.

    One of the `newcomers` does only if no other can. A partition of which the broker has the only replica in sync keeps
    it as leader until it stops.
    """

    def can_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and image.is_active(candidate)

    changes = []
    for topic, partition in image.partitions_of(broker_id):
        isr = _without(partition.isr, broker_id)
        if broker_id in partition.isr and elect(partition.replicas, isr, can_lead) != NO_BROKER:
            changes += partition_change(image, topic, partition, isr, can_lead, defaults=defaults, newcomers=newcomers)
    return changes


def _alive_without(image: MetadataImage, broker_id: BrokerId) -> CanLead:
    # A broker that is shutting down still serves, and gives up the leadership with its next heartbeat.
    return lambda candidate: candidate != broker_id and image.is_alive(candidate)


def changes_when_failed(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    broker_id: BrokerId,
    used_in: LeaderEpoch,
    defaults: TopicConfig = KAFKA_DEFAULTS,
) -> list[PartitionChanged]:
    """Return the changes for a failed replica of a live broker, which used it last in leader epoch `used_in`.

    The partition gets a later leader epoch than that even if the leader stays. So the leader ignores a fetch that the
    broker sent before its replica failed and that is still under way; it would otherwise bring the broker back into the
    ISR without the records that it has lost.
    """

    can_lead = _alive_without(image, broker_id)
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
    """Return the record that makes a replica out of sync the leader, alone in the ISR; none if no replica can lead.

    The partition has no leader. An eligible replica comes first, because it loses nothing. A member of the ISR comes
    last: if it can lead by `can_lead` and yet does not, its replica has failed.
    """
    outside = [replica for replica in partition.replicas if not partition.counts_on(replica)]
    leader = elect([*partition.elr, *outside, *partition.isr], partition.replicas, can_lead)
    if leader == NO_BROKER:
        return []
    return partition_change(image, topic, partition, (leader,), can_lead, defaults=defaults)


def next_partition_epoch(topic: TopicImage, partition: PartitionImage) -> PartitionChanged:
    """Return the unchanged partition in a new partition epoch, which voids requests made in the previous one."""
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
    newcomers: Collection[BrokerId] = (),
) -> list[PartitionChanged]:
    """Return the record for a new ISR, with an election if the leader cannot stay; none if nothing changes.

    If no member of the ISR can lead, a member of the ELR does, alone in the ISR; with `unclean`, failing that, any
    replica. An empty `isr` means that its last member is gone. The `distrusted` brokers may have lost acknowledged
    records. One of the `newcomers` leads only if no other can. `defaults` apply to topics that do not set a config
    themselves.
    """
    stays = partition.leader in isr and can_lead(partition.leader)
    leader = partition.leader if stays else elect(partition.replicas, isr, can_lead, newcomers)
    if leader == NO_BROKER:
        eligible = _without(partition.elr, *distrusted)
        leader = elect(partition.replicas, eligible, can_lead, newcomers)
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
    return [change] if _differs(partition, change) else []


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


def _differs(partition: PartitionImage, change: PartitionChanged) -> bool:
    before = (partition.leader, partition.isr, partition.elr, partition.last_known_elr)
    return before != (change.leader, tuple(change.isr), tuple(change.elr), tuple(change.last_known_elr))


def _without(members: Sequence[BrokerId], *leaving: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(member for member in members if member not in leaving)
