"""Counts of what this broker has done with its replicas since the process began: plain integers, which others read."""

from __future__ import annotations

from kraft.model.ids import BrokerId


class BrokerCounts:
    """Counts of all replicas together, and those of each topic that has replicas here."""

    __slots__ = (
        "fetches_waiting",
        "isr_expands",
        "isr_shrinks",
        "replica_fetches_waiting",
        "replication_bytes_in",
        "replication_bytes_out",
        "topics",
    )

    def __init__(self) -> None:
        self.isr_shrinks = 0
        """Changes of an ISR that this broker led to a smaller one."""
        self.isr_expands = 0
        self.replication_bytes_in = 0
        """Bytes that were copied from leaders."""
        self.replication_bytes_out = 0
        """Bytes that followers were sent."""
        self.fetches_waiting = 0
        """Clients' fetches that wait for records or for room now."""
        self.replica_fetches_waiting = 0
        self.topics: dict[str, TopicCounts] = {}

    def replica_added(self, topic: str) -> TopicCounts:
        """Return the counts of a topic, which its replicas share."""
        counts = self.topics.get(topic)
        if counts is None:
            counts = self.topics[topic] = TopicCounts(self)
        counts.replicas += 1
        return counts

    def replica_removed(self, topic: str) -> None:
        """Forget the counts of a topic that has no replica here any more."""
        counts = self.topics[topic]
        counts.replicas -= 1
        if not counts.replicas:
            del self.topics[topic]


class TopicCounts:
    """Counts of one topic on this broker."""

    __slots__ = (
        "appends",
        "broker",
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "replicas",
    )

    def __init__(self, broker: BrokerCounts) -> None:
        self.broker = broker
        self.replicas = 0
        self.appends = 0
        """Appends as the leader: one for each partition of a request."""
        self.failed_produces = 0
        """Partitions of produce requests that were refused."""
        self.bytes_in = 0
        self.messages_in = 0
        self.fetches = 0
        """Partitions of answered fetches, also of those without records."""
        self.failed_fetches = 0
        self.bytes_out = 0

    def isr_changed(self, before: tuple[BrokerId, ...], after: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        """Count the change, and return the ISR after it."""
        self.broker.isr_shrinks += len(after) < len(before)
        self.broker.isr_expands += len(after) > len(before)
        return after
