"""A classic group as a value: members, generation, and the requests that wait. Sets of ids are maps to True."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.shard import Ticket
from kraft.metadata.persistent_maps import PersistentMap
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol


class ClassicGroupState(Enum):
    """State of a classic group, by Kafka's name for it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members join the next generation."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has its members; the leader's assignment is awaited."""

    STABLE = "Stable"
    DEAD = "Dead"
    """The group does not exist."""


class ClassicGroupMember(Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """The member has not completed a join: it sends no heartbeats yet, and is removed even while its join waits."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")


class InitialDelay(Struct, frozen=True, kw_only=True):
    """How long an empty group's first rebalance waits for further members."""

    current_ms: int
    remaining_ms: int
    """Time by which the delay may be extended."""

    member_added: bool = False
    """A further member has come during the current delay, so that the delay is extended."""


class ClassicGroup(Struct, frozen=True, kw_only=True):
    """The replicated part is in `records.py`; everything else ends with the leadership of the partition."""

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    state_since_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    """None if there are no members, or if they rebalance because the leader is gone, or their group has just become a
    classic one."""

    members: PersistentMap[str, ClassicGroupMember] = PersistentMap()
    static_members: PersistentMap[str, str] = PersistentMap()
    """Member ids by instance id."""

    supporters: PersistentMap[str, int] = PersistentMap()
    """By protocol, how many members offer it."""

    pending_joins: PersistentMap[str, bool] = PersistentMap()
    """Member ids that were given out, and have not been used yet."""

    pending_syncs: PersistentMap[str, bool] = PersistentMap()
    """Members that have not yet asked for their assignment in this generation."""

    joins: PersistentMap[str, Ticket] = PersistentMap()
    """Waiting JoinGroup requests, by member; only while a rebalance is prepared."""

    syncs: PersistentMap[str, Ticket] = PersistentMap()
    """Waiting SyncGroup requests, by member; only while a rebalance is completed."""

    initial_delay: InitialDelay | None = None
    """Set while the rebalance that is prepared is the first of an empty group."""

    rebalance_reason: str = ""
    """Why the last rebalance began."""

    is_recorded: bool = False
    """There is a record of the group."""

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return len(self.joins) == len(self.members) and not self.pending_joins

    @property
    def is_unused(self) -> bool:
        """True if nothing of this group is recorded, and nobody is about to join."""
        return self.state is ClassicGroupState.EMPTY and not self.is_recorded and not self.pending_joins


def add_member(group: ClassicGroup, member: ClassicGroupMember, protocol_type: str) -> ClassicGroup:
    """Return the group with one more member; the first one is its leader."""
    assert member.member_id not in group.members
    assert member.group_instance_id not in group.static_members
    static = {member.group_instance_id: member.member_id} if member.group_instance_id is not None else {}
    return replace(
        group,
        protocol_type=protocol_type,
        leader=group.leader or member.member_id,
        members=group.members.with_changes({member.member_id: member}),
        static_members=group.static_members.with_changes(static),
        supporters=_counted(group.supporters, before=[], after=[member.protocols]),
        pending_joins=group.pending_joins.with_changes({member.member_id: None}),
    )


def update_member(group: ClassicGroup, member: ClassicGroupMember) -> ClassicGroup:
    """Return the group with a member's new values; its ids stay the same."""
    before = group.members[member.member_id]
    return replace(
        group,
        members=group.members.with_changes({member.member_id: member}),
        supporters=_counted(group.supporters, before=[before.protocols], after=[member.protocols]),
    )


def remove_members(group: ClassicGroup, member_ids: Collection[str]) -> ClassicGroup:
    """Return the group without these members and pending ids.

    If the leader is gone, there is none until a member joins the group, or the next generation begins.
    """
    gone = dict.fromkeys(member_ids)
    removed = [group.members[member_id] for member_id in gone if member_id in group.members]
    instances = [member.group_instance_id for member in removed if member.group_instance_id is not None]
    return replace(
        group,
        leader=None if group.leader in gone else group.leader,
        members=group.members.with_changes(gone),
        static_members=group.static_members.with_changes(dict.fromkeys(instances)),
        supporters=_counted(group.supporters, before=[member.protocols for member in removed], after=[]),
        pending_joins=group.pending_joins.with_changes(gone),
        pending_syncs=group.pending_syncs.with_changes(gone),
        joins=group.joins.with_changes(gone),
        syncs=group.syncs.with_changes(gone),
    )


def rename_member(group: ClassicGroup, old_id: str, new_id: str) -> ClassicGroup:
    """Return the group with another id for a static member, and everything else of it unchanged."""
    member = group.members[old_id]
    assert member.group_instance_id is not None
    assert old_id not in group.joins
    assert old_id not in group.syncs
    pending = {old_id: None, new_id: True} if old_id in group.pending_syncs else {}
    return replace(
        group,
        leader=new_id if group.leader == old_id else group.leader,
        members=group.members.with_changes({old_id: None, new_id: replace(member, member_id=new_id, is_new=False)}),
        static_members=group.static_members.with_changes({member.group_instance_id: new_id}),
        pending_syncs=group.pending_syncs.with_changes(pending),
    )


def as_requested(member: ClassicGroupMember, request: JoinGroupRequest) -> ClassicGroupMember:
    """Return the member with what its next JoinGroup says; address and client id stay those of the first one."""
    return replace(
        member,
        protocols=request.protocols,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=effective_rebalance_timeout_ms(request.rebalance_timeout_ms, request.session_timeout_ms),
    )


def supports(group: ClassicGroup, protocol_type: str, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
    """Return whether a member with these protocols shares one with all members."""
    if group.state is ClassicGroupState.EMPTY:
        return bool(protocol_type and protocols)
    return group.protocol_type == protocol_type and any(
        group.supporters.get(offered.name, 0) == len(group.members) for offered in protocols
    )


def select_protocol(group: ClassicGroup) -> str:
    """Return the protocol with the most votes: each member votes for the first of its own that all support."""
    supported = {name for name, count in group.supporters.items() if count == len(group.members)}
    if len(supported) == 1:
        return supported.pop()
    votes: Counter[str] = Counter()
    for member in group.members.values():
        votes[next(each.name for each in member.protocols if each.name in supported)] += 1
    return min(votes, key=lambda name: (-votes[name], name))


def effective_rebalance_timeout_ms(rebalance_timeout: int, session_timeout: int) -> int:
    """Return the session timeout if there is no rebalance timeout, or none that would leave time to rejoin."""
    return rebalance_timeout if rebalance_timeout > 0 else session_timeout


def _counted(
    supporters: PersistentMap[str, int],
    *,
    before: Iterable[tuple[JoinGroupRequestProtocol, ...]],
    after: Iterable[tuple[JoinGroupRequestProtocol, ...]],
) -> PersistentMap[str, int]:
    """Return the numbers of supporters once members that offered `before` are gone, and others offer `after`."""
    change: Counter[str] = Counter()
    for protocols in before:
        change.subtract({offered.name for offered in protocols})
    for protocols in after:
        change.update({offered.name for offered in protocols})
    return supporters.with_changes({name: supporters.get(name, 0) + by or None for name, by in change.items() if by})
