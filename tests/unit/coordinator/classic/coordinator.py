"""One classic group on virtual time, as a host would run it. After every step, what must always hold is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from kraft.coordinator.classic.deletion import delete_group
from kraft.coordinator.classic.draft import ClassicGroupDecision
from kraft.coordinator.classic.expiry import loaded, timer_ended
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.heartbeat import heartbeat
from kraft.coordinator.classic.join import join_group
from kraft.coordinator.classic.leave import leave_group
from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.coordinator.classic.records import group_record, recorded_group
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.sync import sync_group
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue
from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.classic_requests import assigning, join_command, offered

Response = TypeVar("Response")

GROUP = "billing"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def protocols(*names: str, topics: str = "orders") -> tuple[JoinGroupRequestProtocol, ...]:
    return tuple(offered(name, f"{name}:{topics}".encode()) for name in names)


def join_request(**fields: Any) -> JoinGroup:
    request: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocols": protocols("range"),
    }
    return join_command(**{**request, **fields})


class Coordinator:
    def __init__(self, **settings: int) -> None:
        self.settings = ClassicSettings(**settings)
        self.now_ms = 1_000_000
        self.group: ClassicGroup | None = None
        self.recorded: GroupMetadataValue | None = None
        self.records: list[GroupMetadataValue | None] = []
        self.timers: dict[TimerKey, int] = {}
        """When each timer ends."""
        self.replies: dict[Ticket, object] = {}
        self._requests: dict[Ticket, object] = {}
        self._tickets = count(1)
        self._ids = count(1)
        self._assignments: dict[tuple[int, str], bytes] = {}
        self._protocols: dict[int, str | None] = {}

    @property
    def state(self) -> ClassicGroupState:
        return self.group.state if self.group is not None else ClassicGroupState.DEAD

    def is_in(self, state: ClassicGroupState) -> bool:
        return self.state is state

    @property
    def live(self) -> ClassicGroup:
        assert self.group is not None
        return self.group

    # --- requests ----------------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", **fields: Any) -> Ticket:
        return self._request(join_group, join_request(member_id=member_id, **fields))

    def sync(self, member_id: str, generation: int | None = None, **fields: Any) -> Ticket:
        """Send a SyncGroup; `assignments` are by member."""
        generation = self.live.generation if generation is None else generation
        assignments = assigning(fields.pop("assignments", {}))
        request = SyncGroupRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation, assignments=assignments, **fields
        )
        return self._request(sync_group, request)

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> object:
        if generation is None:
            generation = self.live.generation
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        return self.replies[self._request(heartbeat, request)]

    def leave(self, *members: MemberIdentity) -> list[ErrorCode]:
        ticket = self._request(leave_group, LeaveGroupRequest(group_id=GROUP, members=members))
        response: Any = self.replies[ticket]
        return [each.error_code for each in response.members]

    def delete(self) -> object:
        ticket = self._ticket(GROUP)
        self._apply(delete_group(self.group, ticket, GROUP))
        return self.replies[ticket]

    def join_with_id(self, **fields: Any) -> tuple[str, Ticket]:
        """Join as clients do: the first JoinGroup gets a member id, the second one uses it."""
        required = self.answer(self.join(**fields), MemberIdRequired)
        return required.member_id, self.join(required.member_id, **fields)

    def stable(self, members: int = 2, **fields: Any) -> list[str]:
        """Bring a new group to its first generation; return its members, the leader first."""
        joins = [self.join_with_id(**fields) for _ in range(members)]
        self.advance(self.settings.initial_rebalance_delay_ms * 2)
        return self.settle([member_id for member_id, _ in joins])

    def settle(self, members: list[str]) -> list[str]:
        """Sync all of these members of a generation that has just begun; return them, the leader first."""
        assert self.state is ClassicGroupState.COMPLETING_REBALANCE
        leader = self.live.leader
        assert leader is not None
        followers = [member_id for member_id in members if member_id != leader]
        tickets = [self.sync(member_id) for member_id in followers]
        assignments = {member_id: f"{member_id} in {self.live.generation}".encode() for member_id in members}
        tickets.append(self.sync(leader, assignments=assignments))
        assert all(isinstance(self.replies[ticket], SyncGroupResponse) for ticket in tickets)
        return [leader, *followers]

    def waits(self, ticket: Ticket) -> bool:
        return ticket not in self.replies

    def answer(self, ticket: Ticket, kind: type[Response]) -> Response:
        answer = self.replies[ticket]
        assert isinstance(answer, kind), answer
        return answer

    def refusal(self, ticket: Ticket) -> ErrorCode:
        return self.answer(ticket, Refusal).error_code

    # --- time and failures -------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while due := [(at, repr(key), key) for key, at in self.timers.items() if at <= until]:
            at, _, key = min(due)
            self.now_ms = max(at, self.now_ms)
            del self.timers[key]
            assert isinstance(key, SessionTimer | JoinTimer | SyncTimer)
            self._apply(timer_ended(self.live, key, self.settings, self._context()))
        self.now_ms = until

    def load(self, **settings: int) -> None:
        """Continue from what is recorded, as another broker does; requests that waited get no response from here."""
        self.settings = ClassicSettings(**settings) if settings else self.settings
        for ticket in self._requests.keys() - self.replies.keys():
            del self._requests[ticket]
        self.timers.clear()
        self.group = None
        # What was not recorded is forgotten, also that a generation had begun.
        generation = self.recorded.generation if self.recorded is not None else 0
        self._protocols = {number: name for number, name in self._protocols.items() if number <= generation}
        if self.recorded is not None:
            self._apply(loaded(recorded_group(GROUP, self.recorded), self.settings, self._context()))

    def _ticket(self, request: object) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self._requests[ticket] = request
        return ticket

    def _context(self) -> DecisionContext:
        return DecisionContext(now_ms=self.now_ms, image=MetadataImage(), random_id=f"{next(self._ids):04}")

    def _request(self, decide: Callable[..., ClassicGroupDecision], request: object) -> Ticket:
        ticket = self._ticket(request)
        self._apply(decide(self.group, ticket, request, self.settings, self._context()))
        return ticket

    def _apply(self, decision: ClassicGroupDecision) -> None:
        self.group = decision.volatile
        for record in decision.records:
            stored = decode(*encode(record))
            assert stored == record
            assert isinstance(stored, GroupRecord)
            assert stored.key == GroupMetadataKey(group=GROUP)
            assert stored.value is None or isinstance(stored.value, GroupMetadataValue)
            self.recorded = stored.value
            self.records.append(stored.value)
        for key, delay_ms in decision.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                assert delay_ms >= 0
                self.timers[key] = self.now_ms + delay_ms
        for reply in decision.replies:
            self._answer(reply.ticket, reply.response)
        self._check()

    # --- what must always hold ---------------------------------------------------------------------------------------

    def _answer(self, ticket: Ticket, response: object) -> None:
        assert ticket in self._requests, f"{response} to a request that is unknown, or ended with a leadership"
        assert ticket not in self.replies, f"{response} after {self.replies[ticket]}"
        self.replies[ticket] = response
        request = self._requests[ticket]
        if isinstance(response, JoinGroupResponse):
            assert self._protocols.setdefault(response.generation_id, response.protocol_name) == response.protocol_name
        if isinstance(response, SyncGroupResponse):
            assert isinstance(request, SyncGroupRequest)
            given = (request.generation_id, request.member_id)
            assert self._assignments.setdefault(given, response.assignment) == response.assignment

    def _check(self) -> None:
        group = self.group
        parked = [] if group is None else [*group.joins.values(), *group.syncs.values()]
        assert sorted(parked) == sorted(self._requests.keys() - self.replies.keys())
        if group is None:
            assert not self.timers
            return
        sessions = {key.member_id for key in self.timers if isinstance(key, SessionTimer)}
        waiting = group.joins.keys() | group.syncs.keys()
        assert sessions <= group.members.keys() | group.pending_joins.keys()
        assert group.members.keys() - waiting <= sessions
        assert group.pending_joins.keys() <= sessions
        assert not group.pending_joins.keys() & group.members.keys()
        assert (JoinTimer(GROUP) in self.timers) == (group.state is ClassicGroupState.PREPARING_REBALANCE)
        assert (SyncTimer(GROUP) in self.timers) == bool(group.pending_syncs)
        assert not group.joins or JoinTimer(GROUP) in self.timers
        assert not group.syncs or SyncTimer(GROUP) in self.timers
        assert group.leader is not None or not group.members or group.state is ClassicGroupState.PREPARING_REBALANCE
        assert group.leader is None or group.members
        assert group.leader is None or group.leader in group.members
        names = Counter(name for each in group.members.values() for name in {p.name for p in each.protocols})
        assert dict(group.supporters) == names
        members = group.members.values()
        instances = {each.group_instance_id: each.member_id for each in members if each.group_instance_id is not None}
        assert dict(group.static_members) == instances
        if group.state is ClassicGroupState.STABLE or (group.state is ClassicGroupState.EMPTY and group.generation):
            assert group_record(group).value == self.recorded
            assert self.recorded is not None
            assert group_record(recorded_group(GROUP, self.recorded)).value == self.recorded
