from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from kraft.metadata.metadata_requests import metadata_of
from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.liveness import LivenessRequest, LivenessResponse
from kraft.rpc.calls import FETCH, METADATA
from kraft.rpc.cluster_calls import LIVENESS_STREAM
from kraft.rpc.requests_in_progress import RequestsInProgress
from kraft.rpc.services import Service
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.rpc_servers import served

pytestmark = pytest.mark.real_time

DEADLINE_S = 60.0


class Handler:
    """Begins requests, and responds when the test says."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_respond = asyncio.Event()

    async def metadata(self, _: MetadataRequest) -> MetadataResponse:
        self.has_begun.set()
        await self.may_respond.wait()
        return MetadataResponse(cluster_id="c", controller_id=1, brokers=(), topics=())

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.has_begun.set()
        await self.may_respond.wait()
        return FetchResponse(request_id=request.request_id, partitions=[])

    async def attend(self, _: LivenessRequest) -> AsyncGenerator[LivenessResponse, None]:
        yield LivenessResponse()
        await asyncio.Event().wait()

    def service(self) -> Service:
        return Service(
            METADATA.served_by(self.metadata), FETCH.served_by(self.fetch), LIVENESS_STREAM.served_by(self.attend)
        )


def fetch(request_id: int) -> FetchRequest:
    return FetchRequest(request_id=request_id, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[])


async def are_left(requests: RequestsInProgress) -> bool:
    """Return whether requests are in progress, without waiting for them."""
    waiting = asyncio.ensure_future(requests.none_left())
    await asyncio.sleep(0)
    return not waiting.done() and waiting.cancel()


async def test_a_call_is_in_progress_until_its_response_and_a_stream_that_stays_open_is_not() -> None:
    handler = Handler()
    service = handler.service()
    async with served(service) as (connections, address), asyncio.timeout(DEADLINE_S):
        peer = connections.peer(address)
        stays_open = peer.follow(LIVENESS_STREAM, LivenessRequest(broker_id=BrokerId(4), broker_epoch=BrokerEpoch(7)))
        await anext(stays_open)
        assert not await are_left(service.in_progress)
        calling = asyncio.ensure_future(peer.call(METADATA, metadata_of(()), DEADLINE_S))
        await handler.has_begun.wait()
        assert await are_left(service.in_progress)
        handler.may_respond.set()
        await service.in_progress.none_left()
        await calling
        await stays_open.aclose()


async def test_the_requests_of_a_stream_are_in_progress_until_each_has_its_response() -> None:
    handler = Handler()
    service = handler.service()
    async with served(service) as (connections, address), asyncio.timeout(DEADLINE_S):
        stream = connections.peer(address).open(FETCH)
        for request_id in (1, 2):
            await stream.send(fetch(request_id))
        await handler.has_begun.wait()
        assert await are_left(service.in_progress)
        handler.may_respond.set()
        assert [(await stream.receive()).request_id for _ in range(2)] == [1, 2]
        await service.in_progress.none_left()
        await stream.close()


async def test_the_requests_of_a_stream_that_the_client_abandons_are_not_in_progress() -> None:
    handler = Handler()
    service = handler.service()
    async with served(service) as (connections, address), asyncio.timeout(DEADLINE_S):
        stream = connections.peer(address).open(FETCH)
        await stream.send(fetch(1))
        await handler.has_begun.wait()
        await stream.close()
        await service.in_progress.none_left()
