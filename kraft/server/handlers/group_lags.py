"""DescribeGroupLags: how far the groups of this coordinator are behind."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kraft.coordinator.groups.owners import Owner
from kraft.coordinator.lag import tracker
from kraft.coordinator.lag.states import Commit, LagState, state_of_group
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import (
    UNKNOWN,
    DescribeGroupLagsRequest,
    DescribeGroupLagsResponse,
    GroupLag,
    PartitionLag,
    SeenCommit,
)
from kraft.model.ids import TopicPartition
from kraft.server.coordinator.group_lags import TOLD_AT_ONCE, GroupLags
from kraft.server.loop.turns import Turns, in_turns


class GroupLagsHandler:
    def __init__(self, lags: GroupLags) -> None:
        self._lags = lags

    async def handle(self, request: DescribeGroupLagsRequest) -> DescribeGroupLagsResponse:
        """Return each group, or its Refusal; once if the request repeats it. The members are told of named groups."""
        turns, groups = Turns(TOLD_AT_ONCE), []
        for each in dict.fromkeys(request.group_ids or self._lags.group_ids()):
            groups.append(await self._of_group(each, turns, tells_owners=bool(request.group_ids)))
            await turns.done_with_id(each)
        return DescribeGroupLagsResponse(groups=groups)

    async def _of_group(self, group_id: str, turns: Turns, *, tells_owners: bool) -> GroupLag:
        try:
            found = await self._lags.of_group(group_id, turns)
            owners = await self._lags.owners(group_id, turns) if tells_owners else {}
        except Refusal as refusal:
            return refused_group(group_id, refusal)
        partitions = [partition_lag(each) async for each in in_turns(found, turns)]
        if owners:
            partitions = [_with_owner(each, owners) async for each in in_turns(partitions, turns)]
        return group_lag(group_id, partitions)


def _with_owner(lag: PartitionLag, owners: Mapping[TopicPartition, Owner]) -> PartitionLag:
    owner = owners.get(TopicPartition(lag.topic, lag.partition))
    return lag if owner is None else replace(lag, owner=owner.host, client_id=owner.client_id)


def group_lag(group_id: str, partitions: list[PartitionLag]) -> GroupLag:
    """Return the answer for a group with these partitions."""
    state = state_of_group(LagState[each.state] for each in partitions)
    return GroupLag(
        group_id=group_id, error_code=ErrorCode.NONE, error_message="", state=state.name, partitions=partitions
    )


def refused_group(group_id: str, refusal: Refusal) -> GroupLag:
    return GroupLag(
        group_id=group_id,
        error_code=refusal.error_code,
        error_message=refusal.message,
        state=LagState.NOTFOUND.name if refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND else "",
        partitions=[],
    )


def partition_lag(seen: tracker.PartitionLag) -> PartitionLag:
    behind = seen.behind
    return PartitionLag(
        topic=seen.partition.topic,
        partition=seen.partition.partition,
        state=seen.state.name,
        committed_offset=seen.committed,
        lag=UNKNOWN if seen.lag is None else seen.lag,
        behind_ms=UNKNOWN if behind is None else behind.ms,
        is_at_least=behind is not None and behind.is_at_least,
        completeness=seen.completeness,
        commits=[_commit(each) for each in seen.commits],
    )


def _commit(seen: Commit) -> SeenCommit:
    lag = UNKNOWN if seen.lag is None else seen.lag
    return SeenCommit(offset=seen.offset, timestamp_ms=seen.timestamp_ms, lag=lag)
