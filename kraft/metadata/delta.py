"""What the step from one image to the next means for one broker.

A restart is the same thing: the step from the empty image to the one that the broker starts with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from kraft.model.ids import BrokerId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartition:
    """A partition that this broker holds, as it is from now on. `is_new`: it did not hold it before."""

    topic: str
    topic_id: TopicId
    state: PartitionImage
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPartition:
    """A partition to stop serving and whose files to delete. The topic id tells it from one re-created since."""

    topic: str
    topic_id: TopicId
    partition: int
    topic_is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDelta:
    """To be acted on in the order of the fields: a topic that was re-created under its name finds its place free.

    `lead`: leadership is new here, or the leader epoch, ISR or replicas changed. `follow`: new here, or the leader or
    its epoch changed; it may be without leader. `reconfigured`: topics held before and after whose configs changed.
    """

    remove: tuple[RemovedPartition, ...]
    reconfigured: tuple[TopicImage, ...]
    lead: tuple[AssignedPartition, ...]
    follow: tuple[AssignedPartition, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.reconfigured or self.lead or self.follow)


def delta(before: MetadataImage, after: MetadataImage, broker_id: BrokerId) -> BrokerDelta:
    """Compares only topics that changed: those untouched are the very same object in both images."""
    remove: list[RemovedPartition] = []
    reconfigured: list[TopicImage] = []
    lead: list[AssignedPartition] = []
    follow: list[AssignedPartition] = []
    for topic_before, topic_after in _changed_topics(before, after):
        held_before, held_after = _held(topic_before, broker_id), _held(topic_after, broker_id)
        if topic_before is not None:
            remove += _removed(topic_before, topic_after, sorted(held_before.keys() - held_after.keys()))
        if topic_after is None:
            continue
        if topic_before is not None and held_after and topic_before.configs != topic_after.configs:
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


def restart(image: MetadataImage, broker_id: BrokerId) -> BrokerDelta:
    """Everything that a broker which starts with this image has to take up."""
    return delta(EMPTY_IMAGE, image, broker_id)


def _changed_topics(
    before: MetadataImage, after: MetadataImage
) -> Iterator[tuple[TopicImage | None, TopicImage | None]]:
    if before.topics is after.topics:
        return
    for topic_id, topic in before.topics.items():
        if topic_id not in after.topics:
            yield topic, None
    for topic_id, topic in after.topics.items():
        earlier = before.topics.get(topic_id)
        if topic is not earlier:
            yield earlier, topic


def _held(topic: TopicImage | None, broker_id: BrokerId) -> dict[int, PartitionImage]:
    if topic is None:
        return {}
    return {number: state for number, state in topic.partitions.items() if broker_id in state.replicas}


def _removed(topic: TopicImage, later: TopicImage | None, partitions: list[int]) -> Iterator[RemovedPartition]:
    for partition in partitions:
        yield RemovedPartition(
            topic=topic.topic, topic_id=topic.topic_id, partition=partition, topic_is_deleted=later is None
        )


def _leadership(state: PartitionImage) -> tuple[int, int]:
    return state.leader, state.leader_epoch
