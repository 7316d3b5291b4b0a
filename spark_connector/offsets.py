"""Offsets of a query: their JSON form for Spark's checkpoint, and the limit of one micro-batch.

Spark stores the JSON verbatim, passes it back after a restart and compares two offsets as text. So the JSON has a
version, and equal offsets always give the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraft.client import TopicPartition

VERSION = 1


Offsets = Mapping[TopicPartition, int]
"""The next offset to read in each partition."""


class OffsetsError(ValueError):
    """JSON without valid offsets, or with those of another version of this connector."""


def to_checkpoint(offsets: Offsets, *, began: Offsets | None = None) -> dict[str, Any]:
    """Return offsets as `{"version": 1, "topics": {"orders": {"0": 12}}}`, always in the same order.

    `began` is stored with the end of a query's first micro-batch and says where that batch begins. Spark stores only
    the ends: to repeat the first batch after a failure, it asks for the initial offset again, and by then both latest
    and earliest may have moved.
    """
    document = {"version": VERSION, "topics": _to_topics(offsets)}
    return document if began is None else document | {"began": _to_topics(began)}


def _to_topics(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for each, offset in sorted(offsets.items()):
        topics.setdefault(each.topic, {})[str(each.partition)] = offset
    return topics


def beginning_of_batch(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return where the micro-batch from `start` to `end` begins: at `start`, unless `end` has `began`."""
    if "began" in end and start != end:
        return from_topics(end["began"])
    return from_checkpoint(start)


def from_checkpoint(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the offsets that `to_checkpoint` wrote. Raises OffsetsError for anything else."""
    version = document.get("version")
    if version != VERSION:
        raise OffsetsError(
            f"the checkpoint has Kraft offsets of version {version!r}, but this connector reads version {VERSION}: "
            "continue the query with the connector that wrote them, or start it with a new checkpoint"
        )
    return from_topics(document.get("topics"))


def from_topics(document: object) -> dict[TopicPartition, int]:
    """Return the offsets in `{"orders": {"0": 12}}`, the form that Spark's users write. Raises OffsetsError."""
    if not isinstance(document, dict):
        raise OffsetsError(f'expected {{"topic": {{"0": 12}}}}, not {document!r}')
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OffsetsError(f'expected {{"{topic}": {{"0": 12}}}}, not {partitions!r} for topic {topic!r}')
        for partition, offset in partitions.items():
            offsets[TopicPartition(topic, _partition_number(topic, partition))] = _offset(topic, partition, offset)
    return offsets


def _partition_number(topic: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise OffsetsError(f"{text!r} is not a partition number of topic {topic!r}")
    return int(text)


def _offset(topic: str, partition: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise OffsetsError(f"{value!r} is not an offset of partition {topic}-{partition}")
    return value


def limited(begin: Offsets, latest: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """Return the end of a micro-batch of about `records_max` records, shared in proportion to each partition's rest.

    A partition with few records left gets at least one, so that the large ones never starve it; the batch may exceed
    `records_max` by that. Spark's Kafka source does the same.
    """
    left = {partition: end - begin.get(partition, 0) for partition, end in latest.items()}
    total = sum(count for count in left.values() if count > 0)
    if total <= records_max:
        return dict(latest)
    limits = dict(latest)
    for partition, count in left.items():
        if count > 0:
            share = max(1, records_max * count // total)
            limits[partition] = begin.get(partition, 0) + min(count, share)
    return limits
