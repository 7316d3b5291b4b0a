"""A consumer group as a value.

`owners`, `instances` and `topic_counts` follow from the members; they are kept so that a heartbeat costs the same in
large groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.metadata.image import MetadataImage
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicId

JOIN_EPOCH: Final = 0
"""Member epoch of a request that joins, or joins again."""

LEAVE_EPOCH: Final = -1
LEFT_STATIC_EPOCH: Final = -2
"""Member epoch of a static member that has left and is expected back; in a request, that it leaves in this way."""


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment. The numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It still has to give up partitions, and stays in its epoch until then."""

    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still own."""


class GroupState(Enum):
    """State of a group, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Member(Struct, frozen=True, kw_only=True):
    """A member: what it told about itself, and its current assignment.

    It owns the partitions `assigned` to it, and those of `pending_revocation`, which it has not given up yet.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None

    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS
    assignment_epochs: Mapping[Partition, int] = {}
    """The epoch in which the member got each partition that it owns."""

    @property
    def owned(self) -> Partitions:
        return self.assigned | self.pending_revocation if self.pending_revocation else self.assigned

    def is_reconciled(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


class ResolvedRegex(Struct, frozen=True, kw_only=True):
    """The topics that matched a regular expression, in the metadata of that version and at that time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(Struct, frozen=True, kw_only=True):
    """A group of the consumer protocol.

    Its epoch grows whenever the target assignment has to be computed again; `assignment_epoch` is the group epoch of
    the last target assignment, `targets`.
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: PersistentMap[str, Member] = field(default_factory=PersistentMap)
    targets: PersistentMap[str, Partitions] = field(default_factory=PersistentMap)
    regexes: PersistentMap[str, ResolvedRegex] = field(default_factory=PersistentMap)
    owners: PersistentMap[Partition, str] = field(default_factory=PersistentMap)
    instances: PersistentMap[str, str] = field(default_factory=PersistentMap)
    topic_counts: PersistentMap[str, int] = field(default_factory=PersistentMap)
    """How many members name each topic in their subscription."""

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribers_of_regex(self, regex: str) -> int:
        return sum(member.topic_regex == regex for member in self.members.values())

    def subscribed_topics(self) -> set[str]:
        """Return the names of the topics that any member subscribes to, also of topics that do not exist."""
        return {*self.topic_counts, *(topic for regex in self.regexes.values() for topic in regex.topics)}

    def topic_ids_of(self, member: Member, image: MetadataImage) -> frozenset[TopicId]:
        """Return the existing topics that the member subscribes to. A regex that is not resolved matches none."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        names = member.topics if resolved is None else member.topics | resolved.topics
        return frozenset(image.topic_ids[name] for name in names if name in image.topic_ids)

    def with_member(self, member: Member) -> ConsumerGroup:
        return self._with(member.member_id, self.members.get(member.member_id), member)

    def without_member(self, member_id: str) -> ConsumerGroup:
        return self._with(member_id, self.members.get(member_id), None)

    def _with(self, member_id: str, before: Member | None, after: Member | None) -> ConsumerGroup:
        return replace(
            self,
            members=self.members.with_changes({member_id: after}),
            owners=self.owners.with_changes(dict(self._changed_owners(member_id, before, after))),
            instances=self.instances.with_changes(dict(self._changed_instances(member_id, before, after))),
            topic_counts=self.topic_counts.with_changes(dict(self._changed_counts(before, after))),
        )

    def _changed_owners(
        self, member_id: str, before: Member | None, after: Member | None
    ) -> Iterator[tuple[Partition, str | None]]:
        given_up = before.owned if before is not None else NO_PARTITIONS
        taken = after.owned if after is not None else NO_PARTITIONS
        for partition in given_up - taken:
            # In a log that was compacted, the record of the next owner may come before the one that gives up.
            if self.owners.get(partition) == member_id:
                yield partition, None
        for partition in taken - given_up:
            yield partition, member_id

    def _changed_instances(
        self, member_id: str, before: Member | None, after: Member | None
    ) -> Iterator[tuple[str, str | None]]:
        left = None if before is None else before.instance_id
        taken = None if after is None else after.instance_id
        if left != taken and left is not None and self.instances.get(left) == member_id:
            yield left, None
        if taken is not None:
            yield taken, member_id

    def _changed_counts(self, before: Member | None, after: Member | None) -> Iterator[tuple[str, int | None]]:
        named_before = frozenset() if before is None else before.topics
        named_after = frozenset() if after is None else after.topics
        if named_before != named_after:
            change = Counter(named_after)
            change.subtract(Counter(named_before))
            for topic, more in change.items():
                yield topic, (self.topic_counts.get(topic, 0) + more) or None


def state_of(group: ConsumerGroup | None) -> GroupState:
    """Return the state of a group; one that does not exist is dead."""
    return GroupState.DEAD if group is None else group.state
