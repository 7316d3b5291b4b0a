"""Steps of a request that are the same for members of both protocols.

The member's subscription is recorded, and the group's epoch is bumped if need be; then the member is led one step
towards its target assignment.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import METADATA_CHANGED, ConsumerDraft
from kraft.coordinator.consumer.group import JOIN_EPOCH, UNHEARD, ConsumerGroup, ConsumerGroupMember, MemberState
from kraft.coordinator.consumer.reconciliation import ReconciliationTarget, reconciled
from kraft.coordinator.group_events import MemberJoined, MemberReplaced
from kraft.metadata.image import MetadataImage


def replace_static_member(
    draft: ConsumerDraft, predecessor: ConsumerGroupMember, member_id: str
) -> ConsumerGroupMember:
    """Give the assignments of a static member that has left to the one that returns in its place."""
    target = draft.group.target(predecessor.member_id)
    member = replace(predecessor, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    draft.remove_member(predecessor)
    group_id = draft.group.group_id
    draft.emit(
        records.member_metadata(group_id, member),
        records.target_assignment(group_id, member_id, target),
        records.current_assignment(group_id, member),
    )
    draft.report(
        MemberReplaced(
            group_id=group_id,
            member_id=member_id,
            instance_id=predecessor.instance_id,
            replaced_id=predecessor.member_id,
        )
    )
    return member


def update_member(
    draft: ConsumerDraft, before: ConsumerGroupMember, after: ConsumerGroupMember, image: MetadataImage
) -> bool:
    """Record what the member says about itself, and bump the epoch if need be.

    Return whether its subscription changed.
    """
    is_new = after.member_id not in draft.group.members
    if is_new:
        draft.report(_joined(draft.group.group_id, after))
    if after != draft.group.members.get(after.member_id):
        draft.emit(records.member_metadata(draft.group.group_id, after))
    names_changed = after.topics != before.topics
    regex_changed = after.topic_regex != before.topic_regex
    if regex_changed:
        draft.remove_unused_regex(before.topic_regex)
    # An expression that has to be resolved first changes the assignment only then.
    regex_counts = regex_changed and (not after.topic_regex or after.topic_regex in draft.group.regexes)
    if names_changed or regex_changed:
        draft.explain(f"member {after.member_id} {'joined' if is_new else 'changed its subscription'}")
    new_hash = draft.group.metadata_hash_with(image)
    if names_changed or regex_counts or new_hash != draft.group.metadata_hash:
        draft.bump_epoch(new_hash, METADATA_CHANGED)
    return names_changed or regex_changed


def _joined(group_id: str, member: ConsumerGroupMember) -> MemberJoined:
    return MemberJoined(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )


def reconcile_member(
    draft: ConsumerDraft,
    member_id: str,
    owned: Partitions | None,
    image: MetadataImage,
    *,
    subscription_changed: bool,
    may_be_late: bool = False,
) -> ConsumerGroupMember:
    """Lead the member one step towards its target; `owned` is what it says it owns, None if it does not say.

    If the request may be a late copy, the member may not hear of this step.
    """
    group = draft.group
    before = group.members[member_id]
    target = ReconciliationTarget(
        assignment_epoch=group.assignment_epoch,
        partitions=group.target(member_id),
        topics=group.topics_of(before, image),
        owners=group.owners,
    )
    after = reconciled(before, target, owned, subscription_changed=subscription_changed)
    if may_be_late and after != before and _may_be_unheard(group, before, after):
        after = replace(after, previous_epoch=UNHEARD)
    if after != before:
        draft.emit(records.current_assignment(group.group_id, after))
    if after != before and after.classic is None:  # A classic member has its time to join again instead.
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            draft.start_rebalance(after)
        else:
            draft.stop_rebalance(before)
    return after


def _may_be_unheard(group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
    """Return whether a process may be in the epoch already that the step leads to.

    If a late copy brings back a member that was removed, its process may be, until the group has an assignment of a
    later epoch than that of the removal.
    """
    return group.is_due if before.epoch == JOIN_EPOCH else after.epoch == before.epoch
