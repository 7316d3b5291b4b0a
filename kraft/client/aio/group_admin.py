"""Calls of the asyncio admin client for groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from kraft.client.aio.absences import absences, check_not_absent
from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import PartMissing, check
from kraft.client.model.arguments import checked_names
from kraft.client.model.group_offsets import (
    check_fetched,
    checked_offsets,
    commit_topics,
    fetch_topics,
    fetched_offsets,
    numbers_by_topic,
    partition_refusal,
)
from kraft.client.model.values import OffsetAndMetadata
from kraft.client.sans_io.group.descriptions import GroupDescription, ListedGroup, listed, of_classic, of_consumer
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.group_lags import DescribeGroupLagsRequest, DescribeGroupLagsResponse, GroupLag
from kraft.model.ids import TopicPartition
from kraft.rpc.group_calls import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUP_LAGS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kraft.wire.schema.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kraft.wire.schema.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.list_groups import ListGroupsRequest
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Item = TypeVar("Item")

_Groups: TypeAlias = ConsumerGroupDescribeResponse | DescribeGroupsResponse
"""Responses with an error code for each group."""

_NOT_DELETED: Final[Mapping[int, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "group {!r} has members: stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no group {!r}",
}
"""Why a group is not deleted, by its error code, and the remedy."""


async def list_groups(
    admin: AdminClient, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
) -> list[ListedGroup]:
    """Return the groups of all brokers, sorted by id: of these states and types, or of any.

    States are Kafka's, such as `Stable` and `Empty`; types are `classic` and `consumer`. Raises PartMissing, with the
    groups of the others, if a broker does not answer.
    """
    request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
    responses, silent = await admin.calls.of_each_broker(LIST_GROUPS, request, timeout_ms)
    # A group that moved meanwhile may be on two lists.
    by_id = {group.group_id: listed(group) for response in responses.values() for group in response.groups}
    found = [by_id[group_id] for group_id in sorted(by_id)]
    if silent:
        raise PartMissing(silent, found, "groups")
    return found


async def describe_group_lags(
    admin: AdminClient, group_ids: Iterable[str] = (), *, timeout_ms: int | None = None
) -> list[GroupLag]:
    """Return how far groups are behind, as their coordinators have seen it lately, sorted by id: these, or all.

    A group without committed offsets has the error code GROUP_ID_NOT_FOUND, and the state NOTFOUND; one that no broker
    coordinates now has COORDINATOR_NOT_AVAILABLE. A coordinator looks every ten seconds, and remembers in memory:
    `completeness` says how much of the last commits it has seen. A broker that does not answer is an error if all
    groups were asked for (PartMissing, with those of the others), and otherwise of those that no other coordinates;
    it is not waited for once all groups that were named are found.
    """
    request = DescribeGroupLagsRequest(group_ids=checked_names(group_ids))
    missing = set(request.group_ids)

    def are_all(response: DescribeGroupLagsResponse) -> bool:
        missing.difference_update(each.group_id for each in response.groups if _is_coordinated(each))
        return bool(request.group_ids) and not missing

    call = admin.calls.outcome_of_each_broker(DESCRIBE_GROUP_LAGS, request, timeout_ms, is_enough=are_all)
    outcomes = (await admin.calls.watched(call, timeout_ms)).values()
    failures = [each for each in outcomes if isinstance(each, KraftError)]
    if failures and len(failures) == len(outcomes):
        raise failures[0]
    found = dict[str, GroupLag]()
    for response in outcomes:
        for each in () if isinstance(response, KraftError) else response.groups:
            if _is_coordinated(each):
                found[each.group_id] = each
    for group_id in request.group_ids:
        found.setdefault(group_id, _without_coordinator(group_id, failures))
    groups = [found[group_id] for group_id in sorted(found)]
    if failures and not request.group_ids:
        silent = [each for each in failures if isinstance(each, Unreachable)]
        raise PartMissing(silent, groups, "groups") if isinstance(failures[0], Unreachable) else failures[0]
    return groups


def _is_coordinated(group: GroupLag) -> bool:
    """Return whether the broker that says this coordinates the group."""
    return group.error_code != ErrorCode.NOT_COORDINATOR


def _without_coordinator(group_id: str, failures: Sequence[KraftError]) -> GroupLag:
    reason = f"{failures[0]}; it may coordinate the group" if failures else "it may be moving, or not exist"
    return GroupLag(
        group_id=group_id,
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        error_message=f"no broker coordinates group {group_id!r} now: {reason}",
        state="",
        partitions=[],
    )


async def describe_consumer_groups(
    admin: AdminClient, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> list[GroupDescription]:
    """Return state, epochs and members of the groups, in the order given, whichever protocol they use.

    Raises the first Refusal after all were tried: GROUP_ID_NOT_FOUND for a group that does not exist.
    """
    outcomes = await _of_each(admin, group_ids, timeout_ms, partial(_described, admin))
    for outcome in outcomes.values():
        if isinstance(outcome, Refusal):
            raise outcome
    return [outcome for outcome in outcomes.values() if not isinstance(outcome, Refusal)]


async def delete_consumer_groups(
    admin: AdminClient, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, Refusal | None]:
    """Delete groups without members, with their committed offsets; return each group's Refusal or None.

    NON_EMPTY_GROUP: the group has members. GROUP_ID_NOT_FOUND can mean that an earlier attempt of the same call
    succeeded and its response was lost.
    """

    async def delete(group_id: str, deadline_ms: int) -> None:
        request = DeleteGroupsRequest(groups_names=(group_id,))
        await admin.calls.coordinators(CoordinatorType.GROUP).call(
            group_id, DELETE_GROUPS, request, deadline_ms, _check_deletions
        )

    return await _of_each(admin, group_ids, timeout_ms, delete)


async def remove_members_from_consumer_group(
    admin: AdminClient,
    group_id: str,
    group_instance_ids: Iterable[str] | None = None,
    *,
    reason: str = "",
    timeout_ms: int | None = None,
) -> dict[str, Refusal | None]:
    """Remove static members, or all members, from a classic group; return the Refusal or None of each.

    Without `group_instance_ids` all members are removed, and the result is by member id.
    """
    deadline_ms = admin.calls.deadline_ms(timeout_ms)
    await check_not_absent(admin, group_id, deadline_ms)
    if group_instance_ids is None:
        (group,) = await describe_consumer_groups(admin, [group_id], timeout_ms=timeout_ms)
        leaving = [MemberIdentity(member_id=each.member_id, reason=reason) for each in group.members]
    else:
        leaving = [MemberIdentity(member_id="", group_instance_id=each, reason=reason) for each in group_instance_ids]
    request = LeaveGroupRequest(group_id=group_id, members=tuple(leaving))
    left = await admin.calls.watched(
        admin.calls.coordinators(CoordinatorType.GROUP).call(group_id, LEAVE_GROUP, request, deadline_ms), timeout_ms
    )
    by_id = group_instance_ids is None
    return {
        each.member_id if by_id else each.group_instance_id or "": _refusal(error_code(each.error_code))
        for each in left.members
    }


# --- committed offsets -------------------------------------------------------------------------------------


async def list_consumer_group_offsets(
    admin: AdminClient,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the group's committed offsets, of these partitions or of all.

    Partitions without a committed offset are left out; a group that does not exist has none. `require_stable`
    refuses offsets that are about to change (UNSTABLE_OFFSET_COMMIT).
    """
    topics = None if partitions is None else fetch_topics(partitions)
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(groups=(asked,), require_stable=require_stable)
    deadline_ms = admin.calls.deadline_ms(timeout_ms)
    try:
        await check_not_absent(admin, group_id, deadline_ms)
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    response = await admin.calls.watched(
        admin.calls.coordinators(CoordinatorType.GROUP).call(
            group_id, OFFSET_FETCH, request, deadline_ms, check_fetched
        ),
        timeout_ms,
    )
    return fetched_offsets(response.groups[0])


