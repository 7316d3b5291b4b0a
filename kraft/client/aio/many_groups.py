"""Calls of the asyncio admin client that ask about many groups at once: a request or two to each coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from kraft.client.aio.absences import absences
from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.client.model.arguments import checked_names
from kraft.client.model.group_offsets import check_fetched_group, fetched_offsets
from kraft.client.model.values import OffsetAndMetadata
from kraft.client.sans_io.group.descriptions import GroupDescription, of_classic, of_consumer
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import TopicPartition
from kraft.rpc.group_calls import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, OFFSET_FETCH
from kraft.wire.schema import consumer_group_describe, describe_groups
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.find_coordinator import Coordinator
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Item = TypeVar("Item")

Outcomes: TypeAlias = dict[str, Item | KraftError]

GROUPS_AT_ONCE: Final = 100
"""Groups in one request, whose answer is in memory at once."""

_NOT_THERE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
"""A group that does not use the newer protocol, or a broker that does not know it."""


async def describe_many_groups(
    admin: AdminClient, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, GroupDescription | KraftError]:
    """Return each group with its members, or its error: GROUP_ID_NOT_FOUND for one that does not exist.

    A group whose coordinator moves meanwhile has that error, and is not asked for again.
    """
    deadline_ms = admin.calls.deadline_ms(timeout_ms)

    async def ask(ids: Sequence[str], coordinator: Coordinator) -> Outcomes[GroupDescription]:
        found = await _of_newer_protocol(admin, ids, coordinator, deadline_ms)
        others = [each for each in ids if _is_not_there(found[each])]
        if others:
            asked = DescribeGroupsRequest(groups=tuple(others))
            coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
            response = await coordinators.call(others[0], DESCRIBE_GROUPS, asked, deadline_ms)
            found |= {each.group_id: _classic(each, coordinator) for each in response.groups}
        return found

    return await admin.calls.watched(_of_each_coordinator(admin, group_ids, deadline_ms, ask), timeout_ms)


async def list_offsets_of_many_groups(
    admin: AdminClient, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, Mapping[TopicPartition, OffsetAndMetadata] | KraftError]:
    """Return the committed offsets of each group, or its error; a group that does not exist has none.

    A group whose coordinator moves meanwhile has that error, and is not asked for again.
    """
    deadline_ms = admin.calls.deadline_ms(timeout_ms)

    async def ask(ids: Sequence[str], _: Coordinator) -> Outcomes[Mapping[TopicPartition, OffsetAndMetadata]]:
        groups = tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in ids)
        request = OffsetFetchRequest(groups=groups, require_stable=False)
        coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
        response = await coordinators.call(ids[0], OFFSET_FETCH, request, deadline_ms)
        found: Outcomes[Mapping[TopicPartition, OffsetAndMetadata]] = {}
        for group in response.groups:
            try:
                check_fetched_group(group)
                found[group.group_id] = fetched_offsets(group)
            except Refusal as refusal:
                found[group.group_id] = refusal
        return found

    outcomes = await admin.calls.watched(_of_each_coordinator(admin, group_ids, deadline_ms, ask), timeout_ms)
    return {
        group_id: {} if isinstance(each, Refusal) and each.error_code is ErrorCode.GROUP_ID_NOT_FOUND else each
        for group_id, each in outcomes.items()
    }


async def _of_each_coordinator(
    admin: AdminClient,
    group_ids: Iterable[str],
    deadline_ms: int,
    ask: Callable[[Sequence[str], Coordinator], Awaitable[Outcomes[Item]]],
) -> Outcomes[Item]:
    """Ask each coordinator about its groups; the error of a request is that of its groups."""
    ids = list(dict.fromkeys(checked_names(group_ids)))
    if absent := await absences(admin, CoordinatorType.GROUP, ids, deadline_ms):
        return dict[str, Item | KraftError](absent)
    coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
    await coordinators.find_all(ids, admin.calls.left_ms(deadline_ms))
    outcomes: Outcomes[Item] = {}
    parts: dict[str, tuple[Coordinator, list[str]]] = {}
    for group_id in ids:
        try:
            found = await coordinators.find(group_id, admin.calls.left_ms(deadline_ms))
        except KraftError as error:
            outcomes[group_id] = error
        else:
            parts.setdefault(f"{found.host}:{found.port}", (found, []))[1].append(group_id)

    async def outcome_of(asked: Sequence[str], coordinator: Coordinator) -> Outcomes[Item]:
        try:
            return await ask(asked, coordinator)
        except KraftError as error:
            return dict.fromkeys(asked, error)

    calls = [
        outcome_of(asked[start : start + GROUPS_AT_ONCE], coordinator)
        for coordinator, asked in parts.values()
        for start in range(0, len(asked), GROUPS_AT_ONCE)
    ]
    for found_here in await asyncio.gather(*calls):
        outcomes |= found_here
    return {group_id: outcomes[group_id] for group_id in ids if group_id in outcomes}


async def _of_newer_protocol(
    admin: AdminClient, ids: Sequence[str], coordinator: Coordinator, deadline_ms: int
) -> Outcomes[GroupDescription]:
    asked = ConsumerGroupDescribeRequest(group_ids=tuple(ids), include_authorized_operations=False)
    coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
    try:
        response = await coordinators.call(ids[0], CONSUMER_GROUP_DESCRIBE, asked, deadline_ms)
    except Refusal as refusal:
        if refusal.error_code not in _NOT_THERE:
            raise
        return dict.fromkeys(ids, refusal)
    return {each.group_id: _consumer(each, coordinator) for each in response.groups}


def _is_not_there(outcome: GroupDescription | KraftError) -> bool:
    return isinstance(outcome, Refusal) and outcome.error_code in _NOT_THERE


def _consumer(group: consumer_group_describe.DescribedGroup, coordinator: Coordinator) -> GroupDescription | Refusal:
    try:
        check(group.error_code, group.error_message)
    except Refusal as refusal:
        return refusal
    return of_consumer(group, _for(group.group_id, coordinator))


def _classic(group: describe_groups.DescribedGroup, coordinator: Coordinator) -> GroupDescription | Refusal:
    try:
        check(group.error_code, group.error_message)
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            # The broker's message is about one protocol, and the group was looked for in both.
            return Refusal(refusal.error_code, f"there is no group {group.group_id!r}")
        return refusal
    return of_classic(group, _for(group.group_id, coordinator))


def _for(group_id: str, coordinator: Coordinator) -> Coordinator:
    return Coordinator(
        key=group_id,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
        error_code=0,
        error_message=None,
    )
