"""The assignors of the classic protocol, which run in the member that leads its group.

`range` and `cooperative-sticky` compute what the coordinator's `range` and `uniform` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Final, TypeAlias
from uuid import UUID

from kraft.client.sans_io.group.consumer_protocol import MemberSubscription
from kraft.coordinator.assignors.assignor import Assignor, Subscriber
from kraft.coordinator.assignors.ranges import assign_ranges
from kraft.coordinator.assignors.uniform import assign_uniformly
from kraft.model.ids import TopicId, TopicPartition

Partitions: TypeAlias = frozenset[TopicPartition]
Subscriptions: TypeAlias = Mapping[str, MemberSubscription]
"""The subscriptions of the members by id."""

Counts: TypeAlias = Mapping[str, int]
"""How many partitions each topic has. Topics that are not in it are not assigned."""

InstanceIds: TypeAlias = Mapping[str, str | None]

Assignments: TypeAlias = dict[str, Partitions]

COOPERATIVE: Final = "cooperative-sticky"


def assign(assignor: str, subscriptions: Subscriptions, instance_ids: InstanceIds, counts: Counts) -> Assignments:
    """Return the partitions of each member."""
    return _ASSIGNORS[assignor](subscriptions, instance_ids, counts)


def _range(subscriptions: Subscriptions, instance_ids: InstanceIds, counts: Counts) -> Assignments:
    owned: Assignments = {member_id: frozenset() for member_id in subscriptions}
    return _by_coordinators(assign_ranges, subscriptions, instance_ids, counts, owned)


def _round_robin(subscriptions: Subscriptions, instance_ids: InstanceIds, counts: Counts) -> Assignments:
    """Deal the partitions of all topics out in turn; a member that does not subscribe to the topic is passed over."""
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
    turns = cycle(sorted(subscriptions, key=lambda member_id: _place(instance_ids, member_id)))
    for topic in sorted({topic for each in subscriptions.values() for topic in each.topics} & counts.keys()):
        for partition in range(counts[topic]):
            taker = next(member_id for member_id in turns if topic in subscriptions[member_id].topics)
            assigned[taker].append(TopicPartition(topic, partition))
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _cooperative_sticky(subscriptions: Subscriptions, instance_ids: InstanceIds, counts: Counts) -> Assignments:
    """Assign evenly with few moves. What another member still owns is assigned once that has given it up (KIP-429)."""
    owned = _owned(subscriptions)
    assigned = _by_coordinators(assign_uniformly, subscriptions, instance_ids, counts, owned)
    owners = {partition: member_id for member_id, partitions in owned.items() for partition in partitions}
    return {
        member_id: frozenset(each for each in partitions if owners.get(each, member_id) == member_id)
        for member_id, partitions in assigned.items()
    }


_ASSIGNORS: Final[Mapping[str, Callable[[Subscriptions, InstanceIds, Counts], Assignments]]] = {
    "range": _range,
    "roundrobin": _round_robin,
    COOPERATIVE: _cooperative_sticky,
}


def _owned(subscriptions: Subscriptions) -> Assignments:
    """Return what each member owns: of two that claim a partition, the one of the later generation, or neither."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member_id, subscription in subscriptions.items():
        for partition in subscription.owned:
            claims.setdefault(partition, []).append((subscription.generation, member_id))
    owned: dict[str, set[TopicPartition]] = {member_id: set() for member_id in subscriptions}
    for partition, claimed in claims.items():
        claimed.sort(reverse=True)
        if len(claimed) == 1 or claimed[0][0] > claimed[1][0]:
            owned[claimed[0][1]].add(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def _by_coordinators(
    assignor: Assignor, subscriptions: Subscriptions, instance_ids: InstanceIds, counts: Counts, owned: Assignments
) -> Assignments:
    """Run an assignor of the coordinator, which knows topics by their ids."""
    names = sorted({topic for each in subscriptions.values() for topic in each.topics} & counts.keys())
    ids = {name: TopicId(UUID(int=number)) for number, name in enumerate(names, start=1)}
    subscribers = {
        member_id: Subscriber(
            topics=frozenset(ids[topic] for topic in each.topics if topic in ids),
            partitions=frozenset(
                (ids[partition.topic], partition.partition) for partition in owned[member_id] if partition.topic in ids
            ),
            instance_id=instance_ids.get(member_id),
        )
        for member_id, each in subscriptions.items()
    }
    assigned = assignor(subscribers, {ids[name]: counts[name] for name in names})
    return {
        member_id: frozenset(TopicPartition(names[topic_id.int - 1], partition) for topic_id, partition in partitions)
        for member_id, partitions in assigned.items()
    }


def _place(instance_ids: InstanceIds, member_id: str) -> tuple[bool, str]:
    """Return the place of a member in the order of members, which does not change when a static one restarts."""
    instance_id = instance_ids.get(member_id)
    return (True, member_id) if instance_id is None else (False, instance_id)
