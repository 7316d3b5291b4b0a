"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: the committed offsets of groups.

Offsets are committed and deleted for partitions that exist. They are fetched for any: offsets may outlive their topic.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.commands import CommitOffsets, CommitTransactionOffsets
from kraft.coordinator.groups.queries import check_fetch
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.offsets.fetch import fetch, fetch_stable
from kraft.metadata.image import MetadataImage
from kraft.model.committed_offsets import (
    NO_OFFSET,
    CommitTopic,
    DeleteOffsets,
    DeleteTopic,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    FetchGroup,
    FetchTopic,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetResults,
    PartitionResult,
    TopicResult,
    TxnOffsetCommitRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.rpc.call import Served
from kraft.rpc.group_calls import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, TXN_OFFSET_COMMIT
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.loop.turns import Turns

PARTITIONS_AT_ONCE: Final = 500
"""Partitions fetched before other tasks have their turn."""

Topic = TypeVar("Topic", CommitTopic, DeleteTopic)

COMMITTED_AT_ONCE: Final = 1_000
"""Partitions whose offsets are committed or deleted in one decision, which takes about 10 us for each."""


class CommittedOffsetsHandler:
    def __init__(self, coordinators: GroupCoordinators, image: Callable[[], MetadataImage]) -> None:
        self._coordinators = coordinators
        self._image = image

    async def commit(self, command: CommitOffsets | CommitTransactionOffsets) -> OffsetResults:
        """Commit the offsets of the partitions that exist, in a transaction or without; some at a time.

        Raises the Refusal of the request as a whole, after which offsets may have been committed, as by an earlier one.
        """
        turns, codes = Turns(COMMITTED_AT_ONCE), list[ErrorCode]()
        for topics in _in_parts(command.topics):
            part = replace(command, topics=topics)
            codes += await self._commit_part(part)
            await turns.done(sum(len(topic.partitions) for topic in topics))
        left = iter(codes)
        return OffsetResults(topics=tuple(_result(topic, left) for topic in command.topics))

    async def _commit_part(self, command: CommitOffsets | CommitTransactionOffsets) -> list[ErrorCode]:
        """Commit offsets of so few partitions that it is one decision; return the error code of each."""
        found = [self._find(topic.name, topic.topic_id) for topic in command.topics]
        existing = [
            replace(
                topic,
                name=known.name,
                topic_id=known.topic_id,
                partitions=tuple(each for each in topic.partitions if each.partition in known.partitions),
            )
            for topic, known in zip(command.topics, found, strict=True)
        ]
        asked = tuple(topic for topic in existing if topic.partitions)
        # As in Kafka, a request without a partition that exists is answered without its group.
        decided = await self._coordinators.decide(command.group_id, replace(command, topics=asked)) if asked else ()
        codes = _codes(decided)
        return [
            next(codes) if each.partition in known.partitions else known.missing
            for topic, known in zip(command.topics, found, strict=True)
            for each in topic.partitions
        ]

    async def delete(self, command: DeleteOffsets) -> OffsetResults:
        """Delete the offsets of the partitions that exist, some at a time. Raises the Refusal of the whole request."""
        if not command.group_id:
            raise empty_group_id()
        turns, codes = Turns(COMMITTED_AT_ONCE), list[ErrorCode]()
        for topics in _in_parts(command.topics):
            codes += await self._delete_part(replace(command, topics=topics))
            await turns.done(sum(len(topic.partitions) for topic in topics))
        left = iter(codes)
        return OffsetResults(
            topics=tuple(
                TopicResult(
                    name=topic.name, partitions=tuple(PartitionResult(each, next(left)) for each in topic.partitions)
                )
                for topic in command.topics
            )
        )

    async def _delete_part(self, command: DeleteOffsets) -> list[ErrorCode]:
        """Delete offsets of so few partitions that it is one decision; return the error code of each."""
        found = [self._find(topic.name, None) for topic in command.topics]
        existing = [
            replace(topic, partitions=tuple(each for each in topic.partitions if each in known.partitions))
            for topic, known in zip(command.topics, found, strict=True)
        ]
        asked = tuple(topic for topic in existing if topic.partitions)
        codes = _codes(await self._coordinators.decide(command.group_id, replace(command, topics=asked)))
        return [
            next(codes) if each in known.partitions else known.missing
            for topic, known in zip(command.topics, found, strict=True)
            for each in topic.partitions
        ]

    async def fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Return the committed offsets of each group, or its Refusal; once if the request repeats it."""
        turns = Turns(PARTITIONS_AT_ONCE)
        groups: dict[str, FetchGroup] = {}
        ambiguous = {each.group_id for each in request.groups if groups.setdefault(each.group_id, each) != each}
        return OffsetFetchResponse(
            groups=tuple(
                [
                    _ambiguous(group_id)
                    if group_id in ambiguous
                    else await self._fetched(group, request.require_stable, turns)
                    for group_id, group in groups.items()
                ]
            )
        )

    async def _fetched(self, asked: FetchGroup, require_stable: bool, turns: Turns) -> FetchedGroup:
        await turns.done_with_id(asked.group_id)
        try:
            topics = await self._fetched_topics(asked, require_stable, turns)
        except Refusal as refusal:
            return FetchedGroup(group_id=asked.group_id, error_code=refusal.error_code, error_message=refusal.message)
        return FetchedGroup(group_id=asked.group_id, topics=topics)

    async def _fetched_topics(self, asked: FetchGroup, require_stable: bool, turns: Turns) -> tuple[FetchedTopic, ...]:
        view = self._coordinators.view(asked.group_id)
        check_fetch(view.committed, asked.group_id, asked.member_id, asked.member_epoch)
        latest = view.latest if require_stable else view.committed
        fetched: list[FetchedTopic] = []
        for topic in self._all_topics(latest, asked.group_id) if asked.all_topics else asked.topics:
            known = self._find(topic.name, topic.topic_id)
            await turns.done(1 + len(topic.partitions))
            if topic.topic_id is not None and not known.name:
                missing = (FetchedPartition(partition=each, error_code=known.missing) for each in topic.partitions)
                fetched.append(FetchedTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(missing)))
                continue
            named = (replace(topic, name=known.name or topic.name, topic_id=known.topic_id),)
            if require_stable:
                (committed,) = fetch_stable(view.committed.offsets, view.latest.offsets, asked.group_id, named)
            else:
                (committed,) = fetch(view.committed.offsets, asked.group_id, named)
            fetched.append(replace(committed, topic_id=topic.topic_id))
        return tuple(map(_with_offsets, fetched)) if asked.all_topics else tuple(fetched)

    def _all_topics(self, groups: Groups, group_id: str) -> Iterator[FetchTopic]:
        """Yield the topics of which the group has offsets, with their ids if they exist."""
        topics = groups.offsets.topics(group_id)
        for name in sorted(topics):
            known = self._image().topic(name)
            yield FetchTopic(
                name=name,
                topic_id=None if known is None else known.topic_id,
                partitions=tuple(sorted(topics[name])),
            )

    def _find(self, name: str, topic_id: TopicId | None) -> _Known:
        image = self._image()
        topic = image.topic(name) if topic_id is None else image.topic_by_id(topic_id)
        if topic is not None:
            return _Known(topic.topic, topic.topic_id, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        by_name = topic_id is None
        return _Known("", None, (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID)

    # --- gRPC ------------------------------------------------------------------------------------------------------

    def served(self) -> list[Served]:
        return [
            OFFSET_COMMIT.served_by(self._commit_request),
            TXN_OFFSET_COMMIT.served_by(self._transactional_request),
            OFFSET_FETCH.served_by(self.fetch),
            OFFSET_DELETE.served_by(self.delete),
        ]

    async def _commit_request(self, request: OffsetCommitRequest) -> OffsetResults:
        return await self.commit(
            CommitOffsets(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation=request.generation,
                topics=request.topics,
            )
        )

    async def _transactional_request(self, request: TxnOffsetCommitRequest) -> OffsetResults:
        return await self.commit(CommitTransactionOffsets(**asdict(request)))


class _Known(Struct, frozen=True):
    """A topic in the metadata; without a name and partitions if it does not exist."""

    name: str
    topic_id: TopicId | None
    partitions: Container[int]
    missing: ErrorCode
    """Error of a partition that does not exist."""


def _in_parts(topics: Sequence[Topic]) -> Iterator[tuple[Topic, ...]]:
    """Yield the topics in parts of at most `COMMITTED_AT_ONCE` partitions. A large topic is in several parts."""
    part: list[Topic] = []
    room = COMMITTED_AT_ONCE
    for topic in topics:
        for start in range(0, max(len(topic.partitions), 1), COMMITTED_AT_ONCE):
            partitions = topic.partitions[start : start + COMMITTED_AT_ONCE]
            # A topic without partitions has its result, too, and its name costs time.
            if part and room < max(len(partitions), 1):
                yield tuple(part)
                part, room = [], COMMITTED_AT_ONCE
            part.append(replace(topic, partitions=partitions))
            room -= max(len(partitions), 1)
    yield tuple(part)


def _result(topic: CommitTopic, codes: Iterator[ErrorCode]) -> TopicResult:
    return TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(PartitionResult(each.partition, next(codes)) for each in topic.partitions),
    )


def _ambiguous(group_id: str) -> FetchedGroup:
    reason = f"the request names group {group_id!r} twice, and asks for different offsets"
    return FetchedGroup(group_id=group_id, error_code=ErrorCode.INVALID_REQUEST, error_message=reason)


def _codes(decided: tuple[TopicResult, ...]) -> Iterator[ErrorCode]:
    return (result.error_code for topic in decided for result in topic.partitions)


def _with_offsets(topic: FetchedTopic) -> FetchedTopic:
    """Return the topic without partitions whose offsets are of an earlier topic with the same name."""
    there = (each for each in topic.partitions if each.offset != NO_OFFSET or each.error_code is not ErrorCode.NONE)
    return replace(topic, partitions=tuple(there))
