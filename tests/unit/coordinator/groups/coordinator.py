"""A host of one group shard on virtual time. Every record goes through the codec and is committed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import count
from typing import Any, TypeVar

from kraft.coordinator.classic.memory import added_bytes
from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.coordinator.consumer.memory import added_bytes as consumer_bytes
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.groups.commands import CommitOffsets, DeleteGroup, DeleteOffsets, GroupCommand
from kraft.coordinator.groups.replicated import NO_GROUPS, Groups, replay, unresolved_regexes
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsDecision, GroupsVolatile
from kraft.coordinator.shard import DecisionContext, ShardWork, Ticket, TimerKey
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support import offset_commands
from tests.support.classic_requests import assigning, join_command, offered
from tests.unit.coordinator.consumer.coordinator import image_of

Response = TypeVar("Response")

GROUP = "billing"
SESSION_MS = 10_000
REBALANCE_MS = 60_000

AT_ONCE = GroupShardSettings(consumer=GroupSettings(assignment_interval_ms=0))
"""A group that changes is assigned with the next heartbeat."""


def subscription(*topics: str) -> bytes:
    """The subscription of a consumer, version 0, without user data."""
    names = b"".join(len(name.encode()).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff" * 4


def compacted(log: Iterable[tuple[bytes, bytes | None]]) -> Iterator[tuple[bytes, bytes | None]]:
    """The last record of each key in its place, tombstones included."""
    records = list(log)
    last = {key: number for number, (key, _) in enumerate(records)}
    return (record for number, record in enumerate(records) if last[record[0]] == number)


def replayed(log: Iterable[tuple[bytes, bytes | None]]) -> Groups:
    return reduce(replay, (decoded(*record) for record in log), NO_GROUPS)


def decoded(key: bytes, value: bytes | None) -> GroupRecord:
    record = decode(key, value)
    assert isinstance(record, GroupRecord)
    return record


def names(records: Iterable[tuple[bytes, bytes | None]]) -> list[str]:
    """What the records are of; a tombstone begins with -."""
    return [_name(decoded(*record)) for record in records]


def _name(record: GroupRecord) -> str:
    name = type(record.key).__name__.removesuffix("Key").removeprefix("ConsumerGroup")
    return name if record.value is not None else f"-{name}"


class Coordinator:
    def __init__(self, settings: GroupShardSettings | None = None, **partition_counts: int) -> None:
        self.settings = settings or AT_ONCE
        self.shard = GroupShard(self.settings)
        self.image: MetadataImage = image_of(partition_counts or {"orders": 2})
        self.now_ms = 1_000_000
        self.groups = self.shard.empty()
        self.volatile = GroupsVolatile()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches: list[int] = []
        """How many records each decision had, of those that had any."""
        self.timers: dict[TimerKey, int] = {}
        """When each timer ends."""
        self.replies: dict[Ticket, object] = {}
        self.work: list[ShardWork] = []
        """Work beside the shard that was begun."""
        self.events: list[Any] = []
        self._tickets = count(1)
        self._ids = count(1)
        self.load()

    # --- the contract of a shard -------------------------------------------------------------------------------------

    def load(self) -> None:
        """Continue from the log, as another broker does."""
        self.groups = replayed(self.log)
        self.timers.clear()
        self.work.clear()
        self._apply(self.shard.loaded(self.groups, self._context()))

    def request(self, command: GroupCommand) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self._apply(self.shard.decide(self.groups, self.volatile, ticket, command, self._context()))
        return ticket

    def advance(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda each: (self.timers[each], repr(each)))
            self.now_ms = max(self.timers.pop(key), self.now_ms)
            self.end(key)
        self.now_ms = until

    def end(self, key: TimerKey) -> None:
        self._apply(self.shard.timer_ended(self.groups, self.volatile, key, self._context()))

    def _context(self) -> DecisionContext:
        return DecisionContext(now_ms=self.now_ms, image=self.image, random_id=f"{next(self._ids):04}")

    def _apply(self, decision: GroupsDecision) -> None:
        for record in decision.records:
            encoded = encode(record)
            assert decoded(*encoded) == record
            self.log.append(encoded)
            self.groups = self.shard.replay(self.groups, record)
        if decision.records:
            self.batches.append(len(decision.records))
        self.volatile = decision.volatile
        for key, delay_ms in decision.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                self.timers[key] = self.now_ms + delay_ms
        for reply in decision.replies:
            assert reply.ticket not in self.replies
            self.replies[reply.ticket] = reply.response
        self.work += decision.work
        self.events += decision.events
        self.check()

    def finish_work(self) -> None:
        """Decide what the oldest work brings."""
        for command in self.work.pop(0).commands():
            if self.replies[self.request(command)] is False:
                return

    def replace_settings(self, consumer: GroupSettings) -> None:
        self.shard = GroupShard(GroupShardSettings(consumer=consumer))

    def check(self) -> None:
        """Check what must always hold."""
        recorded = {group_id for group_id, group in self.volatile.classic.items() if group.is_recorded}
        assert recorded == self.groups.classic.keys() - self.groups.consumer.keys()
        assert self.volatile.classic_bytes == sum(added_bytes(None, each) for each in self.volatile.classic.values())
        assert not self.volatile.classic.keys() & self.groups.consumer.keys()
        for key in self.volatile.rejoining:
            assert self.groups.consumer[key.group_id].members[key.member_id].classic is not None
            assert key in self.timers
        for group in self.groups.consumer.values():
            steady = Counter(each.epoch for each in group.members.values() if each.epoch < 0 or each.state == 0)
            assert dict(group.epoch_counts.items()) == steady
        scanned = {
            group_id: {each.topic_regex for each in group.members.values() if each.topic_regex}
            for group_id, group in self.groups.consumer.items()
        }
        assert self.groups.with_regexes.keys() == {group_id for group_id, regexes in scanned.items() if regexes}
        assert self.groups.consumer_bytes == sum(consumer_bytes(None, each) for each in self.groups.consumer.values())
        unresolved = {each: found - self.groups.consumer[each].regexes.keys() for each, found in scanned.items()}
        assert unresolved_regexes(self.groups) == {each: found for each, found in unresolved.items() if found}

    # --- requests ----------------------------------------------------------------------------------------------------

    def answer(self, ticket: Ticket, kind: type[Response]) -> Response:
        answer = self.replies[ticket]
        assert isinstance(answer, kind), answer
        return answer

    def refusal(self, command: GroupCommand) -> ErrorCode:
        return self.answer(self.request(command), Refusal).error_code

    def join(self, member_id: str = "", group_id: str = GROUP, **fields: Any) -> Ticket:
        return self.request(joining(member_id, group_id, **fields))

    def stable(self, group_id: str = GROUP, *topics: str) -> str:
        """Bring a new classic group with one member to its first generation; return the member."""
        fields: dict[str, Any] = {"protocols": (offered("range", subscription(*topics or ("orders",))),)}
        member_id = self.answer(self.join(group_id=group_id, **fields), MemberIdRequired).member_id
        ticket = self.join(member_id, group_id, **fields)
        self.advance(self.settings.classic.initial_rebalance_delay_ms * 2)
        generation = self.answer(ticket, JoinGroupResponse).generation_id
        sync = SyncGroupRequest(
            group_id=group_id, member_id=member_id, generation_id=generation, assignments=assigning({member_id: b"all"})
        )
        self.answer(self.request(sync), SyncGroupResponse)
        return member_id

    def empty_classic(self, group_id: str = GROUP) -> None:
        """Leave behind a recorded classic group without members."""
        member_id = self.stable(group_id)
        leave = LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=member_id),))
        assert self.answer(self.request(leave), LeaveGroupResponse).members[0].error_code is ErrorCode.NONE

    def classic_heartbeat(self, member_id: str, group_id: str = GROUP, generation: int = 1) -> object:
        ticket = self.request(HeartbeatRequest(group_id=group_id, member_id=member_id, generation_id=generation))
        return self.replies[ticket]

    def join_consumer(self, member_id: str = "m", group_id: str = GROUP, **fields: Any) -> ConsumerHeartbeatResponse:
        return self.answer(self.request(joining_consumer(member_id, group_id, **fields)), ConsumerHeartbeatResponse)

    def leave_consumer(self, member_id: str = "m", group_id: str = GROUP) -> None:
        leave = ConsumerHeartbeat(group_id=group_id, member_id=member_id, member_epoch=-1)
        self.answer(self.request(leave), ConsumerHeartbeatResponse)

    def commit(self, offset: int = 5, topic: str = "orders", group_id: str = GROUP, **fields: Any) -> object:
        """Commit an offset of partition 0; return NONE, another code of that partition, or a refusal's code."""
        response: Any = self.replies[self.request(committing(offset, topic, group_id, **fields))]
        return response.error_code if isinstance(response, Refusal) else response[0]

    def committed(self, topic: str = "orders", group_id: str = GROUP) -> int | None:
        committed = self.groups.offsets.offset(group_id, topic, 0)
        return None if committed is None else committed.offset

    def delete(self, group_id: str = GROUP) -> object:
        return self.replies[self.request(DeleteGroup(group_id=group_id))]

    def delete_offsets(self, topic: str = "orders", group_id: str = GROUP) -> object:
        command = DeleteOffsets(group_id=group_id, topics=(offset_commands.deletions(topic, 0),))
        response: Any = self.replies[self.request(command)]
        return response.error_code if isinstance(response, Refusal) else response[0]


def joining(member_id: str = "", group_id: str = GROUP, **fields: Any) -> JoinGroup:
    request: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocols": (offered("range", subscription("orders")),),
    }
    return join_command(**{**request, **fields})


def joining_consumer(member_id: str = "m", group_id: str = GROUP, **fields: Any) -> ConsumerHeartbeat:
    request: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": REBALANCE_MS,
        "topics": frozenset({"orders"}),
        "owned": frozenset(),
    }
    return ConsumerHeartbeat(**{**request, **fields})


def committing(offset: int = 5, topic: str = "orders", group_id: str = GROUP, **fields: Any) -> CommitOffsets:
    topics = offset_commands.offsets(topic, offset_commands.offset(0, offset))
    return offset_commands.committing(group_id, topics, **fields)
