"""The memory that groups of the consumer protocol take, as an estimate that follows each change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.classic.memory import GROUP_BYTES, MEMBER_BYTES, PROTOCOL_BYTES, text_bytes
from kraft.coordinator.consumer.group import JOIN_EPOCH, ConsumerGroup, ConsumerGroupMember, ResolvedRegex
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.metadata.persistent_maps import PersistentMap

NAME_BYTES: Final = 150
"""Memory of a topic name in a set of them, and in the counts of the group, besides its text."""

OWNED_BYTES: Final = 300
"""Memory of a partition that a member owns, with its epoch and its owner."""

TARGET_BYTES: Final = 100
"""Memory of a partition in a target assignment."""

Key = TypeVar("Key")
Part = TypeVar("Part")

_NOTHING: Final = ConsumerGroup(group_id="")


def wanted_bytes(group: ConsumerGroup | None, request: ConsumerHeartbeat) -> int:
    """Return how much more memory the group may take after the request than before, without what it will assign."""
    if request.member_epoch < JOIN_EPOCH:
        return 0
    known = group or _NOTHING
    added = GROUP_BYTES + text_bytes(request.group_id) if group is None else 0
    member = known.members.get(request.member_id)
    if member is not None:
        added += _more_bytes(request, member)
    elif request.member_epoch == JOIN_EPOCH:
        texts = (request.member_id, request.instance_id, request.rack_id, request.client_id, request.client_host)
        added += MEMBER_BYTES + text_bytes(request.group_id, *texts)
    if request.topics and request.topics not in known.subscriptions:
        added += _names_bytes(request.topics)
    is_known = request.topic_regex is not None and request.topic_regex in known.regex_counts
    return added if is_known else added + text_bytes(request.topic_regex)


def _more_bytes(request: ConsumerHeartbeat, member: ConsumerGroupMember) -> int:
    """Return how much longer the texts are that the member gives about itself. Its address does not count: a member
    that moves goes on."""
    given = (
        (request.instance_id, member.instance_id),
        (request.rack_id, member.rack_id),
        (request.client_id, member.client_id),
    )
    return sum(max(text_bytes(new) - text_bytes(old), 0) for new, old in given)


def added_bytes(before: ConsumerGroup | None, after: ConsumerGroup | None) -> int:
    """Return how much more memory a group takes than before; None is a group that does not exist."""
    group_id = (before or after or _NOTHING).group_id
    old, new = before or _NOTHING, after or _NOTHING
    return (
        ((after is not None) - (before is not None)) * (GROUP_BYTES + text_bytes(group_id))
        + _added(old.members, new.members, lambda _, member: member_bytes(group_id, member))
        + _added(old.targets, new.targets, lambda _, target: _target_bytes(target))
        + _added_names(old, new)
        + _added(old.regexes, new.regexes, _regex_bytes)
    )


def member_bytes(group_id: str, member: ConsumerGroupMember) -> int:
    """Return the memory of a member, besides what it shares with others: the topics that it subscribes to."""
    texts = (group_id, member.member_id, member.instance_id, member.rack_id, member.client_id, member.client_host)
    offered = () if member.classic is None else member.classic.offered
    protocols = (PROTOCOL_BYTES + text_bytes(each.name) + len(each.metadata) for each in offered)
    owned = len(member.assigned) + len(member.pending_revocation)
    return MEMBER_BYTES + text_bytes(*texts, member.topic_regex) + sum(protocols) + OWNED_BYTES * owned


def _added(before: PersistentMap[Key, Part], after: PersistentMap[Key, Part], size: Callable[[Key, Part], int]) -> int:
    if before is after:
        return 0
    return sum(
        (size(key, after[key]) if key in after else 0) - (size(key, before[key]) if key in before else 0)
        for key in after.differing_keys(before)
    )


def _added_names(before: ConsumerGroup, after: ConsumerGroup) -> int:
    """Return the memory of the subscriptions that came, less that of those that went. Most joins add none."""
    if before.subscriptions is after.subscriptions:
        return 0
    changes = (
        (names, (names in after.subscriptions) - (names in before.subscriptions))
        for names in after.subscriptions.differing_keys(before.subscriptions)
    )
    return sum(change * _names_bytes(names) for names, change in changes if change)


def _target_bytes(target: Partitions) -> int:
    return TARGET_BYTES * len(target)


def _names_bytes(names: Collection[str]) -> int:
    return NAME_BYTES * len(names) + text_bytes(*names)


def _regex_bytes(regex: str, resolved: ResolvedRegex) -> int:
    return text_bytes(regex) + _names_bytes(resolved.topics)
