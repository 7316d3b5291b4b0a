"""Compares the position of a query with what the cluster shows.

A broker's metadata may be behind after its restart, and the high watermark of a new leader is behind for a moment. So a
difference that would be a loss gets some time to pass, before it is taken for one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster, Missing, Topic
from spark_connector.offsets import Offsets, Position
from spark_connector.patience import Patience
from spark_connector.subscription import Subscription, Topics, partitions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The partitions of a query as the cluster shows them at one moment."""

    topics: Mapping[str, Topic]
    latest: Offsets

    @property
    def topic_ids(self) -> dict[str, str]:
        return {name: topic.topic_id for name, topic in self.topics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Parts of a position that a view lacks."""

    missing: frozenset[str]
    """Subscribed topics that do not exist."""
    absent: frozenset[TopicPartition]
    """Partitions with an offset that do not exist."""
    recreated: frozenset[str]
    """Topics that have another id."""
    behind: frozenset[TopicPartition]
    """Partitions that end below the offset."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.absent or self.recreated or self.behind)


NO_DIFFERENCES: Final = Differences(missing=frozenset(), absent=frozenset(), recreated=frozenset(), behind=frozenset())


def look(cluster: Cluster, subscription: Subscription) -> View:
    """Return the present view, of one request for metadata and one look-up of offsets. Raises Missing."""
    topics = subscription.found(cluster)
    partitions = partitions_of(topics)
    return View(topics=topics, latest=cluster.latest_offsets(partitions) if partitions else {})


def differences(view: View, position: Position, subscription: Subscription) -> Differences:
    """Return what the view lacks of the position, as far as the query still reads it."""
    ids = view.topic_ids
    recreated = {name for name, topic_id in position.topic_ids.items() if ids.get(name, topic_id) != topic_id}
    known = {
        partition: offset
        for partition, offset in position.offsets.items()
        if partition.topic not in recreated and subscription.includes(partition)
    }
    return Differences(
        missing=frozenset(subscription.missing(view.topics) if isinstance(subscription, Topics) else ()),
        absent=frozenset(set(known) - set(view.latest)),
        recreated=frozenset(recreated),
        behind=frozenset(each for each, offset in known.items() if view.latest.get(each, offset) < offset),
    )


class Observer:
    """Looks at the cluster until differences have passed, or count."""

    def __init__(self, subscription: Subscription, patience: Patience) -> None:
        self._subscription = subscription
        self._patience = patience
        self._known_missing: set[str | TopicPartition] = set()
        """Topics and partitions that are known to be missing: they are not waited for at every trigger."""
        self._topics: dict[str, Topic] = {}
        self._topics_until = 0.0
        """Until then, an idle query does without asking for its topics again."""

    def settled(self, cluster: Cluster, position: Position) -> tuple[View, Differences]:
        """Return a view and what it lacks, without what was missing before. Raises Missing."""
        if time.monotonic() < self._topics_until and (idle := self._idle(cluster, position)) is not None:
            return idle, NO_DIFFERENCES

        def try_to_look() -> View | Missing:
            try:
                return look(cluster, self._subscription)
            except Missing as missing:
                # The topic was deleted between the two requests.
                return missing

        seen = self._patience.settled(
            try_to_look, lambda seen: isinstance(seen, View) and not self._new_differences(seen, position)
        )
        if isinstance(seen, Missing):
            raise seen
        found = self._new_differences(seen, position)
        still = differences(seen, position, self._subscription)
        self._known_missing = {*still.missing, *still.absent}
        self._topics = dict(seen.topics)
        self._topics_until = time.monotonic() + self._patience.topics_age_s
        return seen, found

    def _idle(self, cluster: Cluster, position: Position) -> View | None:
        """Return a view of the known topics if there is nothing new in them, from one look-up; otherwise None."""
        partitions = partitions_of(self._topics)
        try:
            latest = cluster.latest_offsets(partitions) if partitions else {}
        except Missing:
            return None
        if any(position.offsets.get(each) != end for each, end in latest.items()):
            return None
        return View(topics=self._topics, latest=latest)

    def _new_differences(self, view: View, position: Position) -> Differences:
        found = differences(view, position, self._subscription)
        return Differences(
            missing=found.missing - self._known_missing,
            absent=found.absent - self._known_missing,
            recreated=found.recreated,
            behind=found.behind,
        )
