"""The coordinator of groups with one guard removed at a time, to show that each guard is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kraft.coordinator import shard_machine
from kraft.coordinator.classic import offset_commits, static_members, sync
from kraft.coordinator.classic import rebalance as classic_rebalance
from kraft.coordinator.classic.draft import ClassicDraft
from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.validation import validate_member
from kraft.coordinator.consumer import assignment_run, checks, heartbeats, member_updates, reconciliation, targets
from kraft.coordinator.consumer.assignment_run import TakeTargets
from kraft.coordinator.consumer.group import JOIN_EPOCH, ConsumerGroup, ConsumerGroupMember
from kraft.coordinator.consumer.reconciliation import ReconciliationTarget
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.groups import offset_requests
from kraft.coordinator.shard import Reply
from kraft.coordinator.shard_effects import Effect, SendReplies
from kraft.coordinator.shard_machine import ShardMachine
from kraft.model.errors import Refusal
from tests.simulation.groups_host import Host, replayed
from tests.simulation.groups_world import World

Guard = Callable[[], AbstractContextManager[object]]


# --- the classic protocol --------------------------------------------------------------------------------------------


def committing_in_any_generation() -> AbstractContextManager[object]:
    """A member of the classic protocol commits whatever its generation is."""

    def any_generation(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Refusal | None:
        return validate_member(group, member_id, instance_id)

    return patch.object(offset_commits, "validate_generation", any_generation)


def committing_without_membership() -> AbstractContextManager[object]:
    """Anybody commits for a classic group."""
    return patch.object(offset_requests, "validate_offset_commit", lambda group, group_id, committer: None)


def syncing_in_any_generation() -> AbstractContextManager[object]:
    """A leader of an earlier generation assigns in the current one."""

    def any_generation(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Refusal | None:
        return validate_member(group, member_id, instance_id)

    return patch.object(sync, "validate_generation", any_generation)


def keeping_ids_of_static_members() -> AbstractContextManager[object]:
    """A static member that comes back has the member id of the process before it, which is not fenced then."""

    def rename(group: ClassicGroup, old_id: str, new_id: str) -> ClassicGroup:
        assert old_id == new_id
        return group

    @contextmanager
    def patched() -> Iterator[None]:
        new_member_id = ClassicDraft.new_member_id

        def kept(draft: ClassicDraft, name: str) -> str:
            return draft.group.static_members.get(name) or new_member_id(draft, name)

        with patch.object(ClassicDraft, "new_member_id", kept), patch.object(static_members, "rename_member", rename):
            yield

    return patched()


def repeating_generations() -> AbstractContextManager[object]:
    """A rebalance does not begin another generation."""
    return patch.object(classic_rebalance, "_next_generation", lambda generation: max(generation, 1))


# --- the consumer protocol -------------------------------------------------------------------------------------------


def committing_in_any_epoch() -> AbstractContextManager[object]:
    """A member of the consumer protocol commits whatever its epoch is."""
    return patch.object(checks, "_check_current_epoch", lambda member, member_epoch: None)


def committing_what_was_owned_once() -> AbstractContextManager[object]:
    """A member commits in an earlier epoch for any partition."""
    return patch.object(checks, "_is_owner_since", lambda member, epoch, partitions: 0 < epoch < member.epoch)


def committing_what_another_owns() -> AbstractContextManager[object]:
    """A late commit counts in the member's current epoch, also if the partition has another owner now."""
    return patch.object(checks, "_check_no_other_owner", lambda group, member, partitions: None)


def believing_heartbeats_of_any_epoch() -> AbstractContextManager[object]:
    """A late heartbeat counts like one of the current epoch."""
    stay = heartbeats._stay

    def as_if_current(draft: Any, request: ConsumerHeartbeat, *facts: Any) -> Any:
        member = draft.group.members.get(request.member_id)
        is_member = member is not None and member.epoch > 0
        current = replace(request, member_epoch=member.epoch) if is_member and request.member_epoch >= 0 else request
        return stay(draft, current, *facts)

    return patch.object(heartbeats, "_stay", as_if_current)


def telling_nothing_in_the_previous_epoch() -> AbstractContextManager[object]:
    """A heartbeat of the previous epoch counts as that of a member that has heard what it is assigned now."""
    knows_assignment = heartbeats._knows_assignment

    def as_if_current(request: ConsumerHeartbeat, member: ConsumerGroupMember) -> bool:
        is_previous = 0 < request.member_epoch < member.epoch
        return knows_assignment(replace(request, member_epoch=member.epoch) if is_previous else request, member)

    return patch.object(heartbeats, "_knows_assignment", as_if_current)


