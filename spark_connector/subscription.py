"""Subscription of a query: topics by name or by pattern, or partitions."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster, Topic, TopicMissing
from spark_connector.patience import Patience

MISSING_TOPIC_GRACE_S: Final = 3.0
"""Time for which a topic may be unknown before it counts as missing: a broker may learn of it late after its start."""

_POLL_S: Final = 0.2

_INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__audit")

_log = logging.getLogger("spark_connector")


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of these topics, and those that they get later."""

    names: tuple[str, ...]

    def found(self, cluster: Cluster) -> dict[str, Topic]:
        """Return those of the topics that exist, with the partitions to read."""
        return cluster.topics(self.names)

    def missing(self, found: Mapping[str, Topic]) -> list[str]:
        return [name for name in self.names if name not in found]

    def includes(self, partition: TopicPartition) -> bool:
        return partition.topic in self.names


@dataclass(frozen=True, slots=True)
class Pattern:
    """All topics, present and future, whose whole name matches; not Kafka's internal ones."""

    regex: str

    def found(self, cluster: Cluster) -> dict[str, Topic]:
        pattern = re.compile(self.regex)
        topics = cluster.topics(None)
        return {name: topic for name, topic in topics.items() if self._matches(pattern, name)}

    def missing(self, found: Mapping[str, Topic]) -> list[str]:
        return []

    def includes(self, partition: TopicPartition) -> bool:
        return self._matches(re.compile(self.regex), partition.topic)

    def matched_in_part(self, cluster: Cluster) -> list[str]:
        """Return topics with a match only inside their name: Spark's Kafka source reads them, too."""
        pattern = re.compile(self.regex)
        return sorted(
            name for name in cluster.topics(None) if pattern.search(name) and not self._matches(pattern, name)
        )

    @staticmethod
    def _matches(pattern: re.Pattern[str], name: str) -> bool:
        return name not in _INTERNAL_TOPICS and pattern.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions only."""

    partitions: frozenset[TopicPartition]

    def found(self, cluster: Cluster) -> dict[str, Topic]:
        topics = cluster.topics(sorted({each.topic for each in self.partitions}))
        return {
            name: Topic(
                topic_id=topic.topic_id,
                partitions=tuple(
                    number for number in topic.partitions if TopicPartition(name, number) in self.partitions
                ),
            )
            for name, topic in topics.items()
        }

    def missing(self, found: Mapping[str, Topic]) -> list[str]:
        return [
            str(each)
            for each in sorted(self.partitions)
            if each.topic not in found or each.partition not in found[each.topic].partitions
        ]

    def includes(self, partition: TopicPartition) -> bool:
        return partition in self.partitions


Subscription: TypeAlias = Topics | Pattern | Assigned


def at_start(subscription: Subscription, cluster: Cluster) -> dict[str, Topic]:
    """Return the topics that a query starts with. Raises TopicMissing if one is still unknown after the grace."""
    _warn_of_partial_matches(subscription, cluster)
    found = Patience(settle_s=MISSING_TOPIC_GRACE_S, poll_s=_POLL_S).settled(
        lambda: subscription.found(cluster), lambda found: not subscription.missing(found)
    )
    if missing := subscription.missing(found):
        raise TopicMissing(missing[0], is_partition=isinstance(subscription, Assigned))
    return found


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name, topic in sorted(topics.items()) for number in topic.partitions]


def _warn_of_partial_matches(subscription: Subscription, cluster: Cluster) -> None:
    if isinstance(subscription, Pattern) and (names := subscription.matched_in_part(cluster)):
        _log.warning("topics not read: subscribePattern=%s matches only a part of %s", subscription.regex, names)
