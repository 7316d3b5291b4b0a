"""Positions of a query: offsets and topic ids, in the JSON form of Spark's checkpoint.

Spark stores the JSON verbatim, passes it back after a restart and compares two positions as text. So the JSON has a
version, and equal positions always give the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.client import TopicPartition

VERSION: Final = 2
"""Version 1 had no topic ids, and dropped partitions that were missing for a moment. It is read, and replaced."""

LONG_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1
_SHOWN_MAX: Final = 80


Offsets = Mapping[TopicPartition, int]
"""The next offset to read in each partition."""


class OffsetsError(ValueError):
    """JSON without valid offsets, or with those of another version of this connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a query stands: between two micro-batches."""

    offsets: Offsets
    """Also of partitions that do not exist at the moment, so that one that reappears is not read again."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Empty for topics of a checkpoint of version 1."""
    skipped: Offsets = field(default_factory=dict)
    """Number of records of each partition that were deleted before the query read them, since it started."""
    deleted_while_read: Offsets = field(default_factory=dict)
    """Number of records that were deleted between the planning of their micro-batch and that of the next one. Tasks
    may have read them before; if not, they log it."""
    began: Offsets = field(default_factory=dict)
    """Where the micro-batch that ends here begins, for partitions that do not begin where the last one ended."""
    is_initial: bool = False
    """True before the first micro-batch. Spark does not store this position."""
    group_id: str | None = None
    """Generated group in which the query shows its progress."""

    def to_json(self) -> dict[str, Any]:
        """Return `{"version": 2, "topics": {"orders": {"0": 12}}, "ids": {"orders": "..."}}`, and what else is set."""
        document: dict[str, Any] = {"version": VERSION, "topics": _to_topics(self.offsets)}
        if self.topic_ids:
            document["ids"] = dict(sorted(self.topic_ids.items()))
        for name, counts in (
            ("skipped", self.skipped),
            ("deletedWhileRead", self.deleted_while_read),
            ("began", self.began),
        ):
            if counts:
                document[name] = _to_topics(counts)
        if self.is_initial:
            document["initial"] = True
        if self.group_id is not None:
            document["group"] = self.group_id
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        """Return the position that `to_json` wrote, or version 1. Raises OffsetsError for anything else."""
        if "version" not in document:
            raise OffsetsError(
                "the checkpoint's offsets are not of Kraft: python -m spark_connector.kafka_checkpoint OLD NEW moves "
                "those of Spark's Kafka source; otherwise start the query with a new checkpoint"
            )
        version = document.get("version")
        if version not in (1, VERSION) or isinstance(version, bool):
            raise OffsetsError(
                f"the checkpoint has Kraft offsets of version {version!r}, but this connector reads versions 1 and "
                f"{VERSION}: continue the query with the connector that wrote them, or start it with a new checkpoint"
            )
        offsets = from_topics(document.get("topics"))
        began = from_topics(document.get("began", {}))
        if version == 1 and began:
            # Version 1 left out partitions that were new in the query's first micro-batch.
            began = {partition: began.get(partition, 0) for partition in offsets}
        group_id = document.get("group")
        return cls(
            offsets=offsets,
            topic_ids=_topic_ids(document.get("ids", {})),
            skipped=from_topics(document.get("skipped", {})),
            deleted_while_read=from_topics(document.get("deletedWhileRead", {})),
            began=began,
            is_initial=document.get("initial") is True,
            group_id=group_id if isinstance(group_id, str) else None,
        )


def beginning_of_batch(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return where each partition begins in the micro-batch from `start` to `end`, both as JSON.

    Spark stores only the ends: to repeat the first batch after a failure, it asks for the initial position again, and
    by then both latest and earliest may have moved. So the end has the beginnings that its start does not have.
    """
    if start == end:
        # The batch has records of another source of the query.
        return dict(Position.from_json(start).offsets)
    return {**Position.from_json(start).offsets, **Position.from_json(end).began}


def added(counts: Offsets, more: Offsets) -> dict[TopicPartition, int]:
    """Return the sums by partition."""
    return {partition: counts.get(partition, 0) + more.get(partition, 0) for partition in {**counts, **more}}


def from_topics(document: object) -> dict[TopicPartition, int]:
    """Return the numbers in `{"orders": {"0": 12}}`, the form that Spark's users write. Raises OffsetsError."""
    if not isinstance(document, dict):
        raise OffsetsError(f'{shown(document)} is not like {{"topic": {{"0": 12}}}}')
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OffsetsError(f'{shown(partitions)} for topic {topic!r} is not like {{"0": 12}}')
        for partition, offset in partitions.items():
            offsets[_named_partition(topic, partition)] = _offset(topic, partition, offset)
    return offsets


def partitions_from(document: object) -> tuple[TopicPartition, ...]:
    """Return the partitions in `{"orders": [0, 1]}`, sorted. Raises OffsetsError."""
    if not isinstance(document, dict):
        raise OffsetsError(f'{shown(document)} is not like {{"topic": [0, 1]}}')
    partitions: set[TopicPartition] = set()
    for topic, numbers in document.items():
        if not isinstance(numbers, list) or not numbers:
            raise OffsetsError(f"{shown(numbers)} for topic {topic!r} is not like [0, 1]")
        for number in numbers:
            if type(number) is not int or not 0 <= number <= _PARTITION_MAX:
                raise OffsetsError(f"{shown(number)} is not a partition number of topic {topic!r}")
            partitions.add(TopicPartition(topic, number))
    if not partitions:
        raise OffsetsError("there is no partition")
    return tuple(sorted(partitions))


def _to_topics(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for each, offset in sorted(offsets.items()):
        topics.setdefault(each.topic, {})[str(each.partition)] = offset
    return topics


def _topic_ids(document: object) -> dict[str, str]:
    if not isinstance(document, dict) or not all(isinstance(topic_id, str) for topic_id in document.values()):
        raise OffsetsError(f"{shown(document)} are not topic ids")
    return dict(document)


def _named_partition(topic: str, text: str) -> TopicPartition:
    # One number has one text, so that no partition is given twice.
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and text == str(int(text))):
        raise OffsetsError(f"{shown(text)} is not a partition number of topic {topic!r}")
    if int(text) > _PARTITION_MAX:
        raise OffsetsError(f"{text} is above the largest partition number, {_PARTITION_MAX}, in topic {topic!r}")
    return TopicPartition(topic, int(text))


def _offset(topic: str, partition: str, value: object) -> int:
    if type(value) is not int:
        raise OffsetsError(f"{shown(value)} is not an offset of partition {topic}-{partition}")
    return value


def shown(value: object) -> str:
    """Return a wrong value as an error shows it: on one line, and not longer than a reader needs."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
