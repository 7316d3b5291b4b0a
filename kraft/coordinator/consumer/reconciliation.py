"""The state machine of a member on its way from its current to its target assignment.

A member first gives up what is not in its target, in its old epoch. Once its heartbeat shows that it has, it enters the
epoch of the target assignment, and gets each partition as soon as no other member owns it.

Source: KIP-848, and `CurrentAssignmentBuilder` in Kafka.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.coordinator.consumer.group import Member, MemberState
from kraft.model.ids import TopicId


class Goal(Struct, frozen=True, kw_only=True):
    """The target of a member, and what its way there depends on."""

    assignment_epoch: int
    target: Partitions
    topics: Container[TopicId]
    """The topics that the member subscribes to now."""

    owners: Mapping[Partition, str]
    """The owner of each partition that has one."""


def reconciled(member: Member, goal: Goal, owned: Partitions | None, *, subscription_changed: bool) -> Member:
    """Return the member after its heartbeat; `owned` is what the heartbeat says it owns, None if it does not say."""
    after = _one_step(member, goal, owned, subscription_changed=subscription_changed)
    if after is member:
        return member
    epochs = {partition: member.assignment_epochs.get(partition, after.epoch) for partition in after.owned}
    return replace(after, assignment_epochs=epochs)


def _one_step(member: Member, goal: Goal, owned: Partitions | None, *, subscription_changed: bool) -> Member:
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    if member.is_reconciled(goal.assignment_epoch):
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    return _towards(member, goal, owned)


def _owns_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Return whether the member may own any of the partitions still."""
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))


def _without_unsubscribed(member: Member, goal: Goal, owned: Partitions | None) -> Member:
    """Take from the member what it has unsubscribed from, before there is a new target assignment."""
    unsubscribed = frozenset(partition for partition in member.assigned if partition[0] not in goal.topics)
    if not unsubscribed:
        return member
    kept = member.assigned - unsubscribed
    revoked = member.pending_revocation | unsubscribed
    return _revoking(member, kept, revoked) if _owns_any(owned, revoked) else replace(member, assigned=kept)


def _towards(member: Member, goal: Goal, owned: Partitions | None) -> Member:
    target = frozenset(partition for partition in goal.target if partition[0] in goal.topics)
    kept = member.assigned & target
    revoked = member.assigned - kept
    if _owns_any(owned, revoked):
        return _revoking(member, kept, revoked)
    wanted = target - kept
    # This member is still recorded as the owner of what it gives up in this step, and may get it again.
    free = frozenset(
        partition for partition in wanted if goal.owners.get(partition, member.member_id) == member.member_id
    )
    return replace(
        member,
        epoch=goal.assignment_epoch,
        previous_epoch=member.epoch if member.epoch != goal.assignment_epoch else member.previous_epoch,
        state=MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        pending_revocation=NO_PARTITIONS,
    )


def _revoking(member: Member, kept: Partitions, revoked: Partitions) -> Member:
    # A request of the epoch before the current one must not count from here on: it could have been sent before the
    # member got the partitions that it now has to give up, and would seem to say that it has.
    return replace(
        member,
        previous_epoch=member.epoch,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        pending_revocation=revoked,
    )
