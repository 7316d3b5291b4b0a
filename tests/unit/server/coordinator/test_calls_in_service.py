"""A call ends with its response, its error, or soon after its broker was fenced."""

from __future__ import annotations

import asyncio

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerFenced
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.peers import Unreachable
from kraft.server.coordinator.calls_in_service import LOOK_S, while_in_service
from tests.support.cluster_images import cluster

PAUSED = BrokerId(2)


class Calls:
    """Broker 2 answers after a while."""

    def __init__(self) -> None:
        self.image: MetadataImage = cluster(1, 2)
        self.was_cancelled = False

    def fence(self) -> None:
        epoch = self.image.brokers[PAUSED].broker_epoch
        self.image = self.image.replay([BrokerFenced(broker_id=PAUSED, broker_epoch=epoch)])

    async def answer_after(self, seconds: float, error: Exception | None = None) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if error is not None:
            raise error
        return "answered"


async def test_a_broker_in_service_is_waited_for() -> None:
    calls = Calls()
    assert await while_in_service(PAUSED, calls.answer_after(4), lambda: calls.image) == "answered"


async def test_an_error_of_the_call_is_raised() -> None:
    calls = Calls()
    refusal = Refusal(ErrorCode.NOT_COORDINATOR, "another broker is")
    with pytest.raises(Refusal, match="another broker is"):
        await while_in_service(PAUSED, calls.answer_after(1, refusal), lambda: calls.image)


async def test_a_broker_that_is_fenced_is_not_waited_for_any_longer() -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    loop.call_later(3, calls.fence)
    began_s = loop.time()
    with pytest.raises(Unreachable, match="broker 2 cannot be reached: it was fenced before it answered"):
        await while_in_service(PAUSED, calls.answer_after(3_600), lambda: calls.image)
    assert loop.time() - began_s == pytest.approx(3, abs=2 * LOOK_S)
    await asyncio.sleep(0)
    assert calls.was_cancelled


async def test_a_caller_that_is_cancelled_ends_the_call() -> None:
    calls = Calls()
    waiting = asyncio.ensure_future(while_in_service(PAUSED, calls.answer_after(3_600), lambda: calls.image))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.wait((waiting,))
    await asyncio.sleep(0)
    assert calls.was_cancelled