def telling_nothing_of_steps_within_an_epoch() -> AbstractContextManager[object]:
    """A member counts as having heard of each step within its epoch, also of those that late copies took."""
    may_be_unheard = member_updates._may_be_unheard

    def only_if_new(group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
        return before.epoch == JOIN_EPOCH and may_be_unheard(group, before, after)

    return patch.object(member_updates, "_may_be_unheard", only_if_new)


def telling_nothing_to_those_that_are_back() -> AbstractContextManager[object]:
    """A removed member that a late copy brings back counts as having heard that it owns nothing."""
    may_be_unheard = member_updates._may_be_unheard

    def only_if_old(group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember) -> bool:
        return before.epoch != JOIN_EPOCH and may_be_unheard(group, before, after)

    return patch.object(member_updates, "_may_be_unheard", only_if_old)


def taking_over_static_members() -> AbstractContextManager[object]:
    """A static member takes the place of one that has not left."""
    return patch.object(heartbeats, "check_released", lambda member, member_id: None)


def assigning_owned_partitions() -> AbstractContextManager[object]:
    """A member gets its target assignment before the owners have given it up."""
    towards = reconciliation._towards

    def ignore_owners(member: ConsumerGroupMember, goal: ReconciliationTarget, owned: Any) -> ConsumerGroupMember:
        return towards(member, replace(goal, owners={}), owned)

    return patch.object(reconciliation, "_towards", ignore_owners)


def revoking_without_wait() -> AbstractContextManager[object]:
    """A member loses partitions before it says that it has given them up."""
    return patch.object(reconciliation, "_owns_any", lambda owned, partitions: False)


# --- target assignments ----------------------------------------------------------------------------------------------


def assigning_in_the_current_epoch() -> AbstractContextManager[object]:
    """What a run has computed counts as the assignment of the epoch that the group is in at its end."""
    take = assignment_run.take

    def in_the_current_epoch(draft: Any, slice_: TakeTargets, context: Any) -> None:
        take(draft, replace(slice_, epoch=draft.group.epoch), context)

    return patch.object(assignment_run, "take", in_the_current_epoch)


def taking_late_assignments() -> AbstractContextManager[object]:
    """What a run has computed is taken after an assignment of a later epoch, too."""
    return patch.object(assignment_run, "is_late", lambda group, slice_: False)


def assigning_members_that_have_left() -> AbstractContextManager[object]:
    """What a run has computed is recorded for members that have left meanwhile, too."""
    return patch.object(assignment_run, "_current_id", lambda group, target: target.member_id)


def assigning_without_intervals() -> AbstractContextManager[object]:
    """A target assignment is computed with each heartbeat that needs one."""
    return patch.object(targets, "wait_ms", lambda assignment_ms, context, settings: 0)


# --- the host --------------------------------------------------------------------------------------------------------


def replying_at_once() -> AbstractContextManager[object]:
    """Replies do not wait until what was decided is committed."""

    def reply(shard: ShardMachine[Any, Any, Any, Any], replies: tuple[Reply, ...]) -> list[Effect[Any]]:
        return [SendReplies(replies)] if replies else []

    return patch.object(shard_machine.ShardMachine, "_reply", reply)


def replying_when_appended(host_type: type[Any] = Host) -> AbstractContextManager[object]:
    """Replies wait only until what was decided is in the leader's log."""
    append = host_type.append

    def append_and_answer(host: Any) -> None:
        append(host)
        host.advance_high_watermark(len(host.log))

    return patch.object(host_type, "append", append_and_answer)


def answering_reads_at_once() -> AbstractContextManager[object]:
    """A decision without records is answered before those it was made on are committed."""
    original = ShardMachine._take

    def take(shard: ShardMachine[Any, Any, Any, Any], decision: Any, written: Any, context: Any) -> list[Effect[Any]]:
        if written.records or not decision.replies:
            return original(shard, decision, written, context)
        return [*original(shard, replace(decision, replies=()), written, context), SendReplies(decision.replies)]

    return patch.object(ShardMachine, "_take", take)


def going_on_after_failed_appends() -> AbstractContextManager[object]:
    """After a failed append the state stays as it was decided."""

    append_failed = ShardMachine.append_failed

    def keep(shard: Any, reason: Refusal) -> list[Effect[Any]]:
        latest, volatile = shard.latest, shard.volatile
        *effects, _ = append_failed(shard, reason)
        shard.latest, shard.volatile = latest, volatile
        return effects

    return patch.object(ShardMachine, "append_failed", keep)


def loading_without_the_tail() -> AbstractContextManager[object]:
    """A new leader answers before all that it found in its log is committed."""
    replicate = World.replicate

    def load_first(world: World, batches: int | None = None) -> None:
        host = world.leader
        if host is not None and host.shard is None:
            world._load(host)
        replicate(world, batches)

    return patch.object(World, "replicate", load_first)


def loading_without_a_part() -> AbstractContextManager[object]:
    """A new leader replays only a part of its log."""

    def load(world: World, host: Host) -> None:
        host.load(replayed(host.log[: len(host.log) * 9 // 10]))

    return patch.object(World, "_load", load)
