"""Committed offsets in requests and responses, as consumers and the admin client use them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

from kraft.client.model.arguments import checked_mapping
from kraft.client.model.values import OffsetAndMetadata
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kraft.wire.schema.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponse, OffsetFetchResponseGroup
from kraft.wire.schema.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

Topic = TypeVar("Topic")
Partition = TypeVar("Partition", OffsetCommitRequestPartition, TxnOffsetCommitRequestPartition)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]

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


def commit_topics(offsets: Offsets) -> tuple[OffsetCommitRequestTopic, ...]:
    return tuple(
        OffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in _by_topic(OffsetCommitRequestPartition, offsets)
    )


def transactional_topics(offsets: Offsets) -> tuple[TxnOffsetCommitRequestTopic, ...]:
    """Return the topics of a commit with a transaction."""
    return tuple(
        TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
        for topic, partitions in _by_topic(TxnOffsetCommitRequestPartition, offsets)
    )


def _by_topic(kind: type[Partition], offsets: Offsets) -> Iterator[tuple[str, tuple[Partition, ...]]]:
    for topic, numbers in numbers_by_topic(offsets).items():
        yield topic, tuple(_commit(kind, number, offsets[TopicPartition(topic, number)]) for number in numbers)


def _commit(kind: type[Partition], number: int, committed: OffsetAndMetadata) -> Partition:
    return kind(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def check_committed(response: OffsetCommitResponse | TxnOffsetCommitResponse, accepted: Container[int] = ()) -> None:
    """Raise the Refusal of the first partition that was not committed, unless its code is accepted."""
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code != ErrorCode.NONE and result.error_code not in accepted:
                what = f"the offset of {topic.name}-{result.partition_index} was not committed"
                raise partition_refusal(what, error_code(result.error_code))


def fetch_topics(partitions: Iterable[TopicPartition]) -> tuple[OffsetFetchRequestTopics, ...]:
    return tuple(
        OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
        for topic, numbers in numbers_by_topic(partitions).items()
    )


def fetched_offsets(group: OffsetFetchResponseGroup) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offset of each partition that has one."""
    return {
        TopicPartition(topic.name, each.partition_index): OffsetAndMetadata(
            Offset(each.committed_offset), each.metadata or "", LeaderEpoch(each.committed_leader_epoch)
        )
        for topic in group.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def check_fetched(response: OffsetFetchResponse) -> None:
    """Raise the Refusal of the first group or partition whose offsets were not fetched."""
    for group in response.groups:
        check_fetched_group(group)


def check_fetched_group(group: OffsetFetchResponseGroup) -> None:
    """Raise the Refusal of the group, or of its first partition whose offset was not fetched."""
    if group.error_code:
        raise Refusal(error_code(group.error_code), f"the committed offsets of group {group.group_id} were not fetched")
    for topic in group.topics:
        for each in topic.partitions:
            if each.error_code:
                what = f"the committed offset of {topic.name}-{each.partition_index} was not fetched"
                raise partition_refusal(what, error_code(each.error_code))


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
