"""Load on a coordinator of groups, as bare requests: a thousand real clients need more CPU than the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Final, TypeVar
from uuid import UUID, uuid4

from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")

CONNECTIONS: Final = 8
"""Requests in flight. A broker answers the requests of one connection one after the other."""

DEADLINE_S: Final = 120.0

NONE: Final = 0
_RETRIABLE: Final = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

_REBALANCE_IN_PROGRESS: Final = 27
_MEMBER_ID_REQUIRED: Final = 79

_ASSIGNOR: Final = "range"
_SUBSCRIPTION: Final = b"\0\0\0\0\0\1\0\4wide\xff\xff\xff\xff"
"""What a consumer of the classic protocol sends of itself: version 0, the topic "wide", no user data."""

_POLL_S: Final = 0.005
_BEAT_S: Final = 0.5
_SESSION_MS: Final = 300_000


class LoadFailed(Exception):
    """A broker answered with an error, or with something that no client could use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Times of requests that were answered, in the order in which they were sent."""

    seconds: float
    """Of all together."""

    latencies_ms: tuple[float, ...]

    @property
    def per_s(self) -> float:
        return len(self.latencies_ms) / self.seconds

    def percentile_ms(self, percent: int) -> float:
        return quantiles(self.latencies_ms, n=100, method="inclusive")[percent - 1]


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def call(self, request: Message, version: int, response: type[R]) -> R:
        """Send one request and return its response. Raises TimeoutError, OSError, IncompleteReadError."""
        async with asyncio.timeout(DEADLINE_S):
            self._writer.writelines(map(bytes, encode_request(request, version, 0, "load")))
            size = int.from_bytes(await self._reader.readexactly(SIZE_BYTES), "big")
            return decode_response(response, version, await self._reader.readexactly(size))[1]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connections(address: str, count: int) -> AsyncIterator[list[Connection]]:
    host, _, port = address.rpartition(":")
    async with AsyncExitStack() as opened:
        found = []
        for _ in range(count):
            connection = Connection(*await asyncio.open_connection(host, int(port)))
            opened.callback(connection.close)
            found.append(connection)
        yield found


# --- offsets ---------------------------------------------------------------------------------------------------------


def groups(count: int) -> list[str]:
    return [f"group-{number}" for number in range(count)]


async def find(address: str, names: Sequence[str]) -> None:
    """Wait until every one of these groups has a coordinator that answers."""
    async with connections(address, 1) as (connection,):
        for name in names:
            await _until(partial(_is_coordinated, connection, name))


async def commit(address: str, names: Sequence[str], topic: str, partitions: int, offset: int) -> Answers:
    """Commit one offset for each partition of the topic, one request a group."""

    async def one(connection: Connection, name: str) -> None:
        response = await connection.call(_commit_request(name, topic, partitions, offset), 8, OffsetCommitResponse)
        check(*(each.error_code for each in response.topics[0].partitions))

    return await _spread(address, names, one)


async def fetch(address: str, names: Sequence[str], partitions: int) -> Answers:
    """Read all offsets of each group. Raises LoadFailed if some are missing."""

    async def one(connection: Connection, name: str) -> None:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=name, topics=None),))
        (group,) = (await connection.call(request, 8, OffsetFetchResponse)).groups
        check(group.error_code)
        found = sum(len(topic.partitions) for topic in group.topics)
        if found != partitions:
            raise LoadFailed(f"{name} has {found} committed offsets, not {partitions}")

    return await _spread(address, names, one)


def _commit_request(name: str, topic: str, partitions: int, offset: int) -> OffsetCommitRequest:
    positions = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number in range(partitions)
    )
    return OffsetCommitRequest(
        group_id=name, member_id="", topics=(OffsetCommitRequestTopic(name=topic, partitions=positions),)
    )


async def _is_coordinated(connection: Connection, name: str) -> bool:
    found = await connection.call(FindCoordinatorRequest(coordinator_keys=(name,)), 4, FindCoordinatorResponse)
    if found.coordinators[0].error_code in _RETRIABLE:
        return False
    check(found.coordinators[0].error_code)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=name, topics=None),))
    (group,) = (await connection.call(request, 8, OffsetFetchResponse)).groups
    return group.error_code not in _RETRIABLE


# --- members of the classic protocol ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ClassicMember:
    member_id: str = ""
    generation: int = -1


async def join_classic(address: str, group: str, count: int) -> tuple[float, list[ClassicMember]]:
    """Join with that many members; return the seconds until all are in one generation, and the members."""
    members = [ClassicMember() for _ in range(count)]

    async def attend(connection: Connection, member: ClassicMember) -> None:
        while not _in_one_generation(members):
            if member.generation < 0:
                await _join(connection, group, member)
                await _sync(connection, group, member)
            else:
                await asyncio.sleep(_BEAT_S)
                await _beat_while_joining(connection, group, member)

    async with connections(address, count) as opened:
        began_s = time.perf_counter()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*map(attend, opened, members))
        return time.perf_counter() - began_s, members


async def beat_classic(address: str, group: str, members: Sequence[ClassicMember]) -> Answers:
    """Send one heartbeat of each member."""

    async def one(connection: Connection, member: ClassicMember) -> None:
        check(await _heartbeat_error(connection, group, member))

    return await _spread(address, members, one)


def _in_one_generation(members: Sequence[ClassicMember]) -> bool:
    return all(member.generation == members[0].generation > 0 for member in members)


async def _beat_while_joining(connection: Connection, group: str, member: ClassicMember) -> None:
    error = await _heartbeat_error(connection, group, member)
    if error == _REBALANCE_IN_PROGRESS:
        member.generation = -1
    else:
        check(error)


async def _heartbeat_error(connection: Connection, group: str, member: ClassicMember) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=member.generation, member_id=member.member_id)
    return (await connection.call(request, 4, HeartbeatResponse)).error_code


async def _join(connection: Connection, group: str, member: ClassicMember) -> None:
    response = await connection.call(_join_request(group, member.member_id), 5, JoinGroupResponse)
    if response.error_code == _MEMBER_ID_REQUIRED:
        response = await connection.call(_join_request(group, response.member_id), 5, JoinGroupResponse)
    check(response.error_code)
    member.member_id, member.generation = response.member_id, response.generation_id


async def _sync(connection: Connection, group: str, member: ClassicMember) -> None:
    # Every member sends assignments; the coordinator takes those of the leader.
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        assignments=(SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"some of it"),),
    )
    response = await connection.call(request, 3, SyncGroupResponse)
    if response.error_code == _REBALANCE_IN_PROGRESS:
        member.generation = -1
    else:
        check(response.error_code)


def _join_request(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=_SUBSCRIPTION),),
    )


# --- members of the consumer protocol --------------------------------------------------------------------------------


@dataclass(slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()


async def join_consumer(
    address: str, group: str, count: int, topic: str, partitions: int
) -> tuple[float, list[ConsumerMember]]:
    """Join with that many members; return the seconds until all partitions have an owner, and the members."""
    members = [ConsumerMember(str(uuid4())) for _ in range(count)]
    began_s = time.perf_counter()

    async def first(connection: Connection, member: ConsumerMember) -> None:
        await _beat(connection, group, member, (topic,))

    async def later(connection: Connection, member: ConsumerMember) -> None:
        await _beat(connection, group, member, None)

    await _spread(address, members, first)
    while len(_owned(members)) < partitions or len({member.epoch for member in members}) > 1:
        await _spread(address, members, later)
        if time.perf_counter() - began_s > DEADLINE_S:
            raise LoadFailed(f"{partitions} partitions did not have an owner within {DEADLINE_S:.0f} s")
    return time.perf_counter() - began_s, members


async def beat_consumer(address: str, group: str, members: Sequence[ConsumerMember]) -> Answers:
    """Send one heartbeat of each member."""

    async def one(connection: Connection, member: ConsumerMember) -> None:
        await _beat(connection, group, member, None)

    return await _spread(address, members, one)


async def _beat(connection: Connection, group: str, member: ConsumerMember, joins: tuple[str, ...] | None) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member.member_id,
        member_epoch=member.epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=joins,
        topic_partitions=() if joins else member.owned,
    )
    response = await connection.call(request, 1, ConsumerGroupHeartbeatResponse)
    check(response.error_code)
    member.epoch = response.member_epoch
    if response.assignment is not None:
        member.owned = tuple(response.assignment.topic_partitions)


def _owned(members: Iterable[ConsumerMember]) -> set[tuple[UUID, int]]:
    return {(topic.topic_id, number) for m in members for topic in m.owned for number in topic.partitions}


# --- shared ----------------------------------------------------------------------------------------------------------


def check(*errors: int) -> None:
    """Raises LoadFailed."""
    if any(errors):
        raise LoadFailed(f"the broker answered with error {next(filter(None, errors))}")


async def _spread(address: str, items: Sequence[T], one: Callable[[Connection, T], Awaitable[None]]) -> Answers:
    """Do one call for each item, as many at once as there are connections."""
    waiting = iter(items)
    latencies_ms: list[float] = []

    async def work(connection: Connection) -> None:
        for item in waiting:
            sent_s = time.perf_counter()
            await one(connection, item)
            latencies_ms.append((time.perf_counter() - sent_s) * 1_000)

    async with connections(address, min(CONNECTIONS, len(items))) as opened:
        began_s = time.perf_counter()
        await asyncio.gather(*map(work, opened))
        return Answers(seconds=time.perf_counter() - began_s, latencies_ms=tuple(latencies_ms))


async def _until(is_true: Callable[[], Awaitable[bool]]) -> None:
    until_s = time.perf_counter() + DEADLINE_S
    while not await is_true():
        if time.perf_counter() > until_s:
            raise LoadFailed(f"the coordinator did not answer within {DEADLINE_S:.0f} s")
        await asyncio.sleep(_POLL_S)
