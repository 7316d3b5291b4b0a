"""Carries the committed offsets of groups over to the target, translated, so that they can go on there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from kraft.client.aio import Admin
from kraft.client.model.values import OffsetAndMetadata
from kraft.mirror.config import PairConfig
from kraft.mirror.translation import PartitionState
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition

log = structlog.get_logger()

_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION})


def carried(
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    already: Mapping[TopicPartition, OffsetAndMetadata],
    states: Mapping[TopicPartition, PartitionState],
    targets: Mapping[TopicPartition, TopicPartition],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what a group commits at the target: each translated offset that is beyond the one which it has there.

    None of a partition of which nothing was mirrored yet.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for source, own in committed.items():
        state, target = states.get(source), targets.get(source)
        if state is None or target is None or not state.target_end:
            continue
        offset = state.at_target(own.offset)
        before = already.get(target)
        if before is None or offset > before.offset:
            found[target] = OffsetAndMetadata(offset, own.metadata)
    return found


async def carry_groups(
    pair: PairConfig,
    source: Admin,
    target: Admin,
    states: Mapping[TopicPartition, PartitionState],
    targets: Mapping[TopicPartition, TopicPartition],
) -> int:
    """Commit the offsets of all groups of the pair at the target; return the number of groups that advanced.

    A group with members at the target is left alone: it goes on there already.
    """
    ids = [each.group_id for each in await source.list_groups() if pair.groups.has(each.group_id)]
    of_source = await source.list_offsets_of_many_groups(ids)
    of_target = await target.list_offsets_of_many_groups(ids)
    advanced = 0
    for group_id in ids:
        own, there = of_source[group_id], of_target[group_id]
        if isinstance(own, KraftError) or isinstance(there, KraftError):
            _log_refused(pair, group_id, own if isinstance(own, KraftError) else there)
            continue
        if new := carried(own, there, states, targets):
            advanced += await _commit(pair, target, group_id, new)
    return advanced


async def _commit(
    pair: PairConfig, target: Admin, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> bool:
    try:
        results: Iterable[Refusal | None] = (await target.alter_consumer_group_offsets(group_id, offsets)).values()
    except Refusal as refusal:
        results = [refusal]
    refused = [each for each in results if each is not None]
    if refused and refused[0].error_code not in _HAS_MEMBERS:
        _log_refused(pair, group_id, refused[0])
    return not refused


def _log_refused(pair: PairConfig, group_id: str, error: object) -> None:
    log.warning("offsets of a group not carried over", pair=pair.name, group=group_id, reason=str(error))