async def alter_consumer_group_offsets(
    admin: AdminClient,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Refusal | None]:
    """Commit offsets for a group without members; return each partition's Refusal or None.

    Creates the group if it does not exist. Raises UNKNOWN_MEMBER_ID if the group has members, and
    ValueError for a number that is not an offset.
    """
    request = OffsetCommitRequest(group_id=group_id, member_id="", topics=commit_topics(checked_offsets(offsets)))
    deadline_ms = admin.calls.deadline_ms(timeout_ms)
    results = await admin.calls.watched(
        admin.calls.coordinators(CoordinatorType.GROUP).call(group_id, OFFSET_COMMIT, request, deadline_ms), timeout_ms
    )
    return _outcomes(results, "committed")


async def delete_consumer_group_offsets(
    admin: AdminClient, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
) -> dict[TopicPartition, Refusal | None]:
    """Delete committed offsets of partitions; return each partition's Refusal or None.

    GROUP_SUBSCRIBED_TO_TOPIC: a member of the group reads the topic. Raises GROUP_ID_NOT_FOUND.
    """
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in numbers)
        )
        for topic, numbers in numbers_by_topic(partitions).items()
    )
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    deadline_ms = admin.calls.deadline_ms(timeout_ms)
    await check_not_absent(admin, group_id, deadline_ms)
    results = await admin.calls.watched(
        admin.calls.coordinators(CoordinatorType.GROUP).call(group_id, OFFSET_DELETE, request, deadline_ms), timeout_ms
    )
    return _outcomes(results, "deleted")


