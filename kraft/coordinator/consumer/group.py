"""A consumer group as a value.

`owners`, `instances`, `subscriptions`, `topic_counts`, `regex_counts`, `classic_members`, `classic_supporters` and
`epoch_counts` follow from the members and the resolved expressions; they are kept so that a heartbeat costs the same in
large groups.
Members that subscribe to the same topics share one set of names.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Set
from enum import Enum, IntEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions
from kraft.coordinator.consumer.metadata_hash import MetadataHash
from kraft.metadata.image import MetadataImage
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicId
from kraft.wire.schema.join_group import JoinGroupRequestProtocol

JOIN_EPOCH: Final = 0
"""Member epoch of a request that joins, or joins again."""

LEAVE_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
"""Epoch of a new group, whose target assignment is empty. Members are in it until the first one is computed."""

LEFT_STATIC_EPOCH: Final = -2
"""Member epoch of a static member that has left and is expected back; in a request, that it leaves in this way."""

UNHEARD: Final = -1
"""Previous epoch of a member that may not have heard of its last step; of a new one, that it has taken none yet."""


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment. The numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It still has to give up partitions, and stays in its epoch until then."""

    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still own."""


class ConsumerGroupState(Enum):
    """State of a group, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ClassicProtocols(Struct, frozen=True, kw_only=True):
    """Session timeout and protocols of a member of the classic protocol, from its JoinGroup."""

    session_timeout_ms: int
    offered: tuple[JoinGroupRequestProtocol, ...]

    @property
    def preferred(self) -> JoinGroupRequestProtocol:
        """The protocol that the member's requests are answered with. All have the same subscription."""
        return self.offered[0] if self.offered else JoinGroupRequestProtocol(name="", metadata=b"")


