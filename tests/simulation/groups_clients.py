"""Consumers of a simulated coordinator: processes that follow the classic protocol, or that of KIP-848.

Each has at most one request of a kind under way. One that gives up a request does not take its response any more, but
the request may still arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partitions
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.consumer.group import LEAVE_EPOCH, LEFT_STATIC_EPOCH
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.groups.commands import CommitOffsets, GroupCommand
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.wire.schema import heartbeat
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.offset_commit import OffsetCommitRequestPartition
from kraft.wire.schema.offset_fetch import OffsetFetchResponseTopics
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.groups_history import FetchOffsets, assignment, parsed
from tests.support import offset_commands
from tests.support.classic_requests import assigning, join_command, offered

SESSION_MS = 3_000
REBALANCE_MS = 5_000

_NO_COORDINATOR = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
_REMOVED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
_STALE = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH}

Partition = tuple[str, int]


class Coordinator(Protocol):
    """A broker that coordinates groups, or did so."""

    leader_epoch: int
    is_gone: bool
    frozen_until_ms: int

    def receive(self, request: Request, /) -> None: ...


class Request(Struct, frozen=True, eq=False):
    """A message to a coordinator."""

    sender: Client | None
    """None for an administrator, who sends single requests and does not wait for the responses."""

    host: Coordinator
    command: GroupCommand | FetchOffsets


class Surroundings(Struct, frozen=True, kw_only=True):
    """What clients know of the world."""

    random: Random
    send: Callable[[Request], None]
    give_up: Callable[[Request], None]
    find_coordinator: Callable[[int], Coordinator | None]
    """Returns a broker that leads the partition, or has led it in this leader epoch or a later one."""

    partitions_of: Callable[[frozenset[str]], list[Partition]]
    next_commit: Callable[[], int]
    joined: Callable[[str, Client], None]
    """Called when the client gets a member id."""

    topic_name: Callable[[TopicId], str]
    is_of_member: Callable[[ConsumerHeartbeat], bool]
    """Returns whether a heartbeat was decided after the last time that its member was removed."""

    heard: Callable[[ConsumerHeartbeat, Partitions], None]
    """Called with what a member takes for its assignment after the response to a heartbeat."""


class Client(ABC):
    """A process from its start to its end."""

    protocol: ClassVar[str]
    session_ms: ClassVar[int] = SESSION_MS
    rebalance_ms: ClassVar[int] = REBALANCE_MS

    def __init__(self, surroundings: Surroundings, group_id: str, instance_id: str | None, topics: frozenset[str]):
        self.surroundings = surroundings
        self.random = surroundings.random
        self.group_id = group_id
        self.instance_id = instance_id
        self.topics = topics
        self.is_alive = True
        self.was_removed = False
        """It is no member, and reads what it owned until it hears of it."""
        self.member_id = ""
        self.positions: dict[Partition, int] = {}
        """Offsets of the partitions that it reads, once they are fetched."""
        self.is_fenced = False
        self.is_incompatible = False
        """The group uses the other protocol."""
        self._host: Coordinator | None = None
        self._leader_epoch = 0
        self._group_request: Request | None = None
        self._commit: Request | None = None
        self._fetch: Request | None = None

    # --- what the world does with it ---------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one thing: send a request, or read."""
        if not self.is_alive or not self._has_coordinator():
            return
        missing = self.holds(self.member_id) - self.positions.keys()
        if missing and self._fetch is None and self.random.random() < 0.5:
            self._send_fetch(missing)
        elif self._group_request is None and self.random.random() < self.eagerness():
            self._group_request = self._send(self.next_command())
        elif self.positions:
            self.read_or_commit()

    def stop_waiting(self) -> None:
        """Give up the requests that are under way."""
        for request in (self._group_request, self._commit, self._fetch):
            if request is not None:
                self.surroundings.give_up(request)
                if request is self._group_request:
                    self.missed(request)
        self._group_request = self._commit = self._fetch = None

    def receive(self, request: Request, response: object) -> None:
        """Take a response, unless the client has given up waiting for it."""
        if isinstance(response, Refusal) and response.error_code in _NO_COORDINATOR:
            self._host = None
        if request is self._group_request:
            self._group_request = None
            self.answered(request.command, response)
        elif request is self._commit:
            self._commit = None
            if isinstance(response, Refusal):
                self.commit_refused(response.error_code)
        elif request is self._fetch:
            self._fetch = None
            if not isinstance(response, Refusal):
                self.fetched(response)

    def end(self) -> None:
        """Kill the process."""
        self.stop_waiting()
        self.is_alive = False

    # --- what the protocols differ in --------------------------------------------------------------------------------

    @abstractmethod
    def holds(self, member_id: str) -> frozenset[Partition]:
        """Return the partitions that it reads as this member."""

    @abstractmethod
    def eagerness(self) -> float:
        """Return how likely the next step is a request of the protocol."""

    @abstractmethod
    def next_command(self) -> GroupCommand: ...

    @abstractmethod
    def answered(self, command: Any, response: Any) -> None: ...

    @abstractmethod
    def missed(self, request: Request) -> None:
        """Handle that the response to a request of the protocol is lost."""

    @abstractmethod
    def commit_refused(self, error_code: ErrorCode) -> None: ...

    @abstractmethod
    def leave(self) -> None:
        """End the process, and tell the coordinator first."""

    @property
    @abstractmethod
    def generation(self) -> int: ...

    # --- offsets -----------------------------------------------------------------------------------------------------

    def read_or_commit(self) -> None:
        if self._commit is None and self.random.random() < 0.6:
            self._commit = self._send(self.commit_command())
        else:
            partition = self.random.choice(sorted(self.positions))
            self.positions[partition] += self.random.randint(1, 5)

    def commit_command(self) -> CommitOffsets:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), position in sorted(self.positions.items()):
            metadata = str(self.surroundings.next_commit())
            partition = offset_commands.offset(number, position, metadata=metadata)
            topics.setdefault(topic, []).append(partition)
        return offset_commands.committing(
            self.group_id,
            *(offset_commands.offsets(topic, *each) for topic, each in topics.items()),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation=self.generation,
        )

    def _send_fetch(self, missing: frozenset[Partition]) -> None:
        topics: dict[str, tuple[int, ...]] = {}
        for topic, number in sorted(missing):
            topics[topic] = (*topics.get(topic, ()), number)
        self._fetch = self._send(self.fetch_command(topics))

    def fetch_command(self, topics: dict[str, tuple[int, ...]]) -> FetchOffsets:
        return FetchOffsets(group_id=self.group_id, partitions=topics)

    def fetched(self, response: Any) -> None:
        owned = self.holds(self.member_id)
        for topic in response:
            assert isinstance(topic, OffsetFetchResponseTopics)
            for each in topic.partitions:
                partition = (topic.name, each.partition_index)
                is_known = each.error_code is ErrorCode.NONE
                if is_known and partition in owned and partition not in self.positions:
                    self.positions[partition] = max(each.committed_offset, 0)

    def forget_positions(self) -> None:
        """Forget what was read and fetched: the partitions are another member's now, or may be."""
        self.positions.clear()
        if self._fetch is not None:
            self.surroundings.give_up(self._fetch)
            self._fetch = None

    # --- the coordinator ---------------------------------------------------------------------------------------------

    def _has_coordinator(self) -> bool:
        if self._host is None or self._host.is_gone:
            if self._group_request is not None or self._commit is not None or self._fetch is not None:
                self.stop_waiting()
            # It does not return to an earlier coordinator: Kafka's protocol has no epoch by which to notice that one.
            self._host = self.surroundings.find_coordinator(self._leader_epoch)
            if self._host is not None:
                self._leader_epoch = self._host.leader_epoch
        return self._host is not None

    def _send(self, command: GroupCommand | FetchOffsets) -> Request:
        assert self._host is not None
        request = Request(self, self._host, command)
        self.surroundings.send(request)
        return request


