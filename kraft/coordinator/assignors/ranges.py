"""The `range` assignor: each member gets a run of successive partitions of each of its topics.

Members with the same subscription get the same numbers of topics with equally many partitions, so that topics can be
joined by key. The members are in the order of their instance ids, before those that have none, in the order of their
member ids: a static member that returns under another member id gets what it had. Nothing else is kept from the
last assignment. As in Kafka's `RangeAssignor` since 4.0.
"""

from __future__ import annotations

from kraft.coordinator.assignors.assignor import (
    Assignment,
    Partition,
    PartitionCounts,
    Subscribers,
    subscribers_by_topic,
)


def assign_ranges(subscribers: Subscribers, partition_counts: PartitionCounts) -> Assignment:
    order = sorted(subscribers, key=lambda member_id: _place(subscribers, member_id))
    assigned: dict[str, list[Partition]] = {member_id: [] for member_id in order}
    for topic_id, member_ids in subscribers_by_topic(subscribers, partition_counts, order).items():
        each, with_one_more = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for number, member_id in enumerate(member_ids):
            end = start + each + (number < with_one_more)
            assigned[member_id] += [(topic_id, partition) for partition in range(start, end)]
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _place(subscribers: Subscribers, member_id: str) -> tuple[bool, str]:
    instance_id = subscribers[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
