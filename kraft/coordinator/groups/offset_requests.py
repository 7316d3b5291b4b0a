"""Requests that commit and delete offsets, of groups of either kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.classic.offset_commits import (
    session_after_commit,
    validate_offset_commit,
    validate_offset_delete,
)
from kraft.coordinator.consumer.checks import check_offset_commit
from kraft.coordinator.group_refusals import no_group
from kraft.coordinator.groups.commands import CommitOffsets, CommitTransactionOffsets, DeleteOffsets
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.offsets.commit import NO_RETENTION_TIME, commit
from kraft.coordinator.offsets.committer import Committer
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets
from kraft.coordinator.offsets.deletion import delete
from kraft.coordinator.offsets.found_topic import CommitTopic
from kraft.coordinator.shard import Reply, ShardDecision, Ticket, TimerKey, TransactionalProducer
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId

_GROUP_ID_NOT_FOUND_VERSION: Final = 9
"""Before this version, OffsetCommit answers ILLEGAL_GENERATION if there is no such group."""

_NO_TOPIC: Final = TopicId(UUID(int=0))


def commit_offsets(state: GroupsState, ticket: Ticket, command: CommitOffsets) -> GroupsDecision:
    try:
        timers = _check_commit(state, command)
    except Refusal as refusal:
        return state.replied(ticket, refusal)
    decided = _decided(state, command.group_id, command.topics, command.request.retention_time_ms)
    return ShardDecision(
        volatile=state.volatile, records=decided.records, replies=(Reply(ticket, decided.codes),), timers=timers
    )


def commit_transaction_offsets(state: GroupsState, ticket: Ticket, command: CommitTransactionOffsets) -> GroupsDecision:
    """Write offsets that count once the producer's transaction is committed."""
    try:
        _check_transactional_commit(state, command)
    except Refusal as refusal:
        return state.replied(ticket, refusal)
    decided = _decided(state, command.group_id, command.topics)
    request = command.request
    producer = TransactionalProducer(producer_id=request.producer_id, epoch=request.producer_epoch, guard=command.guard)
    return ShardDecision(
        volatile=state.volatile, records=decided.records, producer=producer, replies=(Reply(ticket, decided.codes),)
    )


def _decided(
    state: GroupsState, group_id: str, topics: Sequence[CommitTopic], retention_time_ms: int = NO_RETENTION_TIME
) -> DecidedOffsets:
    return commit(
        group_id,
        topics,
        now_ms=state.context.now_ms,
        metadata_length_max=state.settings.offset_metadata_length_max,
        retention_time_ms=retention_time_ms,
    )


# --- who commits -----------------------------------------------------------------------------------------------------


def _check_commit(state: GroupsState, command: CommitOffsets) -> Mapping[TimerKey, int | None]:
    """Check who commits, and return the timer that this sets."""
    request = command.request
    committer = Committer(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        api_version=command.api_version,
    )
    consumer = state.groups.consumer.get(command.group_id)
    if consumer is not None:
        # Unlike the classic protocol, a commit does not stand in for a heartbeat.
        check_offset_commit(consumer, committer, _partitions(command.topics, state.context.image))
        return {}
    group = state.classic(command.group_id)
    if group is None and committer.generation >= 0 and command.api_version >= _GROUP_ID_NOT_FOUND_VERSION:
        raise no_group(command.group_id)
    refusal = validate_offset_commit(group, command.group_id, committer)
    if refusal is not None:
        raise refusal
    return session_after_commit(group, committer)


def _check_transactional_commit(state: GroupsState, command: CommitTransactionOffsets) -> None:
    """Check the member whose offsets the producer commits, if the request names one (KIP-447)."""
    request = command.request
    committer = Committer(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
        is_transactional=True,
    )
    consumer = state.groups.consumer.get(command.group_id)
    if consumer is None:
        refusal = validate_offset_commit(state.classic(command.group_id), command.group_id, committer)
        if refusal is not None:
            raise refusal
        return
    try:
        check_offset_commit(consumer, committer, _partitions(command.topics, state.context.image))
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        # Producers know only the error of the classic protocol.
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, refusal.message) from refusal


def _partitions(topics: Sequence[CommitTopic], image: MetadataImage) -> Partitions:
    """Return the partitions by topic id. One of a topic that was deleted meanwhile belongs to no member."""
    return frozenset(
        (topic.topic_id or image.topic_ids.get(topic.name, _NO_TOPIC), partition.partition_index)
        for topic in topics
        for partition in topic.partitions
    )


def delete_offsets(state: GroupsState, ticket: Ticket, command: DeleteOffsets) -> GroupsDecision:
    group_id = command.group_id
    facts = state.facts(group_id)
    if facts is None:
        return state.replied(ticket, no_group(group_id))
    classic = state.classic(group_id) if group_id not in state.groups.consumer else None
    refusal = None if classic is None else validate_offset_delete(classic)
    if refusal is not None:
        return state.replied(ticket, refusal)
    decided = delete(state.groups.offsets, group_id, facts, command.topics)
    return ShardDecision(volatile=state.volatile, records=decided.records, replies=(Reply(ticket, decided.codes),))
