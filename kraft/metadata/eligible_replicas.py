"""Eligible leader replicas (ELR): replicas outside the ISR that hold every committed record (KIP-966).

While the ISR is smaller than min.insync.replicas, or there is no leader, nothing is committed. A replica that leaves an
ISR which is then below the minimum therefore holds every committed record as long as the ISR stays below: it is in the
ELR. If no member of the ISR can lead, a member of the ELR can, and no acknowledged record is lost. When the ISR reaches
the minimum again, records are committed that the ELR may not have; so the record with that ISR also empties the ELR.
The leader commits nothing while there is an ELR, even if its own minimum differs.

A replica that lost records, or may have, leaves the ELR and joins the last known ELR. That list is for operators only;
no election uses it. An unclean election empties both, because after it no replica is known to hold every committed
record.

Unlike Kafka's, an ISR never becomes empty: its last member stays in it without leading, and counts like a member of the
ELR. If it can no longer be trusted, the first member of the ELR replaces it. Without an ELR it stays, as the best
replica there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from kraft.log.topic_config import TOPIC_CONFIGS, TopicConfig
from kraft.metadata.features import keeps_eligible_replicas
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.ids import NO_BROKER, BrokerId

_MINIMUM = TOPIC_CONFIGS["min.insync.replicas"]


class Eligible(Struct, frozen=True, kw_only=True):
    """ELR and last known ELR, both in the order of the replicas; they share no member with each other or the ISR."""

    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


NO_ELIGIBLE = Eligible()


def minimum_isr(
    image: MetadataImage, configs: Mapping[str, str], replicas: Sequence[BrokerId], defaults: TopicConfig
) -> int:
    """Return the size of the ISR below which nothing is committed, for a topic with these configs.

    0 while the cluster keeps no ELR.
    """
    if not keeps_eligible_replicas(image):
        return 0
    own = configs.get(_MINIMUM.key)
    demanded = defaults.min_insync_replicas if own is None else _MINIMUM.kind.read(own)
    assert isinstance(demanded, int), f"min.insync.replicas={own} was checked when it was set"
    return min(demanded, len(replicas))


def eligible_after(
    partition: PartitionImage,
    isr: Sequence[BrokerId],
    leader: BrokerId,
    *,
    replicas: Sequence[BrokerId],
    minimum: int,
    distrusted: Collection[BrokerId] = (),
) -> Eligible:
    """Return the ELRs beside a new ISR and leader; the `distrusted` brokers may have lost records."""
    trusted = {*partition.isr, *partition.elr}
    is_committing = leader != NO_BROKER and len(isr) >= minimum
    if is_committing or minimum == 0 or trusted.isdisjoint(isr):
        return NO_ELIGIBLE
    known = trusted.union(partition.last_known_elr).difference(isr)
    eligible = trusted.difference(isr, distrusted)
    return Eligible(
        elr=tuple(replica for replica in replicas if replica in eligible),
        last_known_elr=tuple(replica for replica in replicas if replica in known and replica not in eligible),
    )


def has_stale_elr(image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig) -> bool:
    """Return whether the partition has an ELR that is no longer needed, because the ISR reaches a lowered minimum."""
    if not partition.has_leader or not (partition.elr or partition.last_known_elr):
        return False
    return len(partition.isr) >= minimum_isr(image, topic.configs, partition.replicas, defaults)
