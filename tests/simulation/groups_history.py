"""What was decided, committed and answered in one partition of `__consumer_offsets`, and what must hold of it (I13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from kraft.coordinator.assignors.assignor import Partition, Partitions
from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.consumer.assignment_run import TakeTargets
from kraft.coordinator.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup, ConsumerGroupMember
from kraft.coordinator.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    RebalanceTimeout,
    SessionTimeout,
)
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.groups.commands import CommitOffsets, DeleteGroup, GroupCommand
from kraft.coordinator.groups.replicated import NO_GROUPS, Groups, replay
from kraft.coordinator.groups.timers import GroupDeletionTimer, OffsetExpiryTimer
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.shard import TimerKey
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.offset_fetch import OffsetFetchResponseTopics
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse


class Invariant(StrEnum):
    """What must hold after each event."""

    OWNERS_COMMIT = "offsets are committed by the owner of the partition"
    NOTHING_GOES_BACK = "a committed offset never goes back"
    NOTHING_IS_LOST = "a committed offset is deleted only if it expired, or with its group"
    ACKNOWLEDGED_IS_COMMITTED = "what is answered is committed"
    ONE_OWNER = "a partition has one owner"
    OWNERS_LET_GO = "a member keeps its partitions until it gives them up, or is removed"
    MEMBERS_HEAR = "a member whose heartbeat is answered knows what it is assigned"
    MEMBERS_HAVE_TARGETS = "nobody but members has a target assignment"
    ASSIGNMENTS_HAVE_INTERVALS = "the interval passes between two target assignments"
    ONE_ASSIGNMENT = "a generation has one assignment"
    EPOCHS_GROW = "generations and epochs grow"
    STATE_IS_THE_LOG = "a coordinator's committed state is the replay of its log"
    PEACE_HEALS = "without faults, each partition gets one owner"


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


class FetchOffsets(Struct, frozen=True, kw_only=True):
    """OffsetFetch, which is answered without a decision."""

    group_id: str
    partitions: Mapping[str, tuple[int, ...]]
    member_id: str | None = None
    member_epoch: int = -1


class Sender(Protocol):
    """A client, as far as its claims can be checked."""

    was_removed: bool

    def holds(self, member_id: str) -> frozenset[tuple[str, int]]:
        """Return the partitions that it reads as this member, by topic name."""


class Sent(Protocol):
    @property
    def command(self) -> GroupCommand | FetchOffsets: ...


Cause: TypeAlias = Sent | TimerKey
"""A request, a timer that ended, or the word "loaded"."""


class Place(NamedTuple):
    """A partition of which a group has committed an offset."""

    group_id: str
    topic: str
    partition: int


Tenure: TypeAlias = tuple[str, int]
"""The time during which a member owns a partition: its id, and the generation or epoch in which it got it."""


class History:
    def __init__(self, topic_names: Mapping[TopicId, str], retention_ms: int, assignment_interval_ms: int) -> None:
        """`topic_names` has the name of each topic id."""
        self.now_ms = 0
        self.truth = NO_GROUPS
        """The replay of everything that is committed."""
        self.members: dict[str, Sender] = {}
        """The client that uses each member id."""
        self.ended: set[str] = set()
        """Groups of the consumer protocol that were deleted, or became classic, since the world last looked."""
        self.commits = 0
        self.deletions = 0
        self.acknowledged = 0
        self.generations = 0
        self._topic_names = topic_names
        self._retention_ms = retention_ms
        self._assignment_interval_ms = assignment_interval_ms
        self.assignments = 0
        """Target assignments that a thread has computed."""
        self.late_assignments = 0
        """Those of an earlier epoch than that of the group."""
        self._durable: set[str] = set()
        """The metadata of each committed offset; the metadata of each commit differs."""
        self._tenures: dict[str, Tenure] = {}
        """By its metadata, the tenure in which an offset was committed."""
        self._assignments: dict[tuple[str, int], dict[str, bytes]] = {}
        """By group and generation, what the members are assigned."""
        self._ever_assigned: set[tuple[str, int, str, bytes]] = set()
        """Group, generation, member and assignment, also of groups and members that are gone."""
        self._assigned: dict[tuple[str, str, int], set[frozenset[object]]] = {}
        """By group, member and epoch, everything that the member was assigned by the consumer protocol."""
        self._heartbeats: dict[str, list[tuple[ConsumerHeartbeat, Partitions]]] = {}
        """By member, its heartbeats that were decided since it was removed last, and what it was assigned then."""

    # --- decisions of the leader -------------------------------------------------------------------------------------

    def decided(
        self, before: Groups, volatile: GroupsVolatile, after: Groups, next_volatile: GroupsVolatile, cause: Cause
    ) -> None:
        for place, old, new in _changed_offsets(before, after):
            if new is None:
                self._check_deletion(place, old, before, volatile, cause)
            else:
                self._check_commit(place, old, new, before, volatile, cause)
        if before.consumer is not after.consumer:
            self.ended |= before.consumer.keys() - after.consumer.keys()
            for group_id in {*before.consumer, *after.consumer}:
                self._check_members(before.consumer.get(group_id), after.consumer.get(group_id), cause)
        for group_id, group in volatile.classic.items():
            follows = next_volatile.classic.get(group_id)
            if follows is not None and follows.generation < group.generation:
                raise Violation(Invariant.EPOCHS_GROW, f"{group_id}: {group.generation} to {follows.generation}")
        self._note_heartbeat(after, _command(cause))

    def _note_heartbeat(self, after: Groups, command: GroupCommand | FetchOffsets | None) -> None:
        group = after.consumer.get(command.group_id) if isinstance(command, ConsumerHeartbeat) else None
        if group is not None and isinstance(command, ConsumerHeartbeat) and command.member_id in group.members:
            decided = command, group.members[command.member_id].assigned
            self._heartbeats.setdefault(command.member_id, []).append(decided)

    def is_of_member(self, heartbeat: ConsumerHeartbeat) -> bool:
        """Return whether a heartbeat was decided after the last time that its member was removed."""
        return self._assigned_by(heartbeat) is not None

    def heard(self, heartbeat: ConsumerHeartbeat, assigned: Partitions) -> None:
        """Check what a member takes for its assignment, now that it has the response to a heartbeat."""
        decided = self._assigned_by(heartbeat)
        if decided is not None and decided != assigned:
            what = f"{heartbeat.member_id} was assigned {_shown(decided)}, and takes {_shown(assigned)} for it"
            raise Violation(Invariant.MEMBERS_HEAR, what)

    def _assigned_by(self, heartbeat: ConsumerHeartbeat) -> Partitions | None:
        decided = self._heartbeats.get(heartbeat.member_id, ())
        return next((assigned for each, assigned in decided if each is heartbeat), None)

    def _check_commit(
        self,
        place: Place,
        old: CommittedOffset | None,
        new: CommittedOffset,
        before: Groups,
        volatile: GroupsVolatile,
        cause: Cause,
    ) -> None:
        command = _command(cause)
        if not isinstance(command, CommitOffsets) or command.group_id != place.group_id:
            raise Violation(Invariant.OWNERS_COMMIT, f"{cause} commits {place}")
        member_id, generation = _member(command)
        if not member_id:
            if not _is_empty(place.group_id, before, volatile):
                raise Violation(Invariant.OWNERS_COMMIT, f"nobody commits {place} while there are members")
            return
        tenure = self._tenure(place, command, before)
        if tenure is None:
            what = f"{member_id} commits {place} in {generation} and does not own it"
            raise Violation(Invariant.OWNERS_COMMIT, what)
        # Only a late commit of the owner itself may go back: requests of one generation have no order of their own.
        if old is not None and new.offset < old.offset and self._tenures.get(old.metadata) != tenure:
            what = f"{place} from {old.offset} to {new.offset} by {member_id} in {generation}"
            raise Violation(Invariant.NOTHING_GOES_BACK, what)
        self._tenures[new.metadata] = tenure
        self.commits += 1

    def _tenure(self, place: Place, command: CommitOffsets, before: Groups) -> Tenure | None:
        member_id, generation = _member(command)
        consumer = before.consumer.get(place.group_id)
        if consumer is not None:
            member = consumer.members.get(member_id)
            if member is None:
                return None
            for partition in member.owned:
                if self._name(partition) == (place.topic, place.partition):
                    return member_id, member.assignment_epochs[partition]
            owned = {self._name(each) for other in consumer.members.values() for each in other.owned}
            if generation != member.epoch or (place.topic, place.partition) in owned:
                return None
            # What it has given up belongs to nobody yet, and its own last commit of it is late.
            last = before.offsets.offset(*place)
            tenure = None if last is None else self._tenures.get(last.metadata)
            return tenure if tenure is not None and tenure[0] == member.member_id else (member.member_id, member.epoch)
        value = before.classic.get(place.group_id)
        if value is None or value.generation != generation:
            return None
        for each in value.members:
            if each.member_id == member_id and (place.topic, place.partition) in parsed(each.assignment):
                return member_id, value.generation
        return None

    def _check_deletion(
        self, place: Place, old: CommittedOffset | None, before: Groups, volatile: GroupsVolatile, cause: Cause
    ) -> None:
        assert old is not None
        self.deletions += 1
        if isinstance(cause, GroupDeletionTimer) or isinstance(_command(cause), DeleteGroup):
            if not _is_empty(place.group_id, before, volatile):
                raise Violation(Invariant.NOTHING_IS_LOST, f"{place} is deleted with a group that has members")
            return
        if not isinstance(cause, OffsetExpiryTimer):
            raise Violation(Invariant.NOTHING_IS_LOST, f"{place} is deleted by {cause}")
        is_owned = any(self._is_owner(place, member_id, before) for member_id in self.members)
        if self.now_ms - old.commit_timestamp_ms < self._retention_ms or is_owned:
            raise Violation(Invariant.NOTHING_IS_LOST, f"{place} expires too early")

    def _is_owner(self, place: Place, member_id: str, groups: Groups) -> bool:
        """Return whether a member reads a partition, and is assigned it. One that it has to give up may expire."""
        client, partition = self.members[member_id], (place.topic, place.partition)
        consumer, classic = groups.consumer.get(place.group_id), groups.classic.get(place.group_id)
        assigned: set[tuple[str, int]] = set()
        if consumer is not None and member_id in consumer.members:
            assigned.update(self._name(each) for each in consumer.members[member_id].assigned)
        elif classic is not None:
            own = [each for each in classic.members if each.member_id == member_id]
            assigned.update(partition for member in own for partition in parsed(member.assignment))
        return not client.was_removed and partition in assigned and partition in client.holds(member_id)

    # --- members of the consumer protocol ----------------------------------------------------------------------------

    def _check_members(self, before: ConsumerGroup | None, after: ConsumerGroup | None, cause: Cause) -> None:
        if before is after or before is None:
            return
        if after is None:
            if before.members:
                raise Violation(Invariant.OWNERS_LET_GO, f"{before.group_id} has members, and is deleted by {cause}")
            return
        self._check_targets(before, after, cause)
        owners: dict[object, str] = {}
        for member_id, member in after.members.items():
            for partition in member.owned:
                if owners.setdefault(partition, member_id) != member_id:
                    what = f"{partition} belongs to {member_id} and {owners[partition]}"
                    raise Violation(Invariant.ONE_OWNER, what)
        for member_id, member in before.members.items():
            follows = after.members.get(member_id)
            if follows is None:
                self._check_removal(member, cause)
            elif follows is not member:
                self._check_member(member, follows, cause)

    def _check_targets(self, before: ConsumerGroup, after: ConsumerGroup, cause: Cause) -> None:
        if after.epoch < before.epoch or after.assignment_epoch < before.assignment_epoch:
            epochs = (before.epoch, before.assignment_epoch), (after.epoch, after.assignment_epoch)
            raise Violation(Invariant.EPOCHS_GROW, f"{after.group_id}: {epochs[0]} to {epochs[1]}")
        if strangers := after.targets.keys() - after.members.keys():
            raise Violation(Invariant.MEMBERS_HAVE_TARGETS, f"{strangers} have targets in {after.group_id}")
        if after.assignment_epoch > before.assignment_epoch:
            passed_ms = self.now_ms - before.assignment_ms
            if passed_ms < self._assignment_interval_ms:
                what = f"{after.group_id} is assigned again after {passed_ms} ms"
                raise Violation(Invariant.ASSIGNMENTS_HAVE_INTERVALS, what)
            is_offloaded = isinstance(_command(cause), TakeTargets)
            self.assignments += is_offloaded
            self.late_assignments += is_offloaded and after.is_due

    def _check_removal(self, member: ConsumerGroupMember, cause: Cause) -> None:
        client = self.members.get(member.member_id)
        if client is not None:
            client.was_removed = True
        self._heartbeats.pop(member.member_id, None)
        if isinstance(cause, SessionTimeout | RebalanceTimeout) and cause.member_id == member.member_id:
            return
        command = _command(cause)
        if isinstance(command, ConsumerHeartbeat):
            leaves = command.member_id == member.member_id and command.member_epoch < 0
            takes_over = member.epoch == LEFT_STATIC_EPOCH and command.instance_id == member.instance_id
            if leaves or takes_over:
                return
        if isinstance(command, LeaveGroupRequest):
            named = {(each.member_id, each.group_instance_id) for each in command.members}
            if named & {(member.member_id, member.instance_id), (member.member_id, None), ("", member.instance_id)}:
                return
        raise Violation(Invariant.OWNERS_LET_GO, f"{member.member_id} is removed by {command or cause}")

    def _check_member(self, before: ConsumerGroupMember, after: ConsumerGroupMember, cause: Cause) -> None:
        command = _command(cause)
        own = isinstance(command, ConsumerHeartbeat) and command.member_id == before.member_id
        if after.epoch < before.epoch and not (own and after.epoch == LEFT_STATIC_EPOCH):
            raise Violation(Invariant.EPOCHS_GROW, f"{after.member_id}: {before.epoch} to {after.epoch}")
        lost = before.owned - after.owned
        client = self.members.get(before.member_id)
        if not lost or (own and after.epoch == LEFT_STATIC_EPOCH):
            return
        if not own:
            raise Violation(Invariant.OWNERS_LET_GO, f"{before.member_id} loses {lost} by {command or cause}")
        if client is not None and not client.was_removed:
            kept = client.holds(before.member_id) & {self._name(partition) for partition in lost}
            if kept:
                raise Violation(Invariant.OWNERS_LET_GO, f"{before.member_id} loses {kept}, which it still reads")

    def check_client(self, latest: Groups, group_id: str, member_id: str) -> None:
        """Check that a member of the consumer protocol reads nothing but what the leader knows to be its own."""
        client, group = self.members[member_id], latest.consumer.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None and not client.was_removed:
            foreign = client.holds(member_id) - {self._name(partition) for partition in member.owned}
            if foreign:
                raise Violation(Invariant.ONE_OWNER, f"{member_id} reads {foreign}, which it does not own")

    def _name(self, partition: Partition) -> tuple[str, int]:
        topic_id, number = partition
        return self._topic_names[topic_id], number

    # --- what is committed -------------------------------------------------------------------------------------------

    def committed(self, record: GroupRecord) -> None:
        self.truth = replay(self.truth, record)
        match record.key, record.value:
            case OffsetCommitKey(), OffsetCommitValue() as value:
                self._durable.add(value.metadata)
            case GroupMetadataKey() as key, GroupMetadataValue() as value:
                self._generation_committed(key.group, value)
            case GroupMetadataKey() as key, _:
                for known in [each for each in self._assignments if each[0] == key.group]:
                    del self._assignments[known]
            case _:
                self._member_committed(record)

    def is_assigned(self, group_id: str, generation: int, member_id: str) -> bool:
        """Return whether a member of the classic protocol belongs to a generation that is committed."""
        return member_id in self._assignments.get((group_id, generation), {})

    def _generation_committed(self, group_id: str, value: GroupMetadataValue) -> None:
        assigned = {member.member_id: bytes(member.assignment) for member in value.members}
        partitions = [partition for assignment in assigned.values() for partition in parsed(assignment)]
        if len(partitions) != len(set(partitions)):
            raise Violation(Invariant.ONE_OWNER, f"{group_id}, generation {value.generation}: {assigned}")
        # A static member that came back has another id, and the same assignment.
        earlier = self._assignments.get((group_id, value.generation))
        if earlier is not None and sorted(earlier.values()) != sorted(assigned.values()):
            what = f"{group_id}, generation {value.generation}: {earlier} and {assigned}"
            raise Violation(Invariant.ONE_ASSIGNMENT, what)
        latest = max((each[1] for each in self._assignments if each[0] == group_id), default=0)
        if value.generation < latest:
            raise Violation(Invariant.EPOCHS_GROW, f"{group_id}: generation {value.generation} after {latest}")
        self._ever_assigned.update((group_id, value.generation, *each) for each in assigned.items())
        self.generations += earlier is None
        self._assignments[group_id, value.generation] = assigned

    def _member_committed(self, record: GroupRecord) -> None:
        group_id, member_id = getattr(record.key, "group_id", ""), getattr(record.key, "member_id", "")
        group = self.truth.consumer.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None:
            self._assigned.setdefault((group_id, member_id, member.epoch), set()).add(member.assigned)

    # --- responses ---------------------------------------------------------------------------------------------------

    def replied(self, command: GroupCommand | FetchOffsets, response: object) -> None:
        """Check that what a response says is committed."""
        if isinstance(response, Refusal):
            return
        match command:
            case CommitOffsets():
                self._check_acknowledged(command, response)
            case FetchOffsets():
                assert isinstance(response, tuple)
                for topic in response:
                    assert isinstance(topic, OffsetFetchResponseTopics)
                    if unknown := {each.metadata for each in topic.partitions if each.metadata} - self._durable:
                        raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, f"{unknown} is fetched")
            case SyncGroupRequest():
                assert isinstance(response, SyncGroupResponse)
                assigned = (command.group_id, command.generation_id, command.member_id, response.assignment)
                if assigned not in self._ever_assigned:
                    what = f"{command.member_id} is assigned {response.assignment!r} in {command.generation_id}"
                    raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, what)
            case ConsumerHeartbeat():
                assert isinstance(response, ConsumerHeartbeatResponse)
                self._check_assigned(command.group_id, response)
            case _:
                pass  # It shows nothing of the state.

    def _check_acknowledged(self, command: CommitOffsets, response: object) -> None:
        assert isinstance(response, tuple)
        asked = [(topic.name, each) for topic in command.topics for each in topic.partitions]
        for (topic, each), code in zip(asked, response, strict=True):
            if code is ErrorCode.NONE:
                if each.committed_metadata not in self._durable:
                    what = f"{each} of {topic} is acknowledged to {command.request.member_id}"
                    raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, what)
                self.acknowledged += 1

    def _check_assigned(self, group_id: str, response: ConsumerHeartbeatResponse) -> None:
        if response.member_epoch < 0:
            return
        found = self._assigned.get((group_id, response.member_id, response.member_epoch), set())
        if not found or (response.assignment is not None and response.assignment not in found):
            raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, f"{group_id}: {response}")


def assignment(partitions: frozenset[tuple[str, int]]) -> bytes:
    """Return the assignment of a classic member, in a format of this simulation."""
    return ",".join(f"{topic}/{number}" for topic, number in sorted(partitions)).encode()


def parsed(assigned: bytes) -> frozenset[tuple[str, int]]:
    pairs = (each.split("/") for each in bytes(assigned).decode().split(",") if each)
    return frozenset((topic, int(number)) for topic, number in pairs)


def _shown(partitions: Partitions) -> str:
    return str(sorted((str(topic_id), number) for topic_id, number in partitions))


def _command(cause: Cause) -> GroupCommand | FetchOffsets | None:
    return getattr(cause, "command", None)


def _is_empty(group_id: str, groups: Groups, volatile: GroupsVolatile) -> bool:
    consumer, classic = groups.consumer.get(group_id), volatile.classic.get(group_id)
    has_members = consumer is not None and bool(consumer.members)
    return not has_members and (classic is None or classic.state is ClassicGroupState.EMPTY)


def _changed_offsets(
    before: Groups, after: Groups
) -> Iterator[tuple[Place, CommittedOffset | None, CommittedOffset | None]]:
    if before.offsets is after.offsets:
        return
    for group_id in sorted({*before.offsets.groups, *after.offsets.groups}):
        if before.offsets.topics(group_id) is after.offsets.topics(group_id):
            continue
        old = {(topic, number): each for topic, number, each in before.offsets.partitions(group_id)}
        new = {(topic, number): each for topic, number, each in after.offsets.partitions(group_id)}
        for topic, number in sorted({*old, *new}):
            if old.get((topic, number)) != new.get((topic, number)):
                yield Place(group_id, topic, number), old.get((topic, number)), new.get((topic, number))


def _member(command: CommitOffsets) -> tuple[str, int]:
    """The member that commits, and its generation or epoch."""
    return command.request.member_id, command.request.generation_id_or_member_epoch
