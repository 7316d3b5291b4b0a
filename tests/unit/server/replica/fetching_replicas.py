"""A follower that fetches from a leader, which answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, TopicPartition
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.rpc.frame_exchange import NotConnected
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.config.components import ReplicationConfig
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler
from kraft.server.replica.fetcher import LeaderLink, ReplicaFetcher
from kraft.server.replica.partition import Partition
from tests.support.server.replicas import Broker, append_to, batch, follow, state

CONFIG = ReplicationConfig(
    lag_time_max_ms=30_000,
    fetch_bytes_max=1 << 20,
    fetch_response_bytes_max=10 << 20,
    fetch_bytes_min=1,
    fetch_wait_max_ms=500,
    high_watermark_checkpoint_interval_ms=5_000,
)


Answer = Callable[[ReplicaFetchRequest], Awaitable[ReplicaFetchResponse]]


class Stream:
    """Answers several requests at the same time, each when its answer is there."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = asyncio.Queue[ReplicaFetchResponse | Exception]()

    async def send(self, request: ReplicaFetchRequest) -> None:
        if self._leader.takes_no_requests:
            await asyncio.sleep(3_600)
        self._leader.requests.append(request)
        self._tasks.add(asyncio.create_task(self._answer(request)))

    async def _answer(self, request: ReplicaFetchRequest) -> None:
        try:
            self._answers.put_nowait(replace(await self._leader.answer(request), number=request.number))
            self._leader.answered += 1
        except Exception as error:  # noqa: BLE001  It is raised where the answer is read.
            self._answers.put_nowait(error)

    async def receive(self) -> ReplicaFetchResponse:
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self._leader.closed_streams += 1
        for task in self._tasks:
            task.cancel()


def has_committed(partition: Partition, offset: int) -> Callable[[], bool]:
    """Return a condition: the partition's high watermark is this offset."""
    return lambda: partition.high_watermark == offset


def honest_answers(broker: Broker) -> Answer:
    """Return what answers requests as a broker does."""
    handler = ReplicaFetchHandler(broker.partitions, broker.throttles.leader)

    async def answer(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        return (await handler.handle(request))()

    return answer


class Leader:
    """Broker 2, which answers with `answer`, or what a test puts in its place."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.requests: list[ReplicaFetchRequest] = []
        self.answered = 0
        self.streams = 0
        self.closed_streams = 0
        self.connections = 0
        self.is_known = True
        self.may_connect = True
        self.accepts_no_connections = False
        self.takes_no_requests = False
        self.answer = honest_answers(broker)

    def link(self) -> LeaderLink | None:
        return self if self.is_known else None

    async def connect(self) -> Stream:
        if self.accepts_no_connections:
            raise NotConnected("connection refused")
        self.connections += 1
        return self.over_grpc()

    def over_grpc(self) -> Stream:
        self.streams += 1
        return Stream(self)

    def offsets_asked(self, number: int = 0) -> list[int]:
        return [
            wanted.fetch_offset
            for request in self.requests
            for wanted in request.partitions
            if wanted.partition == number
        ]


def result(wanted: ReplicaFetchPartition, **fields: Any) -> ReplicaFetchResult:
    values: dict[str, Any] = {
        "topic_id": wanted.topic_id,
        "partition": wanted.partition,
        "error_code": ErrorCode.NONE,
        "leader_epoch": wanted.current_leader_epoch,
        "high_watermark": wanted.high_watermark,
        "log_start_offset": 0,
    }
    return ReplicaFetchResult(**{**values, **fields})


class Losses:
    """Leaders that count as lost; `reported` has each change."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self._lost: set[BrokerId] = set()

    def lost(self, broker_id: BrokerId) -> None:
        if broker_id not in self._lost:
            self._lost.add(broker_id)
            self.reported.append(f"{broker_id} lost")

    def is_lost(self, broker_id: BrokerId) -> bool:
        return broker_id in self._lost

    def found(self, broker_id: BrokerId) -> None:
        self._lost.remove(broker_id)
        self.reported.append(f"{broker_id} found")


def fetcher_of(
    leader: Leader, follower: Broker, config: ReplicationConfig = CONFIG, losses: Losses | None = None
) -> ReplicaFetcher:
    return ReplicaFetcher(
        registration=OwnRegistration(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7)),
        leader_id=BrokerId(2),
        link=leader.link,
        partitions=follower.partitions,
        config=config,
        throttle=follower.throttles.follower,
        lost_leaders=losses or Losses(),
    )


@asynccontextmanager
async def fetching(
    leader: Leader, follower: Broker, config: ReplicationConfig = CONFIG, losses: Losses | None = None
) -> AsyncIterator[ReplicaFetcher]:
    """The follower's disk syncs every millisecond."""

    async def sync() -> None:
        while True:
            await asyncio.sleep(0.001)
            follower.sync()

    fetcher = fetcher_of(leader, follower, config, losses)
    tasks = [asyncio.create_task(fetcher.run()), asyncio.create_task(sync())]
    try:
        yield fetcher
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0.01)


def led(leader: Leader, *values: str, epoch: int = 0, number: int = 0) -> Partition:
    partition = leader.broker.open(TopicPartition("orders", number))
    partition.lead(state(2, epoch=epoch), BrokerEpoch(1))
    for value in values:
        append_to(partition, batch(value), 1)
    leader.broker.sync()
    return partition


def followed(follower: Broker, *, epoch: int = 0, number: int = 0, **configs: Any) -> Partition:
    partition = follower.open(TopicPartition("orders", number), **configs)
    follow(partition, epoch=epoch)
    return partition
