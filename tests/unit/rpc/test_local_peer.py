from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs

from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.rpc.calls import METADATA
from kraft.rpc.cluster_calls import FOLLOW_METADATA
from kraft.rpc.local_peer import LocalPeer
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.virtual_time import run_virtually

ANSWER = MetadataResponse(cluster_id="c", controller_id=1, brokers=(), topics=())
FOLLOW = FollowMetadataRequest(cluster_id="c", broker_id=1, after_index=0)


async def metadata(request: MetadataRequest) -> MetadataResponse:
    if request == metadata_of(["late"]):
        await asyncio.sleep(600)
    if request == metadata_of(["gives up"]):
        raise TimeoutError("the handler's own")
    if request.topics:
        raise Refusal(ErrorCode.NOT_CONTROLLER, "this is not the active controller")
    return ANSWER


def ask(*topics: str) -> MetadataResponse:
    peer = LocalPeer("localhost:9093", [METADATA.served_by(metadata)])
    answer: MetadataResponse = run_virtually(peer.call(METADATA, metadata_of(list(topics)), 5))
    return answer


def test_the_handler_is_called_and_its_refusals_are_the_callers() -> None:
    assert ask() == ANSWER
    with pytest.raises(Refusal, match="NOT_CONTROLLER: this is not the active controller"):
        ask("refused")


def test_who_does_not_answer_in_time_is_unreachable_as_over_a_connection() -> None:
    with pytest.raises(Unreachable, match="localhost:9093 cannot be reached: no answer within the time allowed"):
        ask("late")


def test_a_bug_in_a_handler_ends_its_call_and_is_logged() -> None:
    with capture_logs() as logged, pytest.raises(Unreachable, match="UNKNOWN: TimeoutError: the handler's own"):
        ask("gives up")
    assert [(each["event"], each["call"]) for each in logged] == [("internal error", METADATA.method)]


def test_a_bug_in_a_stream_ends_it_behind_what_came_before() -> None:
    async def entries(_: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        yield MetadataBatch(index=1, term=1, records=b"", committed_index=1)
        raise ValueError("a bug")

    async def scenario() -> None:
        batches = LocalPeer("localhost:9093", [FOLLOW_METADATA.served_by(entries)]).follow(FOLLOW_METADATA, FOLLOW)
        assert (await anext(batches)).index == 1
        with pytest.raises(Unreachable, match="UNKNOWN: ValueError: a bug"):
            await anext(batches)

    with capture_logs() as logged:
        run_virtually(scenario())
    assert [each["event"] for each in logged] == ["internal error"]


def test_a_stream_gives_others_their_turn_and_ends_with_its_follower() -> None:
    ended = False

    async def entries(request: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        nonlocal ended
        try:
            for index in range(request.after_index + 1, 1_000):
                yield MetadataBatch(index=index, term=1, records=b"", committed_index=1_000)
        finally:
            ended = True

    async def scenario() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        peer = LocalPeer("localhost:9093", [FOLLOW_METADATA.served_by(entries)])
        async with aclosing(peer.follow(FOLLOW_METADATA, FOLLOW)) as batches:
            async for batch in batches:
                if batch.index == 50:
                    break
        assert ended
        assert turns >= 50
        other.cancel()

    asyncio.run(scenario())
