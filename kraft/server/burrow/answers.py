"""What Burrow answers, made of what we know: its field names, also where we would name a thing otherwise.

Source: Burrow's HTTP API, version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kraft.model.group_lags import UNKNOWN, GroupLag, PartitionLag, SeenCommit

Answer = dict[str, Any]


def group_status(cluster: str, group: GroupLag, *, shows_all: bool) -> Answer:
    """Return the status of a group; without `shows_all`, of its partitions only those that are not OK."""
    known = [each for each in group.partitions if each.lag != UNKNOWN]
    complete = [each for each in group.partitions if each.completeness == 1]
    worst = max(known, key=lambda each: each.lag, default=None)
    return {
        "cluster": cluster,
        "group": group.group_id,
        "status": group.state,
        "complete": len(complete) / len(group.partitions) if group.partitions else 1,
        "partitions": [_partition(each) for each in group.partitions if shows_all or each.state != "OK"],
        "partition_count": len(group.partitions),
        "maxlag": None if worst is None else _partition(worst),
        "totallag": sum(each.lag for each in known),
    }


def group_topics(group: GroupLag) -> Answer:
    """Return the commits of a group, by topic and partition."""
    topics: dict[str, list[Answer]] = {}
    for each in group.partitions:
        partitions = topics.setdefault(each.topic, [])
        # Burrow's lists have a place for each partition, whether the group has read it or not.
        partitions += ({"offsets": [], "owner": "", "current-lag": 0} for _ in range(len(partitions), each.partition))
        commits = [_commit(seen) for seen in each.commits]
        partitions.append({"offsets": commits, "owner": "", "current-lag": max(0, each.lag)})
    return topics


def readers(groups: Iterable[GroupLag], topic: str) -> Sequence[str]:
    """Return the groups with committed offsets of the topic."""
    return [each.group_id for each in groups if any(found.topic == topic for found in each.partitions)]


def _partition(lag: PartitionLag) -> Answer:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "owner": "",
        "client_id": "",
        "status": lag.state,
        "start": _commit(lag.commits[0]) if lag.commits else None,
        "end": _commit(lag.commits[-1]) if lag.commits else None,
        "current_lag": max(0, lag.lag),
        "complete": lag.completeness,
    }


def _commit(commit: SeenCommit) -> Answer:
    lag = None if commit.lag == UNKNOWN else commit.lag
    return {"offset": commit.offset, "timestamp": commit.timestamp_ms, "lag": lag}
