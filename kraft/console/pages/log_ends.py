"""Where the logs of partitions end, as far as this user may know, and without waiting for those that have no leader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kraft.client import KraftError, TopicPartition
from kraft.console.asking import CLIENT_MS
from kraft.model.list_offsets import LATEST_TIMESTAMP

if TYPE_CHECKING:
    from kraft.client import Admin

NO_TOPIC: Final = "there is no such partition"
NO_LEADER: Final = "the partition has no leader now"

End = int | str
"""The next offset of the log, which is the high watermark; or why it is not known."""


def log_ends(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
    """Return the end of each log, or why it is not known. Raises KraftError."""
    wanted = set(partitions)
    if not wanted:
        return {}
    topics = admin.find_topics({each.topic for each in wanted}, timeout_ms=CLIENT_MS // 2)
    leaders = {
        TopicPartition(name, each.partition_index): each.leader_id
        for name, topic in topics.items()
        for each in topic.partitions
    }
    found: dict[TopicPartition, End] = {
        each: NO_LEADER if each in leaders else NO_TOPIC for each in wanted if leaders.get(each, -1) < 0
    }
    led = wanted - found.keys()
    outcomes = admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2) if led else {}
    found |= {
        each: str(outcome) if isinstance(outcome, KraftError) else outcome.offset for each, outcome in outcomes.items()
    }
    return found
