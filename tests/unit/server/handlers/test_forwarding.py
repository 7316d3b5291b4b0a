from __future__ import annotations

import asyncio

import pytest

from kraft.model.brokers import BrokerActionResult, UnfenceBrokerRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.calls import UNFENCE_BROKER
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S, TIMEOUT_MAX_S, NoAnswer
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader


@pytest.mark.parametrize(("timeout_ms", "waits_s"), [(-1, 0), (0, 0), (3_000, 3), (10**9, TIMEOUT_MAX_S)])
async def test_a_controller_is_waited_for_as_long_as_the_request_says_and_not_for_ever(
    timeout_ms: int, waits_s: float
) -> None:
    controllers = FakeControllers()
    controllers.takes_s = 3_600
    began = asyncio.get_running_loop().time()
    request = UnfenceBrokerRequest(broker_id=1, timeout_ms=timeout_ms)
    with pytest.raises(NoAnswer, match="REQUEST_TIMED_OUT: no controller is active"):
        await controllers.forwarder(Loader()).forward(UNFENCE_BROKER, request)
    assert asyncio.get_running_loop().time() - began == pytest.approx(waits_s, abs=0.1)


async def test_an_answer_and_a_refusal_are_passed_on_and_the_want_of_either_is_a_refusal_of_its_own() -> None:
    request = UnfenceBrokerRequest(broker_id=1, timeout_ms=1_000)
    done = BrokerActionResult(changed=True, leaderless=[])
    assert await FakeControllers(unfence_broker=done).forwarder(Loader()).forward(UNFENCE_BROKER, request) == done
    refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT, "the controller's own")
    for given, expected in ((refusal, Refusal), (NoController("nobody is active"), NoAnswer)):
        with pytest.raises(Refusal) as refused:
            await FakeControllers(unfence_broker=given).forwarder(Loader()).forward(UNFENCE_BROKER, request)
        assert type(refused.value) is expected


async def test_what_does_not_become_visible_here_is_not_waited_for_long() -> None:
    began = asyncio.get_running_loop().time()
    await FakeControllers().forwarder(Loader()).until(lambda _: False)
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)
