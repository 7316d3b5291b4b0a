"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: the committed offsets of groups.

Offsets are committed and deleted for partitions that exist. They are fetched for any: offsets may outlive their topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from kraft.coordinator.group_refusals import empty_group_id
from kraft.coordinator.groups.commands import CommitOffsets, CommitTransactionOffsets, DeleteOffsets
from kraft.coordinator.groups.queries import check_fetch
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.offsets.fetch import NO_OFFSET, fetch, fetch_stable, without_offset
from kraft.coordinator.offsets.found_topic import CommitPartition, FoundTopic
from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.model.request_context import RequestContext
from kraft.server.coordinator.group_coordinators import GroupCoordinators, GroupsView
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kraft.wire.schema.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PARTITIONS_AT_ONCE: Final = 500
"""Partitions fetched before other tasks have their turn."""

Partition = TypeVar("Partition", bound=CommitPartition | OffsetDeleteRequestPartition)
Partition_co = TypeVar("Partition_co", bound=CommitPartition | OffsetDeleteRequestPartition, covariant=True)
Coded = TypeVar("Coded", OffsetCommitResponsePartition, TxnOffsetCommitResponsePartition, OffsetDeleteResponsePartition)

COMMITTED_AT_ONCE: Final = 1_000
"""Partitions whose offsets are committed or deleted in one decision, which takes about 10 us for each."""

_TOPIC_IDS_FROM: Final = 10
"""First version of OffsetCommit and OffsetFetch that gives topics by id. Over gRPC they may still be given by name."""

_GROUP_ERROR_FROM: Final = 2
"""First version of OffsetFetch with an error code for the group as a whole."""

_SEVERAL_GROUPS_FROM: Final = 8
"""First version of OffsetFetch with several groups (KIP-709)."""

_ADDS_PARTITION_FROM: Final = 5
"""First version of TxnOffsetCommit in which the broker adds the group's partition to the transaction (KIP-890)."""

_CODES_SINCE: Final[Mapping[int, tuple[int, ErrorCode]]] = {
    # Earlier clients may crash (KAFKA-7296).
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ErrorCode.TRANSACTION_ABORTABLE: (4, ErrorCode.INVALID_TXN_STATE),
}
"""Error codes of TxnOffsetCommit: the first version that has one, and what earlier ones get."""


