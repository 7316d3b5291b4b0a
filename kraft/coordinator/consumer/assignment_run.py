"""Computes the target assignment of a large group beside the shard, and brings it back in slices.

Other requests, also of the group, go on meanwhile (ADR 32). A slice has as many partitions as are recorded in some
milliseconds, and fits into a batch. The last slice ends the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import ConsumerDraft
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import changed_targets
from kraft.coordinator.group_records import ConsumerGroupTargetAssignmentMemberValue
from kraft.coordinator.shard import DecisionContext
from kraft.metadata.image import MetadataImage

_PARTITIONS_PER_MEMBER: Final = 4
"""Share of a member in the size of a slice, in addition to its partitions."""


class MemberTarget(Struct, frozen=True):
    """The target of one member, as it is recorded."""

    member_id: str
    instance_id: str | None
    value: ConsumerGroupTargetAssignmentMemberValue


class TakeTargets(Struct, frozen=True, kw_only=True):
    """A slice of the target assignment that a run has computed; the response says whether the run goes on."""

    group_id: str
    run_id: str
    epoch: int
    """The group's epoch at the beginning of the run."""

    targets: tuple[MemberTarget, ...] = ()
    is_last: bool = False


class GiveUpRun(Struct, frozen=True, kw_only=True):
    """The run has failed; the response is None."""

    group_id: str
    run_id: str


class AssignmentRun(Struct, frozen=True, kw_only=True):
    """One computation of a target assignment, from immutable values: `Work` of the shard."""

    run_id: str
    group: ConsumerGroup
    image: MetadataImage
    settings: GroupSettings

    def commands(self) -> list[TakeTargets]:
        slices = [
            TakeTargets(
                group_id=self.group.group_id, run_id=self.run_id, epoch=self.group.epoch, targets=tuple(targets)
            )
            for targets in self._slices()
        ]
        last = TakeTargets(group_id=self.group.group_id, run_id=self.run_id, epoch=self.group.epoch, is_last=True)
        return [*slices, last]

    def failed(self) -> GiveUpRun:
        return GiveUpRun(group_id=self.group.group_id, run_id=self.run_id)

    def _slices(self) -> Iterator[list[MemberTarget]]:
        targets: list[MemberTarget] = []
        size = 0
        for member_id, partitions in changed_targets(self.group, self.image, self.settings).items():
            targets.append(
                MemberTarget(
                    member_id, self.group.members[member_id].instance_id, records.target_assignment_value(partitions)
                )
            )
            size += _PARTITIONS_PER_MEMBER + len(partitions)
            if size >= self.settings.partitions_per_slice:
                yield targets
                targets, size = [], 0
        if targets:
            yield targets


def is_late(group: ConsumerGroup, slice_: TakeTargets) -> bool:
    """Return whether the group has a target assignment of this epoch, or of a later one."""
    return slice_.epoch <= group.assignment_epoch


def take(draft: ConsumerDraft, slice_: TakeTargets, context: DecisionContext) -> None:
    """Record a slice. The assignment is that of the epoch in which the run began, whatever the group's is now."""
    group = draft.group
    for target in slice_.targets:
        member_id = _current_id(group, target)
        if member_id is not None:
            draft.emit(records.target_assignment_of(group.group_id, member_id, target.value))
    if slice_.is_last:
        draft.emit(records.assignment_epoch(group.group_id, slice_.epoch, context.now_ms))


def _current_id(group: ConsumerGroup, target: MemberTarget) -> str | None:
    """Return the id of the member now: a static one may have been replaced; None if it has left."""
    if target.member_id in group.members:
        return target.member_id
    return None if target.instance_id is None else group.instances.get(target.instance_id)
