from __future__ import annotations

import asyncio
import logging

import pytest

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.cluster.controller_watch import watched
from kraft.client.model.errors import NoActiveController
from kraft.model.describe_quorum import QuorumDescription
from kraft.model.errors import ErrorCode, Refusal
from tests.support.virtual_time import run_virtually as run

LOST = NoActiveController(QuorumDescription(error_message="no controller is active: node 1 reaches 1 of 3 voters"))
TIMED_OUT = NoBrokerReachable({"a:1": "no answer within the time allowed"}, 10_000)


async def lost() -> None:
    raise LOST


async def healthy() -> None:
    await asyncio.sleep(0.01)


async def change(takes_s: float, outcome: object) -> object:
    await asyncio.sleep(takes_s)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def test_a_change_that_is_answered_soon_is_not_watched() -> None:
    assert run(watched(change(0.1, "done"), lost, 10_000)) == "done"


def test_a_change_that_waits_reports_once_that_no_controller_is_active(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert run(watched(change(9, "done"), lost, 10_000)) == "done"
    (said,) = caplog.messages
    assert said == f"{LOST.message}; trying again for up to 10 s"


@pytest.mark.parametrize("error", [TIMED_OUT, Refusal(ErrorCode.REQUEST_TIMED_OUT, "no controller answered")])
def test_a_change_that_was_not_answered_ends_with_the_state_of_the_quorum(error: Exception) -> None:
    with pytest.raises(NoActiveController, match="reaches 1 of 3 voters"):
        run(watched(change(10, error), lost, 10_000))


def test_the_refusal_of_a_controller_is_passed_on() -> None:
    refused = Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "topic 'a' already exists")
    with pytest.raises(Refusal, match="already exists"):
        run(watched(change(10, refused), lost, 10_000))


def test_a_slow_change_of_a_healthy_quorum_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert run(watched(change(9, "done"), healthy, 10_000)) == "done"
    assert not caplog.messages
    with pytest.raises(NoBrokerReachable):
        run(watched(change(10, TIMED_OUT), healthy, 10_000))


def test_a_controller_that_came_back_later_leaves_the_change_its_own_error() -> None:
    looks = [lost, lost, healthy]

    async def recovers() -> None:
        await (looks.pop(0) if len(looks) > 1 else looks[0])()

    with pytest.raises(NoBrokerReachable):
        run(watched(change(10, TIMED_OUT), recovers, 10_000))


def test_cancelling_the_caller_ends_the_change_and_the_look() -> None:
    ended = list[str]()

    async def endless(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def scenario() -> list[str]:
        caller = asyncio.create_task(watched(endless("change"), lambda: endless("look"), 10_000))
        await asyncio.sleep(1)
        assert ended == []
        caller.cancel()
        await asyncio.wait([caller], timeout=1)
        assert caller.cancelled()
        # The end of the loop would end them, too.
        return list(ended)

    assert sorted(run(scenario())) == ["change", "look"]


def test_an_answer_ends_a_look_that_is_under_way() -> None:
    ended = list[str]()

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("look")

    async def scenario() -> list[str]:
        assert await watched(change(2, "done"), look, 10_000) == "done"
        return list(ended)

    assert run(scenario()) == ["look"]
