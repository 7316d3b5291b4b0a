"""Assignments of replicas to brokers: those of the cluster now, and whether others are possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.client import Admin

Assignment = Mapping[TopicPartition, Sequence[int]]
"""Brokers by partition, preferred leader first."""


class ReassignmentFailed(KraftError):
    """A reassignment could not be planned, started or cancelled, or only in part; one line."""


def assignment_of(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """Return the replicas of all partitions of these topics; of all topics, if none is named.

    Raises UNKNOWN_TOPIC_OR_PARTITION if one does not exist.
    """
    names = list(topics)
    # The metadata of all topics is what brokers have at hand; descriptions of them are made for whoever asks.
    found = admin.find_topics(names or None)
    if missing := sorted(set(names) - found.keys()):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {', '.join(map(repr, missing))} does not exist")
    return {
        TopicPartition(topic, partition.partition_index): list(partition.replica_nodes)
        for topic in sorted(found)
        for partition in found[topic].partitions
    }


def current_of(admin: Admin, wanted: Iterable[TopicPartition], remedy: str) -> dict[TopicPartition, list[int]]:
    """Return the current replicas. Raises ReassignmentFailed for a missing partition, Refusal for a missing topic."""
    names = sorted(wanted)
    existing = assignment_of(admin, sorted({each.topic for each in names}))
    for each in names:
        if each not in existing:
            raise ReassignmentFailed(f"partition {each} does not exist: {remedy}")
    return {each: existing[each] for each in names}


def check_brokers(admin: Admin, wanted: Assignment, current: Assignment, remedy: str) -> None:
    """Raise ReassignmentFailed for a broker that the cluster does not know.

    One that is down is accepted only if it already holds a replica of one of the partitions.
    """
    known = {broker.node_id for broker in admin.describe_cluster(topics=()).brokers}
    for replica in sorted({replica for replicas in wanted.values() for replica in replicas} - known):
        if not any(replica in replicas for replicas in current.values()):
            raise ReassignmentFailed(f"Unknown broker id {replica}: {remedy}")


def failures(doing: str, outcome: Mapping[TopicPartition, Refusal | None]) -> str:
    """Return one line about the partitions that were refused; empty if none was."""
    failed = {each: refusal for each, refusal in sorted(outcome.items()) if refusal is not None}
    reasons = "; ".join(f"{each}: {refusal.message}" for each, refusal in failed.items())
    return f"Error {doing} partition{'' if len(failed) == 1 else 's'}: {reasons}" if failed else ""
