"""Members of groups that commit increasing offsets, and check that no committed offset is lost or goes back."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Final, TypeVar

from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call
from kraft.rpc.group_calls import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning
from tests.support.working_thread import WorkingThread

ASK_S: Final = 2.0
"""Deadline of a call that is answered at once."""

REBALANCE_S: Final = 30.0
HEARTBEAT_S: Final = 3.0
PAUSE_S: Final = 0.01
RETRY_S: Final = 0.05
STOP_LOOK_S: Final = 0.05
FETCHED_EVERY: Final = 5
"""Offsets are fetched after this many commits, and after each failure."""

Request = TypeVar("Request")
Response = TypeVar("Response")

_SESSION_MS: Final = 45_000
_HOLD_ON: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_MEMBER_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH)


class GroupMember(ABC):
    """The only member of its group. It commits 1, 2, 3 ... for each partition of a topic."""

    def __init__(
        self, group_id: str, topic: str, partitions: int, servers: Iterator[str], connections: PeerConnections
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.attempted = self.acknowledged = 0
        self.acknowledged_at_s: list[float] = []
        self.coordinator_id = -1
        self.joins = 0
        self.mistakes: list[str] = []
        self.failures: Counter[str] = Counter()
        self._partitions = tuple(range(partitions))
        self._servers = servers
        self._connections = connections
        self._address = ""
        self._member_id, self._generation = "", -1
        self._heartbeat_at_s = 0.0

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                await self._find()
                if self._generation < 0:
                    await self._join()
                await self._commit()
                if self.acknowledged % FETCHED_EVERY == 0:
                    await self._check()
                if time.monotonic() > self._heartbeat_at_s + HEARTBEAT_S:
                    self._heartbeat_at_s = time.monotonic()
                    await self._heartbeat()
                await asyncio.sleep(PAUSE_S)
            except Unreachable as gone:
                self._failed(type(gone).__name__)
                await asyncio.sleep(RETRY_S)
            except Refusal as refusal:
                self._failed(refusal.error_code.name, refusal.error_code)
                await asyncio.sleep(RETRY_S)

    async def check_at_the_end(self) -> None:
        """Check what is committed, once nothing fails any more."""
        until_s = time.monotonic() + REBALANCE_S
        while True:
            try:
                await self._find()
                await self._check()
            except (Unreachable, Refusal):
                if time.monotonic() > until_s:
                    raise
                self._address = ""
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _failed(self, kind: str, code: ErrorCode = ErrorCode.NONE) -> None:
        self.failures[kind] += 1
        if code in _MEMBER_LOST:
            self._member_id, self._generation = "", -1
        elif code is not _HOLD_ON:
            self._address = ""

    async def _find(self) -> None:
        while not self._address:
            peer = self._connections.peer(next(self._servers))
            request = FindCoordinatorRequest(coordinator_keys=(self.group_id,))
            (found,) = (await peer.call(FIND_COORDINATOR, request, ASK_S)).coordinators
            _raise(found.error_code)
            self.coordinator_id, self._address = found.node_id, f"{found.host}:{found.port}"

    async def _call(self, call: Call[Request, Response], request: Request, timeout_s: float = ASK_S) -> Response:
        return await self._connections.peer(self._address).call(call, request, timeout_s)

    @abstractmethod
    async def _join(self) -> None: ...

    @abstractmethod
    async def _heartbeat(self) -> None: ...

    async def _commit(self) -> None:
        self.attempted = self.acknowledged + 1
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=each, committed_offset=self.attempted, committed_metadata=None)
            for each in self._partitions
        )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            member_id=self._member_id,
            generation_id_or_member_epoch=self._generation,
            topics=(OffsetCommitRequestTopic(name=self.topic, partitions=partitions),),
        )
        response = await self._call(OFFSET_COMMIT, request)
        for topic in response.topics:
            for each in topic.partitions:
                _raise(each.error_code)
        self.acknowledged = self.attempted
        self.acknowledged_at_s.append(time.monotonic())

    async def _check(self) -> None:
        least, most = self.acknowledged, self.attempted
        asked = OffsetFetchRequestGroup(
            group_id=self.group_id,
            topics=(OffsetFetchRequestTopics(name=self.topic, partition_indexes=self._partitions),),
        )
        (group,) = (await self._call(OFFSET_FETCH, OffsetFetchRequest(groups=(asked,)))).groups
        _raise(group.error_code)
        for each in group.topics[0].partitions:
            _raise(each.error_code)
            if not least <= max(each.committed_offset, 0) <= most:
                self.mistakes.append(
                    f"{self.group_id}: partition {each.partition_index} is committed at {each.committed_offset}, "
                    f"and {least} was acknowledged, {most} sent"
                )


class ClassicMember(GroupMember):
    async def _join(self) -> None:
        joined = await self._joined(self._member_id)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self._joined(joined.member_id)
        _raise(joined.error_code)
        assert joined.leader == joined.member_id, "the group has one member"
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assigning({joined.member_id: b""}),
        )
        _raise((await self._call(SYNC_GROUP, request, REBALANCE_S)).error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        self.joins += 1

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self.group_id, generation_id=self._generation, member_id=self._member_id)
        _raise((await self._call(HEARTBEAT, request)).error_code)

    async def _joined(self, member_id: str) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=member_id,
            session_timeout_ms=_SESSION_MS,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        return await self._call(JOIN_GROUP, request, REBALANCE_S)


class ConsumerMember(GroupMember):
    async def _join(self) -> None:
        member_id = f"member-{self.group_id}"
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(self.topic,),
            topic_partitions=(),
        )
        self._generation = await self._epoch_after(request)
        self._member_id = member_id
        self.joins += 1

    async def _heartbeat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self._member_id, member_epoch=self._generation
        )
        self._generation = await self._epoch_after(request)

    async def _epoch_after(self, request: ConsumerGroupHeartbeatRequest) -> int:
        response = await self._call(CONSUMER_GROUP_HEARTBEAT, request)
        _raise(response.error_code)
        return response.member_epoch


class GroupLoad(WorkingThread):
    """Groups of both protocols, with a member each. At the end of the block each member checks what is committed."""

    def __init__(self, servers: Sequence[str], topic: str, *, groups: int, partitions: int) -> None:
        super().__init__("group-load", REBALANCE_S * 2)
        self._servers = tuple(servers)
        self._topic = topic
        self._groups = groups
        self._partitions = partitions
        self.members: list[GroupMember] = []

    def _work(self) -> None:
        asyncio.run(self._run_members())

    async def _run_members(self) -> None:
        connections, stopping = PeerConnections(), asyncio.Event()
        servers = cycle(self._servers)
        self.members = [
            (ClassicMember, ConsumerMember)[number % 2](
                f"group-{number}", self._topic, self._partitions, servers, connections
            )
            for number in range(self._groups)
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                for member in self.members:
                    tasks.create_task(member.run(stopping))
                # Not a wait in a thread, which nothing would end where a member fails.
                while not self._stopping.is_set():  # noqa: ASYNC110  It is a thread's event.
                    await asyncio.sleep(STOP_LOOK_S)
                stopping.set()
            for member in self.members:
                await member.check_at_the_end()
        finally:
            await connections.close()

    @property
    def mistakes(self) -> list[str]:
        return [mistake for member in self.members for mistake in member.mistakes]


def _raise(code: int) -> None:
    if code != ErrorCode.NONE:
        raise Refusal(ErrorCode(code), ErrorCode(code).name)


@contextmanager
def group_load(servers: Sequence[str], topic: str, *, groups: int, partitions: int) -> Iterator[GroupLoad]:
    """Run a load. Raises AssertionError at the end if an offset that was acknowledged is lost or went back."""
    with GroupLoad(servers, topic, groups=groups, partitions=partitions) as load:
        yield load
    load.check()
    assert not load.mistakes, "\n".join(load.mistakes[:20])
