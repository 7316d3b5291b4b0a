"""The partition that an offset of a group is for, and maps by group, topic and partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from kraft.metadata.persistent_maps import PersistentMap

Item = TypeVar("Item")


class GroupTopicPartition(NamedTuple):
    """One partition, as a group reads it."""

    group: str
    topic: str
    partition: int


ByGroupTopicPartition: TypeAlias = "PersistentMap[str, PersistentMap[str, PersistentMap[int, Item]]]"
"""Items by group, topic and partition. A group or topic without items is not in it."""


def with_items(
    items: ByGroupTopicPartition[Item], changes: Mapping[GroupTopicPartition, Item | None]
) -> ByGroupTopicPartition[Item]:
    """Return the map with these items set; None removes one."""
    by_group: dict[str, dict[str, dict[int, Item | None]]] = defaultdict(lambda: defaultdict(dict))
    for topic_partition, item in changes.items():
        by_group[topic_partition.group][topic_partition.topic][topic_partition.partition] = item
    return items.with_changes(
        {group: _with_topics(items.get(group, PersistentMap()), topics) or None for group, topics in by_group.items()}
    )


def _with_topics(
    topics: PersistentMap[str, PersistentMap[int, Item]], changes: Mapping[str, Mapping[int, Item | None]]
) -> PersistentMap[str, PersistentMap[int, Item]]:
    return topics.with_changes(
        {
            topic: topics.get(topic, PersistentMap()).with_changes(partitions) or None
            for topic, partitions in changes.items()
        }
    )
