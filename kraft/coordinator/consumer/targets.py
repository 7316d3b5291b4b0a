"""The target assignment of a group, and what it depends on."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from kraft.coordinator.assignors.assignor import Subscriber
from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import Draft
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.requests import GroupSettings
from kraft.metadata.image import MetadataImage


def metadata_hash(group: ConsumerGroup, image: MetadataImage) -> int:
    """Return a number that changes with the metadata that assignments depend on; 0 without topics.

    These are the ids of the subscribed topics and how many partitions they have. Racks are left out, unlike in Kafka
    (KIP-1101), because no assignor uses them. Hashes of another program only make the group assign once more.
    """
    topics = (image.topic(name) for name in sorted(group.subscribed_topics()))
    described = [f"{topic.topic_id} {len(topic.partitions)}" for topic in topics if topic is not None]
    if not described:
        return 0
    digest = blake2b("\n".join(described).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings) -> str:
    """Return the assignor that most members ask for; of several, the first in the alphabet."""
    votes = Counter(member.server_assignor for member in group.members.values())
    asked_for = {name: count for name, count in votes.items() if name is not None and name in settings.assignors}
    if not asked_for:
        return settings.assignors[0]
    return min(asked_for, key=lambda name: (-asked_for[name], name))


def assign(draft: Draft, image: MetadataImage, settings: GroupSettings) -> None:
    """Compute the target assignment of the group's epoch, if there is none yet."""
    group = draft.group
    if group.epoch <= group.assignment_epoch:
        return
    subscribers = {
        member_id: Subscriber(
            topics=group.topic_ids_of(member, image),
            partitions=group.target(member_id),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
        for member_id, member in group.members.items()
    }
    subscribed = {topic_id for subscriber in subscribers.values() for topic_id in subscriber.topics}
    partition_counts = {topic_id: len(image.topics[topic_id].partitions) for topic_id in subscribed}
    assignment = ASSIGNORS[preferred_assignor(group, settings)](subscribers, partition_counts)
    for member_id in sorted(assignment):
        if assignment[member_id] != group.targets.get(member_id):
            draft.emit(records.target_assignment(group.group_id, member_id, assignment[member_id]))
    draft.emit(records.assignment_epoch(group.group_id, group.epoch))
