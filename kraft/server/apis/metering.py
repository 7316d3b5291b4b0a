"""Puts the measuring of quotas around the handlers of gRPC calls.

A stream's answer goes out at once and says how long its client has to wait; meanwhile no more of the stream is read. A
client keeps to what it was told, even if its quota is removed meanwhile: so it is told a part of a long wait, and the
stream is not read for the rest. A fetch that comes too early waits here, and is answered without records after a
second. A single call has nothing that could not be read: its answer is held back instead. Nodes are not measured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import thread_time_ns
from typing import Any

from msgspec.structs import replace

from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, PlainRecord, ProduceRecordsRequest
from kraft.model.produce import ProduceRequest, ProduceResponse
from kraft.quotas.client_quotas import TOLD_MS, told_to_producer
from kraft.quotas.precedence import Client
from kraft.rpc.call import AnyCall, Call, Handler
from kraft.rpc.calls import FETCH, PRODUCE
from kraft.rpc.client_gate import CALLER, NOBODY, Caller
from kraft.server.kafka_listener.request_times import ApiTimes
from kraft.server.loop.throttling import Throttling
from kraft.server.loop.timed_steps import TimedSteps

AnyHandler = Callable[..., Awaitable[Any]]


def metered(call: AnyCall, handler: AnyHandler, throttling: Throttling, times: ApiTimes) -> Any:
    """Return a handler that measures and then does the same. Without quotas it does nothing else.

    The waits count in `times`.
    """
    calls = MeteredCalls(throttling, times)
    measuring: AnyHandler
    if call is PRODUCE:
        measuring = partial(calls.produce, handler)
    elif call is FETCH:
        measuring = partial(calls.fetch, handler)
    elif isinstance(call, Call):
        measuring = partial(calls.answer_single, handler)
    else:
        return handler
    quotas = throttling.quotas

    def handle(*arguments: Any) -> Awaitable[Any]:
        return measuring(*arguments) if quotas.has_any else handler(*arguments)

    return handle


class MeteredCalls:
    def __init__(self, throttling: Throttling, times: ApiTimes) -> None:
        self._throttling = throttling
        self._times = times
        self._quotas = throttling.quotas

    def produce(
        self, handler: Handler[ProduceRequest, ProduceResponse | None], request: ProduceRequest
    ) -> Awaitable[ProduceResponse | None]:
        """Append before it returns, as the handler does."""
        caller = CALLER.get()
        if (client := _client(caller)) is None:
            return handler(request)
        wait_ms = self._quotas.produced(
            client, sum(len(each.records) for each in request.partitions), self._throttling.now_ms()
        )
        began_ns = thread_time_ns()
        answer = handler(request)
        wait_ms = max(wait_ms, self._worked(client, thread_time_ns() - began_ns))
        if not wait_ms:
            return answer
        self._pause(caller, wait_ms)
        return _told(answer, told_to_producer(wait_ms, request.timeout_ms))

    async def fetch(self, handler: Handler[FetchRequest, FetchResponse], request: FetchRequest) -> FetchResponse:
        caller = CALLER.get()
        if (client := _client(caller)) is None:
            return await handler(request)
        if wait_ms := self._quotas.fetch_wait_ms(client, self._throttling.now_ms()):
            await self._wait(min(wait_ms, TOLD_MS))
            if self._quotas.fetch_wait_ms(client, self._throttling.now_ms()):
                return FetchResponse(request_id=request.request_id, partitions=[])
        bytes_max = self._quotas.fetch_bytes_max(client)
        if bytes_max is not None:
            bytes_max = min(request.max_bytes, bytes_max)
            request = replace(request, max_bytes=bytes_max, min_bytes=min(request.min_bytes, bytes_max))
        timed = TimedSteps(handler(request))
        response = await timed
        size_bytes = sum(len(each.records) for each in response.partitions)
        wait_ms = max(
            self._quotas.fetched(client, size_bytes, self._throttling.now_ms()), self._worked(client, timed.spent_ns)
        )
        if not wait_ms:
            return response
        wait_ms = min(wait_ms, TOLD_MS)
        self._pause(caller, wait_ms)
        return replace(response, throttle_time_ms=wait_ms)

    async def answer_single(self, handler: AnyHandler, request: Any, *context: Any) -> Any:
        """Answer a call of one request."""
        if (client := _client(CALLER.get())) is None:
            return await handler(request, *context)
        wait_ms = 0
        if isinstance(request, ProduceRecordsRequest):
            wait_ms = self._quotas.produced(client, _size(request.records), self._throttling.now_ms())
        elif isinstance(request, FetchRecordsRequest):
            await self._until_may_fetch(client)
        timed = TimedSteps(handler(request, *context))
        response = await timed
        if isinstance(response, FetchRecordsResponse):
            wait_ms = self._quotas.fetched(client, _size(response.records), self._throttling.now_ms())
        wait_ms = max(wait_ms, self._worked(client, timed.spent_ns))
        if wait_ms:
            await self._wait(wait_ms)
        return response

    async def _until_may_fetch(self, client: Client) -> None:
        while wait_ms := self._quotas.fetch_wait_ms(client, self._throttling.now_ms()):
            await self._wait(wait_ms)

    def _worked(self, client: Client, spent_ns: int) -> int:
        if not self._quotas.measures_time:
            return 0
        return self._quotas.worked(client, spent_ns, self._throttling.now_ms())

    def _pause(self, caller: Caller, wait_ms: int) -> None:
        """Read no more of the caller's stream for so long."""
        until_ms = self._throttling.now_ms() + wait_ms

        async def wait() -> None:
            left_ms = until_ms - self._throttling.now_ms()
            if left_ms > 0:
                await self._wait(left_ms)

        caller.pace.pause(wait)

    async def _wait(self, wait_ms: int) -> None:
        self._times.throttle_s += wait_ms / 1_000
        await self._throttling.wait(wait_ms)


def _client(caller: Caller) -> Client | None:
    """Return whose quotas hold; None for a node, and for a call that nobody made over the network."""
    if caller is NOBODY or caller.is_node:
        return None
    return Client(caller.principal.name, caller.client_id)


async def _told(answer: Awaitable[ProduceResponse | None], wait_ms: int) -> ProduceResponse | None:
    response = await answer
    return None if response is None else replace(response, throttle_time_ms=wait_ms)


def _size(records: Sequence[PlainRecord]) -> int:
    return sum(
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(header.key) + len(header.value or b"") for header in record.headers)
        for record in records
    )
