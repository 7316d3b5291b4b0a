"""Looks at the commits of this broker's groups, and at the ends of the logs they are for, again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from kraft.coordinator.group_refusals import no_group, no_offsets
from kraft.coordinator.groups.owners import Owner, owners
from kraft.coordinator.groups.replicated import has_group
from kraft.coordinator.lag.tracker import LOOK_MS, LagTracker, Moment, PartitionLag
from kraft.metadata.image import CurrentImage
from kraft.model.ids import Offset, TopicPartition
from kraft.runtime.clock import Clock
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.loop.periods import period_end
from kraft.server.loop.turns import Turns

AT_ONCE: Final = 500
"""Partitions of groups that are looked at before other tasks have their turn, at 2 to 5 us each."""

TOLD_AT_ONCE: Final = 100
"""Partitions of groups that are judged before other tasks have their turn, at 20 us each with their commits."""

MEMBER: Final = 20
"""A member takes as long as so many partitions, and longer with a long assignment."""

AskForEnds = Callable[[Sequence[TopicPartition]], Awaitable[Iterable[tuple[TopicPartition, Offset]]]]
"""Returns the high watermarks of partitions; those that cannot be found out are left out."""


class GroupLags:
    def __init__(
        self,
        groups: GroupCoordinators,
        ask_for_ends: AskForEnds,
        image: CurrentImage,
        clock: Clock,
        look_interval_ms: int = LOOK_MS,
    ) -> None:
        self._groups = groups
        self._ask_for_ends = ask_for_ends
        self._image = image
        self._clock = clock
        self._look_interval_s = look_interval_ms / 1_000
        self._tracker = LagTracker(look_interval_ms)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await period_end(self._look_interval_s)
            await self.look()

    async def look(self) -> None:
        tracker, committed = self._tracker, self._groups.committed()
        turns = Turns(AT_ONCE)
        for gone in tracker.shards - committed.keys():
            for _ in tracker.forget(gone):
                await turns.done()
        for shard, groups in committed.items():
            for _ in tracker.note_commits(shard, groups.offsets.groups):
                await turns.done()
        if watched := tracker.watched():
            ends = await self._ask_for_ends(watched)
            for _ in tracker.note_ends(ends, self._clock.monotonic_ms()):
                await turns.done()

    def group_ids(self) -> list[str]:
        """Return the groups here that have committed offsets."""
        return sorted(group for each in self._groups.committed().values() for group in each.offsets.groups)

    async def of_group(self, group_id: str, turns: Turns) -> list[PartitionLag]:
        """Return how far a group is behind, partition by partition.

        Raises Refusal: as `GroupCoordinators.view`; GROUP_ID_NOT_FOUND if it has no committed offsets.
        """
        shard, groups = self._groups.committed_of(group_id)
        if group_id not in groups.offsets.groups:
            raise no_offsets(group_id) if has_group(groups, group_id) else no_group(group_id)
        found, now = [], Moment(self._clock.wall_ms(), self._clock.monotonic_ms())
        for each in self._tracker.lag_of(shard, group_id, groups.offsets.topics(group_id), now):
            found.append(each)
            await turns.done()
        return found

    async def owners(self, group_id: str, turns: Turns) -> dict[TopicPartition, Owner]:
        """Return the members of a group by what they read. Raises Refusal, as `GroupCoordinators.view`."""
        _, groups = self._groups.committed_of(group_id)
        found = dict[TopicPartition, Owner]()
        for owner in owners(groups, group_id, self._image()):
            found.update(dict.fromkeys(owner.partitions, owner))
            await turns.done(MEMBER + len(owner.partitions) // MEMBER)
        return found
