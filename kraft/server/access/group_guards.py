"""Guards of the APIs for groups: READ to be a member or to commit, DESCRIBE to look, DELETE to delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from kraft.coordinator.offsets.fetch import without_offset
from kraft.metadata.image import CurrentImage, MetadataImage
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.group_lags import DescribeGroupLagsRequest, DescribeGroupLagsResponse, GroupLag
from kraft.server.access.asker import Asker
from kraft.server.access.group_askers import GroupAskers
from kraft.server.access.guard import (
    ASKED_AT_ONCE,
    Guard,
    Permission,
    Proceed,
    asked,
    group_needs,
    part_by_part,
    required,
    topic_needs,
)
from kraft.server.handlers import committed_offsets, consumer_groups, find_coordinator, group_lags, groups
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema import consumer_group_describe as of_consumer
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kraft.wire.schema.delete_groups import DeletableGroupResult
from kraft.wire.schema.describe_groups import DescribeGroupsResponse
from kraft.wire.schema.list_groups import ListGroupsResponse
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseTopics

_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC

# --- coordinators ----------------------------------------------------------------------------------------------------

_KEYS: Final = {
    CoordinatorType.GROUP: group_needs(Operation.DESCRIBE),
    CoordinatorType.TRANSACTION: Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
}


async def find_coordinators(asker: Asker, request: Any, proceed: Proceed) -> Any:
    """DESCRIBE on each group or transactional id, by the type of the keys. Other types are refused by the handler."""
    permission = _KEYS.get(request.key_type)
    if permission is None:
        return await proceed(request)
    return await _coordinators_of(permission)(asker, request, proceed)


def _coordinators_of(permission: Permission) -> Guard:
    return part_by_part(
        permission,
        parts="coordinator_keys",
        name=str,
        refused=find_coordinator.refused_key,
        answers="coordinators",
    )


# --- groups ----------------------------------------------------------------------------------------------------------


async def list_groups(asker: Asker, request: Any, proceed: Proceed) -> ListGroupsResponse:
    """DESCRIBE on the cluster shows every group, DESCRIBE on a group that one. The others are left out."""
    response: ListGroupsResponse = await proceed(request)
    if asker.may_on_cluster(Operation.DESCRIBE):
        return response
    visible, _ = await asked(response.groups, lambda group: asker.may(Operation.DESCRIBE, _GROUP, group.group_id))
    return replace(response, groups=visible)


_described_groups: Final = part_by_part(
    group_needs(Operation.DESCRIBE), parts="groups", name=str, refused=groups.refused_group, answers="groups"
)


async def describe_groups(asker: Asker, request: Any, proceed: Proceed) -> DescribeGroupsResponse:
    """DESCRIBE on each group."""
    response: DescribeGroupsResponse = await _described_groups(asker, request, proceed)
    shown: DescribeGroupsResponse = await _with_operations(asker, request, response)
    return shown


_described_consumer_groups: Final = part_by_part(
    group_needs(Operation.DESCRIBE),
    parts="group_ids",
    name=str,
    refused=consumer_groups.refused_group,
    answers="groups",
)


async def describe_consumer_groups(
    asker: Asker, request: of_consumer.ConsumerGroupDescribeRequest, proceed: Proceed
) -> of_consumer.ConsumerGroupDescribeResponse:
    """DESCRIBE on each group, and on all topics that its members have or will have: or the group is not shown."""
    response = await _described_consumer_groups(asker, request, proceed)
    turns, shown = Turns(ASKED_AT_ONCE), []
    for group in response.groups:
        names = set[str]()
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                names.update(topic.topic_name for topic in assignment.topic_partitions)
                await turns.done(len(assignment.topic_partitions))
        _, hidden = await asked(names, lambda name: asker.may(Operation.DESCRIBE, _TOPIC, name))
        asker.is_refused(Operation.DESCRIBE, _TOPIC, hidden)
        shown.append(consumer_groups.refused_group(group.group_id, _HAS_HIDDEN_TOPICS) if hidden else group)
    found: of_consumer.ConsumerGroupDescribeResponse = await _with_operations(
        asker, request, replace(response, groups=tuple(shown))
    )
    return found


_HAS_HIDDEN_TOPICS: Final = Refusal(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "members of the group have topics that you have no permission to describe"
)


async def _with_operations(asker: Asker, request: Any, response: Any) -> Any:
    """Fill in the operations on each group that is shown, if the request asks for them."""
    if not request.include_authorized_operations:
        return response
    turns, shown = Turns(ASKED_AT_ONCE), []
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group = replace(group, authorized_operations=asker.operations_on(_GROUP, group.group_id))
        shown.append(group)
        await turns.done(5)
    return replace(response, groups=tuple(shown))


def _not_deleted(group_id: str, refusal: Refusal) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=refusal.error_code)


async def describe_group_lags(asker: Asker, request: DescribeGroupLagsRequest, proceed: Proceed) -> Any:
    """DESCRIBE on each group, and on each topic: of others nothing is told. All groups are those one may describe."""
    describe: Final = Operation.DESCRIBE
    allowed, refused = await asked(request.group_ids, lambda group: asker.may(describe, _GROUP, group))
    answers = list[GroupLag]()
    if allowed or not refused:
        response: DescribeGroupLagsResponse = await proceed(DescribeGroupLagsRequest(group_ids=list(allowed)))
        answers = response.groups
    if not request.group_ids:
        answers = list((await asked(answers, lambda each: asker.may(describe, _GROUP, each.group_id))).allowed)
    told = [await _visible_lag(asker, each) for each in answers]
    told += (group_lags.refused_group(each, asker.refusal(describe, _GROUP, each)) for each in refused)
    return DescribeGroupLagsResponse(groups=told)


async def _visible_lag(asker: Asker, group: GroupLag) -> GroupLag:
    visible, hidden = await asked(group.partitions, lambda each: asker.may(Operation.DESCRIBE, _TOPIC, each.topic))
    return group_lags.group_lag(group.group_id, list(visible)) if hidden else group


delete_groups: Final = part_by_part(
    group_needs(Operation.DELETE), parts="groups_names", name=str, refused=_not_deleted, answers="results"
)

# --- members ---------------------------------------------------------------------------------------------------------


def consumer_group_heartbeat(of_groups: GroupAskers) -> Guard:
    """READ on the group, and DESCRIBE on each topic that the member subscribes to by name: or nothing at all.

    Of the topics that match its regular expression, the group gets those that the member may describe.
    """

    async def guard(asker: Asker, request: ConsumerGroupHeartbeatRequest, proceed: Proceed) -> Any:
        asker.require(Operation.READ, _GROUP, request.group_id)
        _, hidden = await asked(
            request.subscribed_topic_names or (), lambda name: asker.may(Operation.DESCRIBE, _TOPIC, name)
        )
        if hidden:
            raise asker.refusal(Operation.DESCRIBE, _TOPIC, hidden[0])
        response = await proceed(request)
        # Not of a heartbeat that was refused. Nothing has had a turn since the handler began to resolve expressions.
        of_groups.heard(request.group_id, asker.requester)
        return response

    return guard


# --- offsets ---------------------------------------------------------------------------------------------------------


def _name(topic: Any, image: MetadataImage) -> str | None:
    """Return the name of a topic as a request has it; None for an id that no topic has, which the handler refuses."""
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    if topic.name or topic_id == ZERO_UUID:
        return str(topic.name)
    found = image.topic_by_id(topic_id)
    return None if found is None else found.topic


def _raised(_: Any, refusal: Refusal) -> NoReturn:
    raise refusal


def offsets_guard(
    image: CurrentImage,
    needs: tuple[Permission, ...],
    refused: Callable[[Any, Refusal], Any],
    *,
    refused_whole: Callable[[Any, Refusal], Any] = _raised,
) -> Guard:
    """All of `needs` but the last, which is asked for each topic, by its name or the name of its id.

    `refused` returns the response to a request that is refused with all its topics. `refused_whole` returns that to the
    part of it that may be answered, if the handler refuses this: the other topics keep their own error.
    """
    of_whole = required(needs[:-1])
    operation, resource_type = needs[-1]

    async def guard(asker: Asker, request: Any, proceed: Proceed) -> Any:
        known = image()

        def may(topic: Any) -> bool:
            name = _name(topic, known)
            return name is None or asker.may(operation, resource_type, name)

        async def each(request: Any) -> Any:
            allowed, not_allowed = await asked(request.topics, may)
            if not not_allowed:
                return await proceed(request)
            # A topic that is given by its id is not named.
            refusal = asker.refusal(operation, resource_type, not_allowed[0].name)
            more = refused(replace(request, topics=not_allowed), refusal)
            smaller = replace(request, topics=allowed)
            try:
                response = await proceed(smaller)
            except Refusal as whole:
                response = refused_whole(smaller, whole)
            return replace(response, topics=(*response.topics, *more.topics))

        return await of_whole(asker, request, each)

    return guard


def offset_fetch(image: CurrentImage) -> Guard:
    """DESCRIBE on each group and on each topic. All topics of a group are those that the client may describe."""
    describe: Final = Operation.DESCRIBE

    async def guard(asker: Asker, request: OffsetFetchRequest, proceed: Proceed) -> OffsetFetchResponse:
        known = image()

        def may(topic: Any) -> bool:
            name = _name(topic, known)
            return name is None or asker.may(describe, _TOPIC, name)

        allowed, refused = await asked(request.groups, lambda each: asker.may(describe, _GROUP, each.group_id))
        parts, hidden = [], {}
        for group in allowed:
            if group.topics is not None:
                visible, hidden[group.group_id] = await asked(group.topics, may)
                group = replace(group, topics=visible)
            parts.append(group)
        response: OffsetFetchResponse = await proceed(replace(request, groups=tuple(parts)))
        for topics in hidden.values():
            asker.is_refused(describe, _TOPIC, [_name(each, known) or "" for each in topics])
        answers = []
        for fetched in response.groups:
            if fetched.error_code == ErrorCode.NONE:
                topics = fetched.topics
                if fetched.group_id not in hidden:
                    topics, _ = await asked(topics, may)
                more = map(_hidden_topic, hidden.get(fetched.group_id, ()))
                fetched = replace(fetched, topics=(*topics, *more))
            answers.append(fetched)
        asker.is_refused(describe, _GROUP, [each.group_id for each in refused])
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        not_fetched = (committed_offsets.not_fetched(each.group_id, code) for each in refused)
        return replace(response, groups=(*answers, *not_fetched))

    return guard


def _hidden_topic(topic: Any) -> Any:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            without_offset(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each in topic.partition_indexes
        ),
    )


def offset_delete(image: CurrentImage) -> Guard:
    """DELETE on the group, and READ on each topic."""
    needs = (group_needs(Operation.DELETE), topic_needs(Operation.READ))
    return offsets_guard(image, needs, committed_offsets.topics_not_deleted)
