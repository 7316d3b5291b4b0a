"""The contract of an assignor: its arguments and its result.

An assignor is a pure function, and deterministic: equal arguments give equal assignments, in whatever order members and
topics are listed. Every partition of every subscribed topic is assigned to exactly one member that subscribes to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from msgspec import Struct

from kraft.model.ids import TopicId

Partition = tuple[TopicId, int]

Partitions = frozenset[Partition]

NO_PARTITIONS: Partitions = frozenset()


class Subscriber(Struct, frozen=True, kw_only=True):
    """A member as assignors see it.

    `partitions` are those that the last target assignment gave to it. The rack is for assignors to come: like Kafka's,
    those of this version do not use it.
    """

    topics: frozenset[TopicId]
    partitions: Partitions = NO_PARTITIONS
    instance_id: str | None = None
    rack_id: str | None = None


Subscribers = Mapping[str, Subscriber]
"""The members by id."""

PartitionCounts = Mapping[TopicId, int]
"""How many partitions each topic has. Topics that are not in it are not assigned."""

Assignment = dict[str, Partitions]
"""The partitions of each member, by its id. Members that get none are in it, too."""

Assignor = Callable[[Subscribers, PartitionCounts], Assignment]


def by_topic(partitions: Partitions) -> dict[TopicId, list[int]]:
    """Return the partition numbers of each topic, both in order. Ids are compared as numbers, which is much quicker."""
    numbers: dict[TopicId, list[int]] = defaultdict(list)
    for topic_id, partition in partitions:
        numbers[topic_id].append(partition)
    return {topic_id: sorted(numbers[topic_id]) for topic_id in sorted(numbers, key=attrgetter("int"))}


def subscribers_by_topic(
    subscribers: Subscribers, partition_counts: PartitionCounts, order: Iterable[str]
) -> dict[TopicId, list[str]]:
    """Return the members that subscribe to each topic that exists, in the given order of all members."""
    by_topic: dict[TopicId, list[str]] = {}
    for member_id in order:
        for topic_id in subscribers[member_id].topics:
            if topic_id in partition_counts:
                by_topic.setdefault(topic_id, []).append(member_id)
    return by_topic