class CommittedOffsetsHandler:
    def __init__(self, coordinators: GroupCoordinators, image: CurrentImage) -> None:
        self._coordinators = coordinators
        self._image = image

    async def commit(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """Commit the offsets of the partitions that exist, some at a time.

        Raises the Refusal of the request as a whole, after which offsets may have been committed, as by an earlier one.
        """
        version = context.version
        by_id = version >= _TOPIC_IDS_FROM

        def find(topic: OffsetCommitRequestTopic) -> _KnownTopic:
            return self._find(topic.name, TopicId(topic.topic_id) if by_id and not topic.name else None)

        async def decide(topics: tuple[FoundTopic[OffsetCommitRequestPartition], ...]) -> tuple[ErrorCode, ...]:
            command = CommitOffsets(request=request, topics=topics, api_version=version)
            return await self._committed(request.group_id, command)

        return _response(request, await self._decided(request.topics, find, decide))

    async def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> TxnOffsetCommitResponse:
        """Likewise, with a producer's transaction."""

        async def decide(topics: tuple[FoundTopic[TxnOffsetCommitRequestPartition], ...]) -> tuple[ErrorCode, ...]:
            adds = context.version >= _ADDS_PARTITION_FROM
            command = CommitTransactionOffsets(request=request, topics=topics, adds_partition=adds)
            return await self._committed(request.group_id, command)

        return _transactional_response(request, await self._decided(request.topics, self._find_by_name, decide))

    async def _committed(
        self, group_id: str, command: CommitOffsets | CommitTransactionOffsets
    ) -> tuple[ErrorCode, ...]:
        # As in Kafka, a request without a partition that exists is answered without its group.
        codes: tuple[ErrorCode, ...] = await self._coordinators.decide(group_id, command) if command.topics else ()
        return codes

    async def delete(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete the offsets of the partitions that exist, some at a time. Raises the Refusal of the whole request."""
        group_id = request.group_id
        if not group_id:
            raise empty_group_id()

        async def decide(topics: tuple[FoundTopic[OffsetDeleteRequestPartition], ...]) -> tuple[ErrorCode, ...]:
            command = DeleteOffsets(group_id=group_id, topics=topics)
            codes: tuple[ErrorCode, ...] = await self._coordinators.decide(group_id, command)
            return codes

        return _deleted(request, await self._decided(request.topics, self._find_by_name, decide))

    async def _decided(
        self,
        topics: Sequence[_RequestedTopic[Partition]],
        find: Callable[[Any], _KnownTopic],
        decide: Callable[[tuple[FoundTopic[Partition], ...]], Awaitable[Sequence[ErrorCode]]],
    ) -> Iterator[ErrorCode]:
        """Return the error code of each partition. `decide` returns those of the partitions that it gets, which exist,
        and so few that it is one decision.
        """
        turns, codes = Turns(COMMITTED_AT_ONCE), list[ErrorCode]()
        for part in _in_parts(topics):
            known = [(find(topic), partitions) for topic, partitions in part]
            there = (
                FoundTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[each for each in partitions if each.partition_index in topic.partitions],
                )
                for topic, partitions in known
            )
            decided = iter(await decide(tuple(topic for topic in there if topic.partitions)))
            codes += [
                next(decided) if each.partition_index in topic.partitions else topic.missing
                for topic, partitions in known
                for each in partitions
            ]
            await turns.done(sum(len(partitions) for _, partitions in part))
        return iter(codes)

    async def fetch(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """Return the committed offsets of each group, or its refusal; once if the request repeats it."""
        turns = Turns(PARTITIONS_AT_ONCE)
        by_id = context.version >= _TOPIC_IDS_FROM
        groups: dict[str, OffsetFetchRequestGroup] = {}
        ambiguous = set()
        for each in request.groups:
            first = groups.setdefault(each.group_id, each)
            if first is not each and first != each:
                ambiguous.add(each.group_id)
            await turns.done()
        return OffsetFetchResponse(
            groups=tuple(
                [
                    not_fetched(group_id, ErrorCode.INVALID_REQUEST)
                    if group_id in ambiguous
                    else await self._fetched(group, by_id, request.require_stable, turns)
                    for group_id, group in groups.items()
                ]
            )
        )

    async def _fetched(
        self, asked: OffsetFetchRequestGroup, by_id: bool, require_stable: bool, turns: Turns
    ) -> OffsetFetchResponseGroup:
        await turns.done_with_id(asked.group_id)
        try:
            topics = await self._fetched_topics(asked, by_id, require_stable, turns)
        except Refusal as refusal:
            return not_fetched(asked.group_id, refusal.error_code)
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)

    async def _fetched_topics(
        self, asked: OffsetFetchRequestGroup, by_id: bool, require_stable: bool, turns: Turns
    ) -> tuple[OffsetFetchResponseTopics, ...]:
        group_id = asked.group_id
        view = self._coordinators.view(group_id)
        check_fetch(view.committed, group_id, asked.member_id, asked.member_epoch)
        latest = view.latest if require_stable else view.committed
        fetched: list[OffsetFetchResponseTopics] = []
        for topic in self._all_topics(latest, group_id) if asked.topics is None else asked.topics:
            is_by_id = by_id and not topic.name
            known = self._find(topic.name, TopicId(topic.topic_id) if is_by_id else None)
            await turns.done()
            if is_by_id and not known.name:
                missing = tuple([without_offset(each, known.missing) for each in topic.partition_indexes])
                fetched.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=missing))
                await turns.done(len(missing))
                continue
            named = replace(topic, name=known.name or topic.name, topic_id=known.topic_id or ZERO_UUID)
            partitions = await _offsets(view, group_id, named, require_stable, turns)
            fetched.append(
                OffsetFetchResponseTopics(name=named.name, topic_id=topic.topic_id, partitions=tuple(partitions))
            )
        return tuple(map(_with_offsets, fetched)) if asked.topics is None else tuple(fetched)

    def _all_topics(self, groups: Groups, group_id: str) -> Iterator[OffsetFetchRequestTopics]:
        """Yield the topics of which the group has offsets, with their ids if they exist."""
        topics = groups.offsets.topics(group_id)
        for name in sorted(topics):
            known = self._image().topic(name)
            yield OffsetFetchRequestTopics(
                name=name,
                topic_id=ZERO_UUID if known is None else known.topic_id,
                partition_indexes=tuple(sorted(topics[name])),
            )

    def _find_by_name(self, topic: TxnOffsetCommitRequestTopic | OffsetDeleteRequestTopic) -> _KnownTopic:
        return self._find(topic.name, None)

    def _find(self, name: str, topic_id: TopicId | None) -> _KnownTopic:
        image = self._image()
        topic = image.topic(name) if topic_id is None else image.topic_by_id(topic_id)
        if topic is not None:
            return _KnownTopic(topic.topic, topic.topic_id, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        by_name = topic_id is None
        return _KnownTopic(
            "", None, (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        )


class _RequestedTopic(Protocol[Partition_co]):
    """A topic of a request."""

    @property
    def partitions(self) -> Sequence[Partition_co]: ...


class _KnownTopic(Struct, frozen=True):
    """A topic in the metadata; without a name and partitions if it does not exist."""

    name: str
    topic_id: TopicId | None
    partitions: Container[int]
    missing: ErrorCode
    """Error of a partition that does not exist."""


def _in_parts(
    topics: Sequence[_RequestedTopic[Partition]],
) -> Iterator[list[tuple[_RequestedTopic[Partition], Sequence[Partition]]]]:
    """Yield the topics, with at most `COMMITTED_AT_ONCE` partitions at a time. A large topic is in several parts."""
    part: list[tuple[_RequestedTopic[Partition], Sequence[Partition]]] = []
    room = COMMITTED_AT_ONCE
    for topic in topics:
        for start in range(0, max(len(topic.partitions), 1), COMMITTED_AT_ONCE):
            partitions = topic.partitions[start : start + COMMITTED_AT_ONCE]
            # A topic without partitions has its result, too, and its name costs time.
            if part and room < max(len(partitions), 1):
                yield part
                part, room = [], COMMITTED_AT_ONCE
            part.append((topic, partitions))
            room -= max(len(partitions), 1)
    yield part


def _response(request: OffsetCommitRequest, codes: Iterator[ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=_coded(OffsetCommitResponsePartition, topic.partitions, codes),
            )
            for topic in request.topics
        )
    )


def _transactional_response(request: TxnOffsetCommitRequest, codes: Iterator[ErrorCode]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name, partitions=_coded(TxnOffsetCommitResponsePartition, topic.partitions, codes)
            )
            for topic in request.topics
        )
    )


def _deleted(request: OffsetDeleteRequest, codes: Iterator[ErrorCode]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name, partitions=_coded(OffsetDeleteResponsePartition, topic.partitions, codes)
            )
            for topic in request.topics
        ),
    )


def topics_not_deleted(request: OffsetDeleteRequest, refusal: Refusal) -> OffsetDeleteResponse:
    """Return the response with the refusal of each partition."""
    return _deleted(request, repeat(refusal.error_code))


def _coded(kind: type[Coded], partitions: Sequence[Partition], codes: Iterator[ErrorCode]) -> tuple[Coded, ...]:
    return tuple([kind(partition_index=each.partition_index, error_code=next(codes)) for each in partitions])


def not_fetched(group_id: str, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error_code, topics=())


async def _offsets(
    view: GroupsView, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool, turns: Turns
) -> list[OffsetFetchResponsePartitions]:
    """Look up a part of a large topic at a time, all of them in the state that the request found."""
    found: list[OffsetFetchResponsePartitions] = []
    for start in range(0, len(topic.partition_indexes), PARTITIONS_AT_ONCE):
        numbers = topic.partition_indexes[start : start + PARTITIONS_AT_ONCE]
        part = (replace(topic, partition_indexes=numbers),)
        if require_stable:
            (answered,) = fetch_stable(view.committed.offsets, view.latest.offsets, group_id, part)
        else:
            (answered,) = fetch(view.committed.offsets, group_id, part)
        found += answered.partitions
        await turns.done(len(numbers))
    return found


def _with_offsets(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopics:
    """Return the topic without partitions whose offsets are of an earlier topic with the same name."""
    there = (each for each in topic.partitions if each.committed_offset != NO_OFFSET or each.error_code)
    return replace(topic, partitions=tuple(there))


# --- Kafka's protocol --------------------------------------------------------------------------------------------


def commit_refused(request: OffsetCommitRequest, refusal: Refusal) -> OffsetCommitResponse:
    """Return the response with the refusal of each partition: it has no error code of its own."""
    return _response(request, repeat(refusal.error_code))


def transactional_commit_refused(request: TxnOffsetCommitRequest, refusal: Refusal) -> TxnOffsetCommitResponse:
    """Likewise."""
    return _transactional_response(request, repeat(refusal.error_code))


def transactional_commit_to_version(
    _: TxnOffsetCommitRequest, committed: TxnOffsetCommitResponse, version: int
) -> TxnOffsetCommitResponse:
    """Return the response with error codes that a client of this version understands."""
    others = {code: other for code, (since, other) in _CODES_SINCE.items() if version < since}
    if not others:
        return committed
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    replace(each, error_code=others.get(each.error_code, each.error_code)) for each in topic.partitions
                ),
            )
            for topic in committed.topics
        )
    )


def fetch_from_version(request: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    """Return the request with its group among several."""
    if version >= _SEVERAL_GROUPS_FROM:
        return request
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        )
    only = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return OffsetFetchRequest(groups=(only,), require_stable=request.require_stable)


def fetch_to_version(request: OffsetFetchRequest, fetched: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Return the response with the topics of its only group, or with the topics that still have an id."""
    if version >= _TOPIC_IDS_FROM:
        all_topics = {each.group_id for each in request.groups if each.topics is None}
        return OffsetFetchResponse(
            groups=tuple(_with_ids(each) if each.group_id in all_topics else each for each in fetched.groups)
        )
    if version >= _SEVERAL_GROUPS_FROM:
        return fetched
    (only,), (asked,) = fetched.groups, request.groups
    topics = only.topics
    if only.error_code and version < _GROUP_ERROR_FROM:
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(without_offset(each, ErrorCode(only.error_code)) for each in topic.partition_indexes),
            )
            for topic in asked.topics or ()
        )
    return OffsetFetchResponse(
        error_code=only.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _with_ids(group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    # A deleted topic, of which the group still has offsets, has no id.
    return replace(group, topics=tuple(each for each in group.topics if each.topic_id != ZERO_UUID))