class ClassicClient(Client):
    """A consumer that gives up everything before it joins again."""

    protocol = "classic"

    def __init__(self, surroundings: Surroundings, group_id: str, instance_id: str | None, topics: frozenset[str]):
        super().__init__(surroundings, group_id, instance_id, topics)
        self._generation = -1
        self.assigned: frozenset[Partition] | None = None
        self._sync: SyncGroupRequest | None = None
        self._shared: list[Partition] | None = None
        """The partitions that it has shared out, if it leads."""
        self.skips_assignment = False
        """It leads, but another process shared out the partitions: it does not know which (KIP-814)."""

    @property
    def generation(self) -> int:
        return self._generation

    def step(self) -> None:
        if self.assigned is not None and self._shared not in (None, self.surroundings.partitions_of(self.topics)):
            self.join_again()
        super().step()

    def holds(self, member_id: str) -> frozenset[Partition]:
        return self.assigned or frozenset() if member_id == self.member_id and self.is_alive else frozenset()

    def eagerness(self) -> float:
        return 0.9 if self.assigned is None else 0.3

    def join_again(self) -> None:
        self.assigned = self._sync = None
        self.forget_positions()

    def next_command(self) -> GroupCommand:
        if self._sync is not None:
            return self._sync
        if self.assigned is not None:
            return HeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                generation_id=self._generation,
                group_instance_id=self.instance_id,
            )
        return join_command(
            group_id=self.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            protocols=(offered("range", _subscription(self.topics)),),
        )

    def answered(self, command: Any, response: Any) -> None:
        match response:
            case MemberIdRequired():
                self._become(response.member_id)
            case Refusal():
                self._refused(response.error_code)
            case JoinGroupResponse():
                self._become(response.member_id)
                self._generation = response.generation_id
                self._sync = self._sync_command(response)
            case SyncGroupResponse():
                self._sync, self.assigned = None, parsed(response.assignment)
            case _:
                assert isinstance(response, heartbeat.HeartbeatResponse), response

    def _refused(self, error_code: ErrorCode) -> None:
        self.is_fenced |= error_code is ErrorCode.FENCED_INSTANCE_ID
        self.is_incompatible = error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error_code in _REMOVED:
            self.member_id = ""
        if error_code not in _NO_COORDINATOR or self.assigned is None:
            self.join_again()

    def missed(self, request: Request) -> None:
        if not isinstance(request.command, HeartbeatRequest):
            self.join_again()

    def commit_refused(self, error_code: ErrorCode) -> None:
        if error_code in _STALE or error_code in _REMOVED or error_code is ErrorCode.FENCED_INSTANCE_ID:
            self._refused(error_code)

    def leave(self) -> None:
        if self.instance_id is None and self.member_id and self._has_coordinator():
            self._send(LeaveGroupRequest(group_id=self.group_id, members=(MemberIdentity(member_id=self.member_id),)))
        self.end()

    def _become(self, member_id: str) -> None:
        self.member_id = member_id
        self.surroundings.joined(member_id, self)

    def _sync_command(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        shares: dict[str, list[Partition]] = {each.member_id: [] for each in joined.members}
        self._shared = None
        self.skips_assignment = joined.skip_assignment
        if joined.leader == joined.member_id and not joined.skip_assignment:
            self._shared = self.surroundings.partitions_of(self.topics)
            for number, partition in enumerate(self._shared):
                shares[sorted(shares)[number % len(shares)]].append(partition)
        return SyncGroupRequest(
            group_id=self.group_id,
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            group_instance_id=self.instance_id,
            assignments=assigning({member_id: assignment(frozenset(share)) for member_id, share in shares.items()}),
        )


class ConsumerClient(Client):
    """A consumer that takes partitions at once, and needs a while to give them up."""

    protocol = "consumer"

    def __init__(self, surroundings: Surroundings, group_id: str, instance_id: str | None, topics: frozenset[str]):
        super().__init__(surroundings, group_id, instance_id, topics)
        self.member_id = f"m{surroundings.next_commit()}"
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.revoking: Partitions = NO_PARTITIONS
        self._reported: Partitions | None = None
        self._subscribed: frozenset[str] | None = None
        self._is_full = True
        self._answered: ConsumerHeartbeat | None = None
        surroundings.joined(self.member_id, self)

    @property
    def generation(self) -> int:
        return self.epoch

    def holds(self, member_id: str) -> frozenset[Partition]:
        if member_id != self.member_id or not self.is_alive:
            return frozenset()
        return frozenset((self.surroundings.topic_name(topic_id), number) for topic_id, number in self.owned)

    def eagerness(self) -> float:
        return 0.5

    def step(self) -> None:
        if self.is_alive and self.revoking and self.random.random() < 0.5:
            self.give_up()
        else:
            super().step()

    def give_up(self) -> None:
        """Stop to read the partitions that the coordinator wants back."""
        self.owned -= self.revoking
        self.revoking = NO_PARTITIONS
        owned = self.holds(self.member_id)
        self.positions = {partition: each for partition, each in self.positions.items() if partition in owned}
        self._forget_removal()

    def _forget_removal(self) -> None:
        """Count as a member again: one that was removed, and has heard what it is assigned, gives up the rest first."""
        if self._answered is not None and self.surroundings.is_of_member(self._answered) and not self.revoking:
            self.was_removed = False

    def next_command(self) -> GroupCommand:
        return self._heartbeat(self.epoch)

    def _heartbeat(self, epoch: int) -> ConsumerHeartbeat:
        is_full = self._is_full or self.epoch == 0 or self.topics != self._subscribed
        # It may say what it owns also if it has said so before.
        says_owned = is_full or self.owned != self._reported or self.random.random() < 0.3
        return ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if is_full else -1,
            topics=self.topics if is_full else None,
            owned=self.owned if says_owned else None,
        )

    def fetch_command(self, topics: dict[str, tuple[int, ...]]) -> FetchOffsets:
        return FetchOffsets(
            group_id=self.group_id, partitions=topics, member_id=self.member_id, member_epoch=self.epoch
        )

    def missed(self, request: Request) -> None:
        self._is_full = True

    def answered(self, command: Any, response: Any) -> None:
        if isinstance(response, Refusal):
            self._refused(response.error_code)
            return
        assert isinstance(response, ConsumerHeartbeatResponse)
        assert isinstance(command, ConsumerHeartbeat)
        self._reported = self._reported if command.owned is None else command.owned
        self._subscribed = self._subscribed if command.topics is None else command.topics
        self._is_full = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned |= response.assignment
            self.revoking = self.owned - response.assignment
        self._answered = command
        self.surroundings.heard(command, self.owned - self.revoking)
        self._forget_removal()

    def _refused(self, error_code: ErrorCode) -> None:
        self._is_full = True
        self.is_fenced |= error_code is ErrorCode.FENCED_INSTANCE_ID
        self.is_incompatible = error_code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch == 0
        if error_code in _NO_COORDINATOR:
            return
        self.epoch = 0
        self.owned = self.revoking = NO_PARTITIONS
        self.forget_positions()

    def commit_refused(self, error_code: ErrorCode) -> None:
        """Do nothing: the next heartbeat shows what has changed."""

    def leave(self) -> None:
        if self.epoch > 0 and self._has_coordinator():
            is_static = self.instance_id is not None and self.random.random() < 0.7
            self._send(self._heartbeat(LEFT_STATIC_EPOCH if is_static else LEAVE_EPOCH))
        self.end()


def _subscription(topics: frozenset[str]) -> bytes:
    """Return the subscription of a consumer, as far as coordinators read it."""
    names = [name.encode() for name in sorted(topics)]
    listed = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return bytes(2) + len(names).to_bytes(4, "big") + listed
