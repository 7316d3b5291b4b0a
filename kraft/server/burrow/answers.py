"""What Burrow answers, made of what we know: its field names, also where we would name a thing otherwise.

Source: Burrow's HTTP API, version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kraft.model.group_lags import UNKNOWN, GroupLag, PartitionLag, SeenCommit

Answer = dict[str, Any]


def group_status(cluster: str, group: GroupLag, partition_counts: Mapping[str, int], *, shows_all: bool) -> Answer:
    """Return the status of a group; without `shows_all`, of its partitions only those that are not OK."""
    partitions = [
        _partition(topic, number, each)
        for topic, lags in _by_topic(group, partition_counts)
        for number, each in enumerate(lags)
    ]
    complete = [each for each in partitions if each["complete"] == 1]
    return {
        "cluster": cluster,
        "group": group.group_id,
        "status": group.state,
        "complete": len(complete) / len(partitions) if partitions else 1,
        "partitions": [each for each in partitions if shows_all or each["status"] != "OK"],
        "partition_count": len(partitions),
        "maxlag": max(partitions, key=lambda each: each["current_lag"], default=None),
        "totallag": sum(each["current_lag"] for each in partitions),
    }


def group_topics(group: GroupLag, partition_counts: Mapping[str, int]) -> Answer:
    """Return the commits of a group, by topic and partition."""
    return {topic: [_commits(each) for each in lags] for topic, lags in _by_topic(group, partition_counts)}


def _by_topic(
    group: GroupLag, partition_counts: Mapping[str, int]
) -> Iterator[tuple[str, Sequence[PartitionLag | None]]]:
    """Yield each topic with a place for each partition: Burrow has one whether the group has read it or not."""
    for topic, lags in groupby(group.partitions, lambda each: each.topic):
        found = {each.partition: each for each in lags}
        count = max(partition_counts.get(topic, 0), 1 + max(found))
        yield topic, [found.get(number) for number in range(count)]


def readers(groups: Iterable[GroupLag], topic: str) -> Sequence[str]:
    """Return the groups with committed offsets of the topic."""
    return [each.group_id for each in groups if any(found.topic == topic for found in each.partitions)]


def _partition(topic: str, number: int, lag: PartitionLag | None) -> Answer:
    commits = [] if lag is None else lag.commits
    return {
        "topic": topic,
        "partition": number,
        "owner": "" if lag is None else lag.owner,
        "client_id": "" if lag is None else lag.client_id,
        "status": "OK" if lag is None else lag.state,
        "start": _commit(commits[0]) if commits else None,
        "end": _commit(commits[-1]) if commits else None,
        "current_lag": 0 if lag is None else max(0, lag.lag),
        "complete": 0 if lag is None else lag.completeness,
    }


def _commits(lag: PartitionLag | None) -> Answer:
    if lag is None:
        return {"offsets": [], "owner": "", "client_id": "", "current-lag": 0}
    commits = [_commit(each) for each in lag.commits]
    return {"offsets": commits, "owner": lag.owner, "client_id": lag.client_id, "current-lag": max(0, lag.lag)}


def _commit(commit: SeenCommit) -> Answer:
    lag = None if commit.lag == UNKNOWN else commit.lag
    return {"offset": commit.offset, "timestamp": commit.timestamp_ms, "lag": lag}