# --- inside ------------------------------------------------------------------------------------------------


async def _of_each(
    admin: AdminClient,
    group_ids: Iterable[str],
    timeout_ms: int | None,
    ask: Callable[[str, int], Awaitable[Item]],
) -> dict[str, Item | Refusal]:
    """Return the result or the Refusal of each group; `ask` gets its id and the deadline. Raises Unreachable."""
    deadline_ms, asked = admin.calls.deadline_ms(timeout_ms), checked_names(group_ids)
    if absent := await absences(admin, CoordinatorType.GROUP, asked, deadline_ms):
        return dict[str, Item | Refusal](absent)
    coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
    return await admin.calls.of_each(coordinators, asked, deadline_ms, lambda each: ask(each, deadline_ms))


async def _described(admin: AdminClient, group_id: str, deadline_ms: int) -> GroupDescription:
    coordinators = admin.calls.coordinators(CoordinatorType.GROUP)
    try:
        asked = ConsumerGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=False)
        consumer = await coordinators.call(group_id, CONSUMER_GROUP_DESCRIBE, asked, deadline_ms, _check_groups)
    except Refusal as refusal:
        # Without the consumer protocol every group is a classic one.
        if refusal.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise
    else:
        return of_consumer(consumer.groups[0], await coordinators.find(group_id, admin.calls.left_ms(deadline_ms)))
    request = DescribeGroupsRequest(groups=(group_id,))
    try:
        classic = await coordinators.call(group_id, DESCRIBE_GROUPS, request, deadline_ms, _check_groups)
    except Refusal as refusal:
        if refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            # The broker's message is about one protocol, and the group was looked for in both.
            raise Refusal(refusal.error_code, f"there is no group {group_id!r}") from None
        raise
    return of_classic(classic.groups[0], await coordinators.find(group_id, admin.calls.left_ms(deadline_ms)))


def _check_groups(response: _Groups) -> None:
    for group in response.groups:
        check(group.error_code, group.error_message)


def _check_deletions(response: DeleteGroupsResponse) -> None:
    for result in response.results:
        check(result.error_code, _NOT_DELETED.get(result.error_code, "").format(result.group_id))


def _outcomes(results: OffsetCommitResponse | OffsetDeleteResponse, done: str) -> dict[TopicPartition, Refusal | None]:
    outcomes: dict[TopicPartition, Refusal | None] = {}
    for topic in results.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            is_done = each.error_code == ErrorCode.NONE
            what = f"the offset of {partition} was not {done}"
            outcomes[partition] = None if is_done else partition_refusal(what, error_code(each.error_code))
    return outcomes


def _refusal(code: ErrorCode) -> Refusal | None:
    return None if code is ErrorCode.NONE else Refusal(code, code.name)
