"""Checks of what members claim: each raises the refusal that Kafka answers with."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.consumer.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEFT_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerGroupMember,
)
from kraft.coordinator.consumer.requests import CLIENT_MEMBER_ID_VERSION, ConsumerHeartbeat
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_refusals import empty_group_id, group_not_empty
from kraft.coordinator.offsets.committer import MEMBER_EPOCHS_FROM, Committer
from kraft.model.errors import ErrorCode, Refusal

TOPIC_NAMES_MAX: Final = 4_096
"""Limit on the topics that a member names: a decision on its heartbeat takes some microseconds for each of them."""


def check_request(request: ConsumerHeartbeat, settings: GroupSettings) -> None:
    """Check what can be checked without the group."""
    _check_ids(request)
    _require(request.rebalance_timeout_ms >= -1, "the rebalance timeout is negative")
    check_topic_names(request.topics or ())
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEFT_STATIC_EPOCH:
        _require(request.instance_id is not None, "a member without an instance id cannot leave as a static member")
    else:
        _require(epoch >= LEAVE_EPOCH, f"the member epoch {epoch} is not valid")
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        supported = ", ".join(settings.assignors)
        message = f"assignor {request.server_assignor!r} is not supported: use one of {supported}"
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def check_topic_names(names: Collection[str]) -> None:
    message = f"a member may name {TOPIC_NAMES_MAX} topics, not {len(names)}: use a regular expression"
    _require(len(names) <= TOPIC_NAMES_MAX, message)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refusal(ErrorCode.INVALID_REQUEST, message)


def _check_ids(request: ConsumerHeartbeat) -> None:
    needs_member_id = (
        request.api_version >= CLIENT_MEMBER_ID_VERSION
        or request.member_epoch > JOIN_EPOCH
        or request.member_epoch == LEAVE_EPOCH
    )
    _require(bool(request.member_id) or not needs_member_id, "the member id is empty")
    if not request.group_id:
        raise empty_group_id(ErrorCode.INVALID_REQUEST)
    _require(request.instance_id != "", "the instance id is empty")
    _require(request.rack_id != "", "the rack id is empty")


def _check_join(request: ConsumerHeartbeat) -> None:
    _require(request.rebalance_timeout_ms != -1, "a member that joins has to give its rebalance timeout")
    owns_nothing = request.owned is not None and not request.owned
    _require(owns_nothing, "a member that joins must own no partitions, and has to say so")
    subscribes = request.topics is not None or request.topic_regex is not None
    _require(subscribes, "a member that joins has to give topic names or a regular expression")


def check_size(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> None:
    if len(group.members) >= settings.members_max and member_id not in group.members:
        message = (
            f"group {group.group_id!r} has {settings.members_max} members already: "
            "raise group.consumer.max.size of the brokers"
        )
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None:
        message = f"group {group.group_id!r} has no member {member_id!r}: join again"
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def known_static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerGroupMember:
    """Return the member with the instance id, if its member id is the given one."""
    member = group.static_member(instance_id)
    if member is None:
        message = f"group {group.group_id!r} has no member with the instance id {instance_id!r}: join again"
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    if member.member_id != member_id:
        message = f"member {member_id!r} was fenced: member {member.member_id!r} has instance id {instance_id!r} now"
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, message)
    return member


def check_released(member: ConsumerGroupMember, member_id: str) -> None:
    """Check that the static member has left, so that another can take its place. A classic one does not report it."""
    if member.epoch != LEFT_STATIC_EPOCH and member.classic is None:
        message = (
            f"member {member_id!r} cannot join: member {member.member_id!r} has its instance id {member.instance_id!r}"
        )
        raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def check_epoch(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> None:
    """Check the epoch of a heartbeat: it is the member's, or the one before if the last response may have been lost."""
    if request.member_epoch != member.epoch and not may_have_missed_response(member, request):
        message = (
            f"the member epoch is {member.epoch}, not {request.member_epoch}: "
            f"member {member.member_id!r} has to give up its partitions and join again"
        )
        raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def may_have_missed_response(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> bool:
    """Return whether the heartbeat is of the previous epoch, and the member owns nothing but what is assigned to it."""
    epoch = request.member_epoch
    is_previous = epoch < member.epoch and epoch == member.previous_epoch
    return is_previous and request.owned is not None and request.owned <= member.assigned


def may_join_again(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> bool:
    """Return whether a member that is in the group may join: it may not have heard that it is."""
    return may_have_missed_response(member, request) or member.is_unheard


# --- offsets ---------------------------------------------------------------------------------------------------------


def check_offset_commit(group: ConsumerGroup, committer: Committer, partitions: Partitions) -> None:
    """Check who commits offsets: a member; without an epoch, anybody while the group is empty.

    A member that has not heard of its epoch yet may commit for partitions that it got before and still owns (KIP-1251).
    """
    epoch = committer.generation
    if epoch < 0 and not group.members:
        return
    nobody = epoch == -1 and not committer.member_id and committer.group_instance_id is None
    if nobody and committer.is_transactional:
        return
    member = known_member(group, committer.member_id)
    is_old = committer.api_version < MEMBER_EPOCHS_FROM and member.classic is None
    if is_old and not committer.is_transactional:
        message = f"members of the consumer protocol need OffsetCommit version {MEMBER_EPOCHS_FROM} or later"
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, message)
    if not _is_owner_since(member, epoch, partitions):
        _check_current_epoch(member, epoch)
        _check_no_other_owner(group, member, partitions)


def _is_owner_since(member: ConsumerGroupMember, epoch: int, partitions: Partitions) -> bool:
    """Return whether the member owned all the partitions in an earlier epoch, and has owned them since."""
    owned = member.assignment_epochs
    return 0 < epoch < member.epoch and all(owned.get(partition, member.epoch) <= epoch for partition in partitions)


def _check_no_other_owner(group: ConsumerGroup, member: ConsumerGroupMember, partitions: Partitions) -> None:
    """Check that no other member owns any of the partitions.

    A member stays in its epoch while it gives up partitions more than once. A commit that is late then comes in its
    current epoch, and would take back what the next owner has committed meanwhile.
    """
    others = (group.owners.get(partition, member.member_id) for partition in partitions)
    other = next((owner for owner in others if owner != member.member_id), None)
    if other is not None:
        raise _stale(member, f"member {member.member_id!r} commits for partitions that member {other!r} owns now")


def check_offset_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Check who fetches offsets: a member in its epoch, or anybody who names neither a member nor an epoch."""
    if member_id is None and member_epoch < 0:
        return
    _check_current_epoch(known_member(group, member_id or ""), member_epoch)


def _check_current_epoch(member: ConsumerGroupMember, member_epoch: int) -> None:
    if member_epoch != member.epoch:
        raise _stale(member, f"the epoch of member {member.member_id!r} is {member.epoch}, not {member_epoch}")


def _stale(member: ConsumerGroupMember, message: str) -> Refusal:
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return Refusal(code, message)


def check_deletion(group: ConsumerGroup) -> None:
    """Check that the group can be deleted."""
    if group.members:
        raise group_not_empty(group.group_id)
