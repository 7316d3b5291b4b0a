"""The `uniform` assignor: members get equally many partitions, and keep as many of those they had as that allows.

Three steps: members keep what they still subscribe to; each free partition goes to the subscriber of its topic that has
the fewest; then partitions move, topic after topic, from the subscriber that has the most to the one that has the
fewest, while that evens them out.

Of members with the same subscription, none ends with two partitions more than another, and no partition has moved that
could have stayed. Where subscriptions overlap, that holds among the subscribers of each topic, or nearly so: the rounds
over the topics are limited, as in Kafka's `UniformHeterogeneousAssignmentBuilder`. A round is enough for members with
the same subscription, so that no second algorithm is needed for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from kraft.coordinator.assignors.assignor import (
    Assignment,
    PartitionCounts,
    Subscribers,
    subscribers_by_topic,
)
from kraft.model.ids import TopicId

_ROUNDS_MAX: Final = 16


def assign_uniformly(subscribers: Subscribers, partition_counts: PartitionCounts) -> Assignment:
    by_topic = subscribers_by_topic(subscribers, partition_counts, sorted(subscribers))
    topics = sorted(
        by_topic, key=lambda topic_id: _scarcity(partition_counts[topic_id], len(by_topic[topic_id]), topic_id)
    )
    draft = _AssignmentDraft(subscribers, partition_counts, by_topic)
    for topic_id in topics:
        draft.hand_out(topic_id)
    for _ in range(_ROUNDS_MAX):
        # Every topic is tried in each round.
        if not sum(draft.even_out(topic_id) for topic_id in topics):
            break
    return draft.assignment()


def _scarcity(partitions: int, subscribers: int, topic_id: TopicId) -> tuple[float, int, int]:
    """Return the place of a topic: those that leave the least choice come first."""
    return -partitions / subscribers, subscribers, topic_id.int


class _AssignmentDraft:
    """An assignment in the making."""

    def __init__(
        self, subscribers: Subscribers, partition_counts: PartitionCounts, by_topic: dict[TopicId, list[str]]
    ) -> None:
        self._by_topic = by_topic
        self._sizes = dict.fromkeys(subscribers, 0)
        self._owners: dict[TopicId, list[str | None]] = {
            topic_id: [None] * partition_counts[topic_id] for topic_id in by_topic
        }
        for member_id in sorted(subscribers):
            self._keep(member_id, subscribers)

    def _keep(self, member_id: str, subscribers: Subscribers) -> None:
        subscriber = subscribers[member_id]
        for topic_id, partition in subscriber.partitions:
            owners: Sequence[str | None] = self._owners.get(topic_id, ()) if topic_id in subscriber.topics else ()
            if partition < len(owners) and owners[partition] is None:
                self._own(topic_id, partition, member_id)

    def _own(self, topic_id: TopicId, partition: int, member_id: str) -> None:
        before = self._owners[topic_id][partition]
        if before is not None:
            self._sizes[before] -= 1
        self._owners[topic_id][partition] = member_id
        self._sizes[member_id] += 1

    def hand_out(self, topic_id: TopicId) -> None:
        """Give each free partition to the subscriber that has the fewest."""
        free = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner is None]
        if free:
            fewest = self._by_size(topic_id)
            for partition in free:
                member_id = fewest[0][1]
                self._own(topic_id, partition, member_id)
                heapreplace(fewest, (self._sizes[member_id], member_id))

    def even_out(self, topic_id: TopicId) -> int:
        """Move partitions from the subscriber that has the most to the one that has the fewest; return how many."""
        sizes = self._sizes
        if len({sizes[member_id] for member_id in self._by_topic[topic_id]}) == 1:
            return 0
        owned: dict[str, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            assert owner is not None, f"partition {partition} of {topic_id} was not handed out"
            owned.setdefault(owner, []).append(partition)
        # Members that get partitions here are the ones with the fewest, so that none of them will have to give.
        most = [(-sizes[member_id], member_id) for member_id in owned]
        heapify(most)
        fewest = self._by_size(topic_id)
        moved = 0
        while most:
            giver = most[0][1]
            size, taker = fewest[0]
            if size != sizes[taker]:
                # It gave a partition since.
                heapreplace(fewest, (sizes[taker], taker))
            elif sizes[giver] - size <= 1:
                break
            else:
                self._own(topic_id, owned[giver].pop(), taker)
                moved += 1
                heapreplace(fewest, (sizes[taker], taker))
                heappop(most)
                if owned[giver]:
                    heappush(most, (-sizes[giver], giver))
        return moved

    def _by_size(self, topic_id: TopicId) -> list[tuple[int, str]]:
        heap = [(self._sizes[member_id], member_id) for member_id in self._by_topic[topic_id]]
        heapify(heap)
        return heap

    def assignment(self) -> Assignment:
        assigned: dict[str, list[tuple[TopicId, int]]] = {member_id: [] for member_id in self._sizes}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None, f"partition {partition} of {topic_id} was not handed out"
                assigned[owner].append((topic_id, partition))
        return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
