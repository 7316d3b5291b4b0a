"""Queries: what is answered from the state without a decision. Nothing is shown before it is committed if the caller
gives the committed state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.views import described
from kraft.coordinator.consumer.checks import check_offset_fetch
from kraft.coordinator.consumer.description import describe
from kraft.coordinator.consumer.requests import ConsumerGroupDescription
from kraft.coordinator.group_refusals import no_group, not_of_protocol
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.wire.schema.describe_groups import DescribedGroup
from kraft.wire.schema.list_groups import ListedGroup

_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
"""Kafka's names of a group's type."""


def check_fetch(groups: Groups, group_id: str, member_id: str | None = None, member_epoch: int = -1) -> None:
    """Check who fetches offsets of a group: anybody, but a member of the consumer protocol in its epoch.

    Raises Refusal: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for one that uses the classic protocol.
    """
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        check_offset_fetch(consumer, member_id, member_epoch)


def list_groups(groups: Groups, volatile: GroupsVolatile) -> Iterator[ListedGroup]:
    """Yield every group once, in no particular order."""
    for group_id, consumer in groups.consumer.items():
        yield ListedGroup(
            group_id=group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=consumer.state.value,
            group_type=_CONSUMER,
        )
    for group_id, classic in volatile.classic.items():
        if group_id not in groups.consumer:  # The committed state may still have what the group was before.
            yield _listed_classic(group_id, classic)
    for group_id in groups.offsets.all_groups():
        if group_id not in groups.consumer and group_id not in volatile.classic:
            yield _listed_classic(group_id, None)


def _listed_classic(group_id: str, group: ClassicGroup | None) -> ListedGroup:
    return ListedGroup(
        group_id=group_id,
        protocol_type="" if group is None else group.protocol_type or "",
        group_state=(ClassicGroupState.EMPTY if group is None else group.state).value,
        group_type=_CLASSIC,
    )


def describe_classic(groups: Groups, volatile: GroupsVolatile, group_id: str) -> DescribedGroup:
    """Return the group of the classic protocol. Raises Refusal GROUP_ID_NOT_FOUND."""
    group = volatile.classic.get(group_id)
    if group is None and groups.offsets.has_group(group_id) and group_id not in groups.consumer:
        group = ClassicGroup(group_id=group_id)
    if group is None:
        raise not_of_protocol(group_id, "classic")
    return described(group)


def describe_consumer(
    groups: Groups, volatile: GroupsVolatile, group_id: str, settings: GroupShardSettings
) -> ConsumerGroupDescription:
    """Return the group of the consumer protocol. Raises Refusal GROUP_ID_NOT_FOUND."""
    group = groups.consumer.get(group_id)
    if group is not None:
        return describe(group, settings.of_group(group_id))
    if group_id in volatile.classic or groups.offsets.has_group(group_id):
        raise not_of_protocol(group_id, "consumer")
    raise no_group(group_id)