class ConsumerGroupMember(Struct, frozen=True, kw_only=True):
    """A member: what it reported about itself, and its current assignment.

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
    classic: ClassicProtocols | None = None
    """None for a member of the consumer protocol."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = UNHEARD
    """The epoch whose heartbeats still count, as the response that began the current one may have been lost."""

    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS
    assignment_epochs: Mapping[Partition, int] = {}
    """The epoch in which the member got each partition that it owns."""

    @property
    def owned(self) -> Partitions:
        return self.assigned | self.pending_revocation if self.pending_revocation else self.assigned

    @property
    def is_unheard(self) -> bool:
        """True if a process that is in this epoch may not have heard of the member's last step."""
        return self.epoch > JOIN_EPOCH and self.previous_epoch == UNHEARD

    def is_reconciled(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


class ResolvedRegex(Struct, frozen=True, kw_only=True):
    """The topics that matched a regular expression, in the metadata of that version and at that time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class SharedSubscription(Struct, frozen=True):
    """Topic names that members subscribe to, all of them together, and how many members do."""

    topics: frozenset[str]
    members: int


class SubscribedTopics(Container[TopicId]):
    """The ids of the existing topics that a member subscribes to. A regex that is not resolved matches none."""

    def __init__(self, member: ConsumerGroupMember, resolved: ResolvedRegex | None, image: MetadataImage) -> None:
        self._names = member.topics
        self._matching: frozenset[str] = frozenset() if resolved is None else resolved.topics
        self._image = image

    def __contains__(self, topic_id: object) -> bool:
        topic = self._image.topics.get(topic_id)  # type: ignore[call-overload]  # A container is asked for any object.
        return topic is not None and (topic.topic in self._names or topic.topic in self._matching)

    def all(self) -> frozenset[TopicId]:
        names = self._names | self._matching if self._matching else self._names
        return frozenset(self._image.topic_ids[name] for name in names if name in self._image.topic_ids)


class ConsumerGroup(Struct, frozen=True, kw_only=True):
    """A group of the consumer protocol.

    Its epoch grows whenever the target assignment has to be computed again; `assignment_epoch` is the group epoch of
    the last target assignment, `targets`, which was ready at `assignment_ms`.
    """

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_ms: int = 0
    members: PersistentMap[str, ConsumerGroupMember] = field(default_factory=PersistentMap)
    targets: PersistentMap[str, Partitions] = field(default_factory=PersistentMap)
    regexes: PersistentMap[str, ResolvedRegex] = field(default_factory=PersistentMap)
    owners: PersistentMap[Partition, str] = field(default_factory=PersistentMap)
    instances: PersistentMap[str, str] = field(default_factory=PersistentMap)
    subscriptions: PersistentMap[frozenset[str], SharedSubscription] = field(default_factory=PersistentMap)
    topic_counts: PersistentMap[str, int] = field(default_factory=PersistentMap)
    """How many of the subscriptions and of the resolved expressions have each topic."""

    regex_counts: PersistentMap[str, int] = field(default_factory=PersistentMap)
    """How many members subscribe by each regular expression."""

    classic_members: int = 0
    """How many members use the classic protocol."""

    classic_supporters: PersistentMap[str, int] = field(default_factory=PersistentMap)
    """By name of a protocol, how many classic members offer it."""

    epoch_counts: PersistentMap[int, int] = field(default_factory=PersistentMap)
    """How many members are in each epoch, without a step under way; `LEFT_STATIC_EPOCH` has those that are away."""

    hashed: MetadataHash = field(default_factory=MetadataHash)

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.is_due:
            return ConsumerGroupState.ASSIGNING
        if self.epoch_counts.get(self.assignment_epoch, 0) == len(self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_due(self) -> bool:
        """True if the target assignment of the group's epoch is not there yet."""
        return self.epoch > self.assignment_epoch

    @property
    def is_settled(self) -> bool:
        """True if no rebalance is under way. A static member that is away is not waited for."""
        settled = self.epoch_counts.get(self.assignment_epoch, 0) + self.epoch_counts.get(LEFT_STATIC_EPOCH, 0)
        return not self.members or (not self.is_due and settled == len(self.members))

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribers_of_regex(self, regex: str) -> int:
        return self.regex_counts.get(regex, 0)

    def subscribed_topics(self) -> Set[str]:
        """Return the names of the topics that any member subscribes to, also of topics that do not exist."""
        return self.topic_counts.keys()

    def metadata_hash_with(self, image: MetadataImage) -> int:
        """Return a hash of the metadata that assignments depend on; 0 without topics."""
        return self.hashed.of(self.topic_counts, image)

    def subscribed_partitions(self, image: MetadataImage) -> int:
        """Return how many partitions the topics have that any member subscribes to."""
        return self.hashed.partitions(self.topic_counts, image)

    def topics_of(self, member: ConsumerGroupMember, image: MetadataImage) -> SubscribedTopics:
        return SubscribedTopics(member, self.regexes.get(member.topic_regex) if member.topic_regex else None, image)

    def with_regex(self, regex: str, resolved: ResolvedRegex | None) -> ConsumerGroup:
        """Return the group with the topics of an expression; None deletes them."""
        before = self.regexes.get(regex)
        return replace(
            self,
            regexes=self.regexes.with_changes({regex: resolved}),
            topic_counts=_counted(
                self.topic_counts,
                frozenset() if before is None else before.topics,
                frozenset() if resolved is None else resolved.topics,
            ),
        )

    def with_member(self, member: ConsumerGroupMember) -> ConsumerGroup:
        same = self.subscriptions.get(member.topics)
        if same is not None and same.topics is not member.topics:
            member = replace(member, topics=same.topics)
        return self._with(member.member_id, self.members.get(member.member_id), member)

    def without_member(self, member_id: str) -> ConsumerGroup:
        return self._with(member_id, self.members.get(member_id), None)

    def _with(
        self, member_id: str, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None
    ) -> ConsumerGroup:
        subscriptions = self._changed_subscriptions(_topics(before), _topics(after))
        return replace(
            self,
            members=self.members.with_changes({member_id: after}),
            owners=self.owners.with_changes(dict(self._changed_owners(member_id, before, after))),
            instances=self.instances.with_changes(dict(self._changed_instances(member_id, before, after))),
            subscriptions=self.subscriptions.with_changes(subscriptions),
            topic_counts=_counted(
                self.topic_counts,
                next((topics for topics, left in subscriptions.items() if left is None), _NO_NAMES),
                next((topics for topics in subscriptions if topics not in self.subscriptions), _NO_NAMES),
            ),
            regex_counts=_counted(self.regex_counts, _regexes(before), _regexes(after)),
            classic_members=self.classic_members - _is_classic(before) + _is_classic(after),
            classic_supporters=_counted(self.classic_supporters, _protocols(before), _protocols(after)),
            epoch_counts=_moved(self.epoch_counts, _settled_epoch(before), _settled_epoch(after)),
        )

    def _changed_subscriptions(
        self, before: frozenset[str], after: frozenset[str]
    ) -> dict[frozenset[str], SharedSubscription | None]:
        """Return the subscriptions whose number of members changes; None for one that no member has now."""
        changed: dict[frozenset[str], SharedSubscription | None] = {}
        if before != after:
            for topics, more in ((before, -1), (after, 1)):
                known = self.subscriptions.get(topics) or SharedSubscription(topics, 0)
                members = known.members + more
                if topics:
                    changed[topics] = SharedSubscription(known.topics, members) if members else None
        return changed

    def _changed_owners(
        self, member_id: str, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None
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
        self, member_id: str, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None
    ) -> Iterator[tuple[str, str | None]]:
        left = None if before is None else before.instance_id
        taken = None if after is None else after.instance_id
        if left != taken and left is not None and self.instances.get(left) == member_id:
            yield left, None
        if taken is not None:
            yield taken, member_id


_NO_NAMES: Final[frozenset[str]] = frozenset()


def _topics(member: ConsumerGroupMember | None) -> frozenset[str]:
    return _NO_NAMES if member is None else member.topics


def _regexes(member: ConsumerGroupMember | None) -> frozenset[str]:
    return frozenset((member.topic_regex,)) if member is not None and member.topic_regex else frozenset()


def _is_classic(member: ConsumerGroupMember | None) -> bool:
    return member is not None and member.classic is not None


def _protocols(member: ConsumerGroupMember | None) -> frozenset[str]:
    if member is None or member.classic is None:
        return frozenset()
    return frozenset(offered.name for offered in member.classic.offered)


def _settled_epoch(member: ConsumerGroupMember | None) -> int | None:
    """Return the epoch that the member counts for, if it has no step under way."""
    if member is None or (member.state is not MemberState.STABLE and member.epoch != LEFT_STATIC_EPOCH):
        return None
    return member.epoch


def _moved(counts: PersistentMap[int, int], before: int | None, after: int | None) -> PersistentMap[int, int]:
    """Return the counts after one member has moved from an epoch to another; None counts nowhere."""
    changes: dict[int, int | None] = {}
    if before == after:
        return counts
    if before is not None:
        changes[before] = counts[before] - 1 or None
    if after is not None:
        changes[after] = counts.get(after, 0) + 1
    return counts.with_changes(changes)


def _counted(counts: PersistentMap[str, int], before: frozenset[str], after: frozenset[str]) -> PersistentMap[str, int]:
    """Return the counts of all names after one set of names was replaced: `before` by `after`."""
    if before == after:
        return counts
    more: dict[str, int | None] = {name: counts.get(name, 0) + 1 for name in after - before}
    fewer = {name: counts.get(name, 0) - 1 or None for name in before - after}
    return counts.with_changes(more | fewer)
