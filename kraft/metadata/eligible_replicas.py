"""Replicas outside the ISR that hold everything that is committed: the eligible leader replicas, ELR (KIP-966).

While the ISR is smaller than min.insync.replicas, or nobody leads, nothing is committed. A replica that leaves an ISR
which falls below the minimum, or is below it, therefore goes on holding all that is committed, for as long as the ISR
stays below: it is in the ELR. When nobody in the ISR can lead, somebody in the ELR can, and nothing that was
acknowledged is lost. When the ISR reaches the minimum again records are committed that the ELR may not have, so it
ends, in the very record that says so. The leader commits nothing while there is an ELR, whatever it takes the minimum
to be.

A replica that lost records, or may have, leaves the ELR. It is then in the last known ELR, as what used to be trusted:
for people, no election looks at it. Both end with an unclean election, after which nobody holds all that was committed.

Unlike Kafka's, an ISR never becomes empty: its last member stays in it without leading, and is as good as in the ELR.
If it can no longer be trusted, the first of the ELR takes its place. With no ELR it stays, as the best there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kraft.metadata.configs import TOPIC_CONFIGS, TopicConfig
from kraft.metadata.features import keeps_eligible_replicas
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.ids import NO_BROKER, BrokerId

_MINIMUM = TOPIC_CONFIGS["min.insync.replicas"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """Both in the order of the replicas, apart from one another and from the ISR."""

    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


NOBODY = Eligible()


def minimum_isr(
    image: MetadataImage,
    configs: Mapping[str, str],
    replicas: Sequence[BrokerId],
    defaults: TopicConfig,
) -> int:
    """Below so many in the ISR nothing is committed: the minimum of a topic with these configs, as its leader has it.

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
    """Who is eligible beside this ISR and leader, on these replicas; `distrusted` may have lost what they held."""
    trusted = {*partition.isr, *partition.elr}
    is_committing = leader != NO_BROKER and len(isr) >= minimum
    if is_committing or minimum == 0 or trusted.isdisjoint(isr):
        return NOBODY
    known = trusted.union(partition.last_known_elr).difference(isr)
    eligible = trusted.difference(isr, distrusted)
    return Eligible(
        elr=tuple(replica for replica in replicas if replica in eligible),
        last_known_elr=tuple(replica for replica in replicas if replica in known and replica not in eligible),
    )


def is_settled(image: MetadataImage, topic: TopicImage, partition: PartitionImage, defaults: TopicConfig) -> bool:
    """False for an ELR that has outlived its reason: the minimum was lowered, and the leader waits for nothing."""
    if not partition.has_leader or not (partition.elr or partition.last_known_elr):
        return True
    return len(partition.isr) < minimum_isr(image, topic.configs, partition.replicas, defaults)
