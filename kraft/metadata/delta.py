"""The delta between two images, as one broker sees it.

A start is the delta between the empty image and the one that the broker starts with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.persistent_maps import PersistentMap, PersistentSequence
from kraft.model.ids import BrokerId, TopicId, TopicIdPartition, TopicPartition


class AssignedPartition(Struct, frozen=True, kw_only=True):
    """Partition that this broker holds, in its new state. `is_new`: the broker did not hold it before."""

    topic: str
    topic_id: TopicId
    state: PartitionImage
    is_new: bool

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.state.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.state.partition)


class RemovedPartition(Struct, frozen=True, kw_only=True):
    """Partition to stop serving and whose files to delete. The topic id distinguishes it from one created later."""

    topic: str
    topic_id: TopicId
    partition: int

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)


class BrokerDelta(Struct, frozen=True, kw_only=True):
    """Changes for one broker, to be applied in the order of the fields, so that the name of a deleted topic is free.

    `lead`: partitions whose leadership is new here, or whose leader epoch, ISR or replicas changed. `follow`:
    partitions that are new here, or whose leader or leader epoch changed; they may have no leader. `reconfigured`:
    topics held before and after whose configs changed.
    """

    remove: tuple[RemovedPartition, ...]
    reconfigured: tuple[TopicImage, ...]
    lead: tuple[AssignedPartition, ...]
    follow: tuple[AssignedPartition, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.reconfigured or self.lead or self.follow)


def delta(before: MetadataImage, after: MetadataImage, broker_id: BrokerId) -> BrokerDelta:
    """Return what changed for the broker. Unchanged topics and partitions are the same objects in both images."""
    remove: list[RemovedPartition] = []
    reconfigured: list[TopicImage] = []
    lead: list[AssignedPartition] = []
    follow: list[AssignedPartition] = []
    for topic_before, topic_after in _changed_topics(before, after):
        held_before, held_after = _held_of_changed(topic_before, topic_after, broker_id)
        if topic_before is not None:
            remove += [
                RemovedPartition(topic=topic_before.topic, topic_id=topic_before.topic_id, partition=number)
                for number in sorted(held_before.keys() - held_after.keys())
            ]
        if topic_after is None:
            continue
        if topic_before is not None and topic_before.configs != topic_after.configs and _holds(topic_after, broker_id):
            reconfigured.append(topic_after)
        for number, state in held_after.items():
            earlier = held_before.get(number)
            assigned = AssignedPartition(
                topic=topic_after.topic, topic_id=topic_after.topic_id, state=state, is_new=earlier is None
            )
            if state.leader == broker_id:
                if state != earlier:
                    lead.append(assigned)
            elif earlier is None or _leadership(state) != _leadership(earlier):
                follow.append(assigned)
    return BrokerDelta(remove=tuple(remove), reconfigured=tuple(reconfigured), lead=tuple(lead), follow=tuple(follow))


def _changed_topics(
    before: MetadataImage, after: MetadataImage
) -> Iterator[tuple[TopicImage | None, TopicImage | None]]:
    if before.topics is after.topics:
        return
    changed = list(PersistentMap.of(after.topics).differing_keys(before.topics))
    # Deleted topics come first, so that the name of one that was created again is free.
    for topic_id in changed:
        if topic_id not in after.topics:
            yield before.topics[topic_id], None
    for topic_id in changed:
        if topic_id in after.topics:
            yield before.topics.get(topic_id), after.topics[topic_id]


def _held_of_changed(
    before: TopicImage | None, after: TopicImage | None, broker_id: BrokerId
) -> tuple[dict[int, PartitionImage], dict[int, PartitionImage]]:
    """Return the changed partitions that the broker holds, before and after."""
    if before is None or after is None:
        return _held(before, broker_id), _held(after, broker_id)
    changed = list(PersistentSequence.of(after.partitions).differing_keys(before.partitions))
    return _held(before, broker_id, changed), _held(after, broker_id, changed)


def _held(
    topic: TopicImage | None, broker_id: BrokerId, numbers: Iterable[int] | None = None
) -> dict[int, PartitionImage]:
    if topic is None:
        return {}
    partitions = topic.partitions
    states = partitions.items() if numbers is None else ((n, partitions[n]) for n in numbers if n in partitions)
    return {number: state for number, state in states if broker_id in state.replicas}


def _holds(topic: TopicImage, broker_id: BrokerId) -> bool:
    return any(broker_id in state.replicas for state in topic.partitions.values())


def _leadership(state: PartitionImage) -> tuple[int, int]:
    return state.leader, state.leader_epoch
