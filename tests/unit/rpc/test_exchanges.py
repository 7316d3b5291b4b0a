"""Exchanges: responses in any order, each made when it can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import grpc
import pytest
from msgspec.structs import replace

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc.call import Exchange, Packed
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.peers import Unreachable
from kraft.rpc.replica_fetch_frames import unpack_response
from kraft.rpc.requests_in_progress import RequestsInProgress
from kraft.rpc.services import EXCHANGE_REQUESTS_WAITING_MAX, Service, as_ready
from tests.support.rpc_servers import served
from tests.unit.rpc.gated_streams import CALL_S, NO_PARTITIONS, Context, Gates, gathered, numbers, settle

pytestmark = pytest.mark.real_time


def exchanged(requests: Any, gates: Gates, context: Context, counted: RequestsInProgress) -> AsyncIterator[int]:
    return as_ready(requests, gates.answer, cast(Any, context), counted)


async def test_each_answer_leaves_when_it_is_ready() -> None:
    gates, answers, counted = Gates(), list[int](), RequestsInProgress()
    serving = asyncio.create_task(gathered(exchanged(numbers(1, 2, 3), gates, Context(), counted), answers))
    for number in (3, 1):
        gates.open(number)
        await settle()
    assert answers == [3, 1]
    gates.open(2)
    await serving
    assert answers == [3, 1, 2]
    await counted.none_left()


async def test_a_refused_request_ends_the_exchange_and_cancels_the_others() -> None:
    gates, context, counted = Gates(), Context(), RequestsInProgress()

    async def second_is_refused(number: int) -> int:
        if number == 2:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no")
        return await gates.answer(number)

    with pytest.raises(ConnectionAbortedError):
        await gathered(as_ready(numbers(1, 2, 3), second_is_refused, cast(Any, context), counted))
    await settle()
    assert context.aborted == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_LEADER_OR_FOLLOWER: no")
    assert sorted(gates.cancelled) == [1, 3]
    await counted.none_left()


async def test_a_peer_that_does_not_wait_for_answers_is_read_only_up_to_a_bound() -> None:
    gates, counted = Gates(), RequestsInProgress()
    many = range(EXCHANGE_REQUESTS_WAITING_MAX + 10)
    serving = asyncio.create_task(gathered(exchanged(numbers(*many), gates, Context(), counted)))
    await settle()
    assert len(gates.begun) == EXCHANGE_REQUESTS_WAITING_MAX
    gates.open(7)
    await settle()
    assert len(gates.begun) == EXCHANGE_REQUESTS_WAITING_MAX + 1
    serving.cancel()
    await asyncio.wait([serving])
    await settle()
    assert len(gates.cancelled) == EXCHANGE_REQUESTS_WAITING_MAX
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await counted.none_left()


async def test_a_response_is_made_only_when_the_one_before_it_was_taken() -> None:
    made: list[int] = []

    async def begin(number: int) -> Callable[[], int]:
        def make() -> int:
            made.append(number)
            return number

        return make

    makers = as_ready(numbers(1, 2, 3), begin, cast(Any, Context()), RequestsInProgress())
    for expected in ([1], [1, 2], [1, 2, 3]):
        make = await anext(makers)
        await settle()
        make()
        assert made == expected
    assert [maker async for maker in makers] == []


async def test_an_exchange_over_a_real_connection_answers_out_of_order() -> None:
    gates = Gates()

    async def answer(request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        number = await gates.answer(request.number)
        return lambda: ReplicaFetchResponse(number=number, partitions=[])

    async with served(Service(REPLICA_FETCH.served_by(answer))) as (connections, address), asyncio.timeout(CALL_S):
        stream = connections.peer(address).open(REPLICA_FETCH)
        for number in (1, 2):
            await stream.send(replace(NO_PARTITIONS, number=number))
        gates.open(2)
        assert (await stream.receive()).number == 2
        gates.open(1)
        assert (await stream.receive()).number == 1
        await stream.close()


async def test_a_response_that_is_not_a_frame_breaks_the_exchange() -> None:
    badly = Packed[ReplicaFetchResponse](lambda _: [b"\x0a\x00"], unpack_response)

    async def answer(request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        return lambda: ReplicaFetchResponse(number=request.number, partitions=[])

    served_badly = Exchange("kraft.v1.Replication", "ReplicaFetch", REPLICA_FETCH.request, badly).served_by(answer)
    async with served(Service(served_badly)) as (connections, address), asyncio.timeout(CALL_S):
        stream = connections.peer(address).open(REPLICA_FETCH)
        await stream.send(NO_PARTITIONS)
        with pytest.raises(Unreachable, match="its response is not valid: a frame is cut off after 2 bytes"):
            await stream.receive()
        await stream.close()
