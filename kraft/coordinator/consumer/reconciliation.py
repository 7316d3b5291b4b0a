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
from kraft.coordinator.consumer.group import ConsumerGroupMember, MemberState
from kraft.model.ids import TopicId


class ReconciliationTarget(Struct, frozen=True, kw_only=True):
    """The target assignment of a member, and what its way there depends on."""

    assignment_epoch: int
    partitions: Partitions
    topics: Container[TopicId]
    """The topics that the member subscribes to now."""

    owners: Mapping[Partition, str]
    """The owner of each partition that has one."""


def reconciled(
    member: ConsumerGroupMember, target: ReconciliationTarget, owned: Partitions | None, *, subscription_changed: bool
) -> ConsumerGroupMember:
    """Return the member after its heartbeat; `owned` is what the heartbeat says it owns, None if it does not say."""
    after = _one_step(member, target, owned, subscription_changed=subscription_changed)
    if after is member:
        return member
    epochs = {partition: member.assignment_epochs.get(partition, after.epoch) for partition in after.owned}
    return replace(after, assignment_epochs=epochs)


def _one_step(
    member: ConsumerGroupMember, target: ReconciliationTarget, owned: Partitions | None, *, subscription_changed: bool
) -> ConsumerGroupMember:
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    if member.is_reconciled(target.assignment_epoch):
        return _without_unsubscribed(member, target, owned) if subscription_changed else member
    return _towards(member, target, owned)


def _owns_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Return whether the member may own any of the partitions still."""
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))


def _without_unsubscribed(
    member: ConsumerGroupMember, target: ReconciliationTarget, owned: Partitions | None
) -> ConsumerGroupMember:
    """Take from the member what it has unsubscribed from, before there is a new target assignment."""
    unsubscribed = frozenset(partition for partition in member.assigned if partition[0] not in target.topics)
    if not unsubscribed:
        return member
    kept = member.assigned - unsubscribed
    revoked = member.pending_revocation | unsubscribed
    return _revoking(member, kept, revoked) if _owns_any(owned, revoked) else replace(member, assigned=kept)


def _towards(
    member: ConsumerGroupMember, target: ReconciliationTarget, owned: Partitions | None
) -> ConsumerGroupMember:
    subscribed = frozenset(partition for partition in target.partitions if partition[0] in target.topics)
    kept = member.assigned & subscribed
    revoked = member.assigned - kept
    if _owns_any(owned, revoked):
        return _revoking(member, kept, revoked)
    wanted = subscribed - kept
    # This member is still recorded as the owner of what it gives up in this step, and may get it again.
    free = frozenset(
        partition for partition in wanted if target.owners.get(partition, member.member_id) == member.member_id
    )
    return replace(
        member,
        epoch=target.assignment_epoch,
        previous_epoch=member.epoch if member.epoch != target.assignment_epoch else member.previous_epoch,
        state=MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        pending_revocation=NO_PARTITIONS,
    )


def _revoking(member: ConsumerGroupMember, kept: Partitions, revoked: Partitions) -> ConsumerGroupMember:
    # A request of the epoch before the current one must not count from here on: it could have been sent before the
    # member got the partitions that it now has to give up, and would seem to say that it has.
    return replace(
        member,
        previous_epoch=member.epoch,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        pending_revocation=revoked,
    )
