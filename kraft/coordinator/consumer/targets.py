"""The target assignment of a group: when it is computed, and from what.

It is computed once the interval since the last one has passed. Until then members go on towards the last one. Source:
KIP-1263.
"""

from __future__ import annotations

from collections import Counter

from kraft.coordinator.assignors.assignor import Partitions, Subscriber
from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import ConsumerDraft
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.shard import DecisionContext
from kraft.metadata.image import MetadataImage
from kraft.model.ids import TopicId


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings) -> str:
    """Return the assignor that most members ask for; of several, the first in the alphabet."""
    votes = Counter(member.server_assignor for member in group.members.values())
    asked_for = {name: count for name, count in votes.items() if name is not None and name in settings.assignors}
    if not asked_for:
        return settings.assignors[0]
    return min(asked_for, key=lambda name: (-asked_for[name], name))


def assign(draft: ConsumerDraft, context: DecisionContext, settings: GroupSettings) -> None:
    """Compute the target assignment if the group is due and the interval has passed.

    A large one is left to a run in a thread, which a timer without delay starts.
    """
    group = draft.group
    if not group.is_due or wait_ms(group.assignment_ms, context, settings):
        return
    if is_offloaded(group, context, settings):
        draft.start_assignment(0)
        return
    changed = changed_targets(group, context.image, settings)
    draft.emit(*(records.target_assignment(group.group_id, member_id, changed[member_id]) for member_id in changed))
    draft.emit(records.assignment_epoch(group.group_id, group.epoch, context.now_ms))


def wait_ms(assignment_ms: int, context: DecisionContext, settings: GroupSettings) -> int:
    """Return how long the next target assignment has to wait, if the last one was ready at `assignment_ms`.

    If the clock went back since, it does not wait at all.
    """
    passed_ms = context.now_ms - assignment_ms
    return max(settings.assignment_interval_ms - passed_ms, 0) if passed_ms >= 0 else 0


def is_offloaded(group: ConsumerGroup, context: DecisionContext, settings: GroupSettings) -> bool:
    """Return whether the target assignment is computed in a thread."""
    return settings.offloads_assignor and assignment_size(group, context.image) > settings.assigned_at_once_max


def assignment_size(group: ConsumerGroup, image: MetadataImage) -> int:
    """Return about how many items an assignor looks at: partitions, and topics of members."""
    return len(group.members) * len(group.topic_counts) + group.subscribed_partitions(image)


def changed_targets(group: ConsumerGroup, image: MetadataImage, settings: GroupSettings) -> dict[str, Partitions]:
    """Compute the target assignment, and return what differs from the last one, in the order of the members' ids."""
    topics: dict[tuple[int, str], frozenset[TopicId]] = {}
    subscribers = {}
    for member_id, member in group.members.items():
        # Members that subscribe to the same topics share one set of names.
        subscription = id(member.topics), member.topic_regex
        if subscription not in topics:
            topics[subscription] = group.topics_of(member, image).all()
        subscribers[member_id] = Subscriber(
            topics=topics[subscription],
            partitions=group.target(member_id),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
    subscribed = frozenset().union(*topics.values())
    partition_counts = {topic_id: len(image.topics[topic_id].partitions) for topic_id in subscribed}
    assignment = ASSIGNORS[preferred_assignor(group, settings)](subscribers, partition_counts)
    return {
        member_id: assignment[member_id]
        for member_id in sorted(assignment)
        if assignment[member_id] != group.targets.get(member_id)
    }
