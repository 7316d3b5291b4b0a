"""Committed offsets in requests and responses, as consumers and the admin client use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kraft.client.arguments import checked_mapping
from kraft.client.values import OffsetAndMetadata
from kraft.model.committed_offsets import CommitPartition, CommitTopic
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition

Topic = TypeVar("Topic")

OFFSET_MAX: Final = (1 << 63) - 1
_LEADER_EPOCH_MAX: Final = (1 << 31) - 1

_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member of the group is subscribed to the topic; stop the members first",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "its metadata is longer than offset.metadata.max.bytes of the brokers",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction that commits it has not ended; try again later",
}
"""What is wrong with one partition, by its error code, and the remedy."""


def checked_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit. Raises TypeError, and ValueError, which names a partition with no valid offset."""
    checked = {}
    for partition, given in checked_mapping(offsets, "offset").items():
        if not isinstance(partition, TopicPartition):
            raise ValueError(f"{partition!r} is not a TopicPartition")
        each = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
        if not _is_number(each.offset, 0, OFFSET_MAX):
            raise ValueError(f"{partition}: {each.offset!r} is not an offset: expected a number from 0 to {OFFSET_MAX}")
        if not isinstance(each.metadata, str):
            raise ValueError(f"{partition}: the metadata {each.metadata!r} is not text")
        if not _is_number(each.leader_epoch, -1, _LEADER_EPOCH_MAX):
            raise ValueError(
                f"{partition}: {each.leader_epoch!r} is not a leader epoch: expected a number, or -1 for none"
            )
        checked[partition] = each
    return checked


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def commit_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[CommitTopic, ...]:
    return tuple(
        CommitTopic(
            name=topic,
            partitions=tuple(_commit(number, offsets[TopicPartition(topic, number)]) for number in numbers),
        )
        for topic, numbers in numbers_by_topic(offsets).items()
    )


def _commit(partition: int, committed: OffsetAndMetadata) -> CommitPartition:
    return CommitPartition(
        partition=partition,
        offset=Offset(committed.offset),
        leader_epoch=LeaderEpoch(committed.leader_epoch),
        metadata=committed.metadata,
    )


def partition_refusal(what: str, code: ErrorCode) -> Refusal:
    """Return the Refusal of one partition; `what` says what was not done."""
    reason = _REASONS.get(code)
    return Refusal(code, what if reason is None else f"{what}: {reason}")


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the partitions by topic, sorted."""
    return grouped((each.topic, each.partition) for each in sorted(partitions))


def grouped(partitions: Iterable[tuple[Topic, int]]) -> dict[Topic, tuple[int, ...]]:
    """Return the numbers of the partitions by topic, or by topic id, in the order given."""
    found: dict[Topic, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}
