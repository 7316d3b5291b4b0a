"""The streams of a broker in memory, which hang, break, and lose requests or answers on command."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.produce import ProduceRequest, ProduceResponse
from kraft.rpc.peers import Unreachable

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeBroker


class FakeStream:
    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.broken = asyncio.Event()
        self.refusal: Refusal | None = None

    def break_off(self) -> None:
        self.broken.set()

    def refuse(self, refusal: Refusal) -> None:
        """End the stream with a Refusal, which every later call raises."""
        self.refusal = refusal
        self.break_off()

    def check(self) -> None:
        if self.refusal is not None:
            raise Refusal(self.refusal.error_code, self.refusal.message)
        if self.broker.rejection is not None:
            raise self.broker.rejection
        if self.broken.is_set() or not self.broker.is_up:
            raise Unreachable(self.broker.address, "the stream broke")

    async def close(self) -> None:
        self.break_off()

    async def _until_broken(self, *others: asyncio.Future[Any]) -> None:
        broken = asyncio.ensure_future(self.broken.wait())
        try:
            waited: list[asyncio.Future[Any]] = [broken, *others]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            broken.cancel()
            for other in others:
                other.cancel()


class FakeProduceStream(FakeStream):
    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.answers: asyncio.Queue[ProduceResponse] = asyncio.Queue()
        self.unread: list[ProduceRequest] = []

    async def send(self, request: ProduceRequest) -> None:
        self.check()
        await asyncio.sleep(0)
        if self.broker.hangs or self.broker.withholds_responses:
            return
        if self.broker.loses_requests:
            self.broker.loses_requests -= 1
            self.break_off()
            return
        if self.broker.reads_late:
            self.unread.append(request)
            return
        response = self.broker.produce(request)
        if self.broker.loses_answers:
            self.broker.loses_answers -= 1
            self.break_off()
        elif request.acks:
            self.answers.put_nowait(response)
        elif refused := [result.error_code for result in response.partitions if result.error_code]:
            # A broker has no other sign for a request that gets no response.
            self.refuse(Refusal(refused[0], "the append failed"))

    async def finish(self) -> None:
        self.check()
        if self.broker.never_finishes:
            return
        for request in self.unread:
            self.broker.produce(request)
        self.break_off()

    async def receive(self) -> ProduceResponse:
        self.check()
        answer = asyncio.ensure_future(self.answers.get())
        broken = asyncio.ensure_future(self.broken.wait())
        try:
            waited: list[asyncio.Future[Any]] = [answer, broken]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            self.check()
            raise AssertionError("a broken stream raises")
        finally:
            answer.cancel()
            broken.cancel()


class FakeFetchStream(FakeStream):
    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.asked: deque[FetchRequest] = deque()

    async def send(self, request: FetchRequest) -> None:
        self.check()
        self.broker.fetched.append(request)
        self.asked.append(request)

    async def receive(self) -> FetchResponse:
        request = self.asked.popleft()
        until_s = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            self.check()
            if self.broker.hangs:
                await self._until_broken()
                continue
            response = self.broker.fetch(request)
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or any(_is_worth_an_answer(each) for each in response.partitions):
                return response
            news = asyncio.ensure_future(self.broker.cluster.changed.wait())
            timer = asyncio.ensure_future(asyncio.sleep(left_s))
            await self._until_broken(news, timer)


def _is_worth_an_answer(result: FetchPartitionResult) -> bool:
    return bool(result.records) or result.error_code is not ErrorCode.NONE
