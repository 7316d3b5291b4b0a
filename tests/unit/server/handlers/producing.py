"""A leader of two partitions that takes records of transactions, and a coordinator that the test answers for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest, ProduceResponse
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.produce_verification import ProduceVerification, TransactionSupport
from kraft.server.replica.waiting_appends import WaitingAppends, WaitingClient
from tests.support.log.transactional_log import transactional
from tests.support.server.replicas import ORDERS_0, Broker, InlineExecutor, lead_begun, settle

ID, PRODUCER = "payments", 7
VERIFIES, ABORTABLE, ADDS = TransactionSupport
ORDERS_1 = TopicPartition("orders", 1)
LATER = ErrorCode.NOT_ENOUGH_REPLICAS


class Asked(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool


class Coordinator:
    """Accepts everything, unless the test says otherwise."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.held: list[asyncio.Event] = []
        self.holds = False

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> Mapping[TopicPartition, Refusal]:
        self.asked.append(Asked(transactional_id, producer_id, epoch, tuple(partitions), adds))
        if self.holds:
            self.held.append(asyncio.Event())
            await self.held[-1].wait()
        return {each: Refusal(self.codes[each], "no") for each in partitions if each in self.codes}

    async def release(self) -> None:
        self.holds = False
        for event in self.held:
            event.set()
        await settle()


class Producing:
    """Broker 1 leads two partitions of `orders`."""

    def __init__(self, directory: Path, *, is_enabled: bool = True, bytes_max: int = 1 << 20) -> None:
        self.broker = Broker(directory)
        self.coordinator = Coordinator()
        self.appends = WaitingAppends(InlineExecutor(), bytes_max)
        verification = ProduceVerification(self.broker.partitions, self.coordinator.verify, is_enabled=is_enabled)
        self.handler = ProduceHandler(
            self.broker.partitions, self.appends, verification, AwaitedReplicasHandler(self.broker.partitions)
        )
        self.first, self.second = (self.broker.open(each) for each in (ORDERS_0, ORDERS_1))
        for partition in (self.first, self.second):
            lead_begun(partition, epoch=1, isr=(1,))

    def begin(
        self,
        *batches: bytes,
        number: int = 0,
        acks: int = 1,
        support: TransactionSupport = ADDS,
        client: WaitingClient | None = None,
        transactional_id: str = ID,
    ) -> asyncio.Future[ProduceResponse | None]:
        """Send batches to one partition, as over the Kafka listener."""
        partitions = [ProducePartition(topic="orders", partition=number, records=each) for each in batches]
        request = ProduceRequest(
            request_id=7, acks=acks, timeout_ms=30_000, partitions=partitions, transactional_id=transactional_id
        )
        return self.send(request, support, client)

    def send(
        self, request: ProduceRequest, support: TransactionSupport = ADDS, client: WaitingClient | None = None
    ) -> asyncio.Future[ProduceResponse | None]:
        begun = self.handler.begin(request, client, support)
        if isinstance(begun, Awaitable):
            return asyncio.ensure_future(begun)
        ended: asyncio.Future[ProduceResponse | None] = asyncio.get_running_loop().create_future()
        ended.set_result(begun)
        return ended

    async def codes(self, *batches: bytes, support: TransactionSupport = ADDS, number: int = 0) -> list[ErrorCode]:
        return await codes_of(self.begin(*batches, number=number, support=support))


async def codes_of(answer: Awaitable[ProduceResponse | None]) -> list[ErrorCode]:
    response = await answer
    assert response is not None
    return [each.error_code for each in response.partitions]


def sent(sequence: int, value: str, epoch: int = 0, producer_id: int = PRODUCER) -> bytes:
    return transactional(producer_id, sequence, value, epoch=epoch)
