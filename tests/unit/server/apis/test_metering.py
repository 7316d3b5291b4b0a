"""Calls over gRPC: a stream is told how long it waits and not read meanwhile, a single call's answer is held back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, PlainRecord, ProduceRecordsRequest
from kraft.model.principal import Principal
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.rpc.calls import FETCH, FETCH_RECORDS, METADATA, PRODUCE, PRODUCE_RECORDS
from kraft.rpc.client_gate import CALLER, NODE, Caller
from kraft.server.apis.metering import metered
from kraft.server.kafka_listener.request_times import ApiTimes
from kraft.server.loop.throttling import Throttling
from tests.support.quotas import subject


def now_s() -> float:
    return asyncio.get_running_loop().time()


def limited(**quotas: float) -> Throttling:
    throttling = Throttling(lambda: round(now_s() * 1_000))
    throttling.reconfigure({subject({"client-id": "loader"}): quotas})
    return throttling


def produce(size: int, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        request_id=1,
        acks=acks,
        timeout_ms=900,
        partitions=[ProducePartition(topic="t", partition=0, records=bytes(size))],
    )


def appending(appended: list[int]) -> Any:
    def handle(request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        appended.append(len(request.partitions[0].records))
        answer: asyncio.Future[ProduceResponse | None] = asyncio.get_running_loop().create_future()
        answer.set_result(ProduceResponse(request_id=request.request_id, partitions=[]) if request.acks else None)
        return answer

    return handle


def is_paused(caller: Caller) -> bool:
    return caller.pace.is_paused


def asking(caller: Caller) -> None:
    """Make the calls of this test from that caller: fixtures have a context of their own."""
    CALLER.set(caller)


async def test_a_produce_is_appended_at_once_and_told_to_wait() -> None:
    caller, appended = Caller(client_id="loader"), list[int]()
    asking(caller)
    handle = metered(PRODUCE, appending(appended), limited(producer_byte_rate=100.0), ApiTimes())
    assert (await handle(produce(1_000))).throttle_time_ms == 0
    assert not is_paused(caller)
    answer = handle(produce(200))
    assert appended == [1_000, 200]
    # A part of its wait, two seconds: it notices if that is over before.
    assert (await answer).throttle_time_ms == 1_700
    assert is_paused(caller)
    assert await handle(produce(100, acks=0)) is None
    began_s = now_s()
    await caller.pace.over()
    assert now_s() - began_s == pytest.approx(3)
    assert not is_paused(caller)


async def test_a_fetch_over_the_quota_waits_before_it_reads() -> None:
    caller, limits = Caller(client_id="loader"), list[tuple[int, int]]()
    asking(caller)

    async def read(request: FetchRequest) -> FetchResponse:
        limits.append((request.max_bytes, request.min_bytes))
        found = FetchPartitionResult(topic="t", partition=0, error_code=ErrorCode.NONE, records=bytes(1_150))
        return FetchResponse(request_id=request.request_id, partitions=[found])

    handle = metered(FETCH, read, limited(consumer_byte_rate=100.0), ApiTimes())
    request = FetchRequest(request_id=1, max_wait_ms=0, min_bytes=500, max_bytes=1_000, partitions=[])
    assert (await handle(request)).throttle_time_ms == 1_000
    assert is_paused(caller)
    # On another stream, which may be read. Without an answer its client would take it for lost.
    began_s = now_s()
    assert await handle(request) == FetchResponse(request_id=1, partitions=[])
    assert now_s() - began_s == pytest.approx(1)
    assert len((await handle(request)).partitions) == 1
    assert now_s() - began_s == pytest.approx(1.5)
    assert limits == [(100, 100), (100, 100)]


async def test_the_answer_of_a_single_call_is_held_back() -> None:
    asking(Caller(client_id="loader"))
    throttling = limited(producer_byte_rate=100.0, consumer_byte_rate=100.0)
    records = [PlainRecord(value=bytes(1_500))]

    async def append(_: ProduceRecordsRequest) -> ProducePartitionResult:
        return ProducePartitionResult(topic="t", partition=0, error_code=ErrorCode.NONE)

    async def read(_: FetchRecordsRequest) -> FetchRecordsResponse:
        return FetchRecordsResponse(error_code=ErrorCode.NONE, records=records)

    began_s = now_s()
    await metered(PRODUCE_RECORDS, append, throttling, ApiTimes())(
        ProduceRecordsRequest(topic="t", partition=0, acks=1, timeout_ms=1, records=records)
    )
    assert now_s() - began_s == pytest.approx(5)
    began_s = now_s()
    await metered(FETCH_RECORDS, read, throttling, ApiTimes())(
        FetchRecordsRequest(topic="t", partition=0, fetch_offset=0, max_wait_ms=0, max_bytes=1)
    )
    assert now_s() - began_s == pytest.approx(5)


@pytest.mark.real_time
async def test_processor_time_of_any_call_counts() -> None:
    asking(Caller(client_id="loader"))

    async def work(_: object, context: str) -> str:
        sum(range(100_000))
        return context

    began_s = now_s()
    assert await metered(METADATA, work, limited(request_percentage=0.0001), ApiTimes())(None, "context") == "context"
    assert 0.9 < now_s() - began_s < 10


@pytest.mark.parametrize("caller", [Caller(principal=Principal("1", NODE)), Caller(client_id="another")])
async def test_nodes_and_clients_without_a_quota_are_not_slowed_down(caller: Caller) -> None:
    asking(caller)
    handle = metered(PRODUCE, appending([]), limited(producer_byte_rate=1.0), ApiTimes())
    assert (await handle(produce(1_000_000))).throttle_time_ms == 0
    assert not is_paused(caller)
