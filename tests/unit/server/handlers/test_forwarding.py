from __future__ import annotations

import asyncio

import pytest

from kraft.metadata.image import MetadataImage
from kraft.model.brokers import BrokerActionResult, UnfenceBrokerRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.calls import ALTER_CLIENT_QUOTAS, UNFENCE_BROKER
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S, TIMEOUT_MAX_S
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tests.support.cluster_images import cluster
from tests.support.quotas import asked
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader


@pytest.mark.parametrize(("timeout_ms", "waits_s"), [(-1, 1), (0, 1), (3_000, 3), (10**9, TIMEOUT_MAX_S)])
async def test_a_controller_is_waited_for_as_long_as_the_request_says_and_not_for_ever(
    timeout_ms: int, waits_s: float
) -> None:
    controllers = FakeControllers()
    controllers.takes_s = 3_600
    began = asyncio.get_running_loop().time()
    request = UnfenceBrokerRequest(broker_id=1, timeout_ms=timeout_ms)
    with pytest.raises(Refusal, match="REQUEST_TIMED_OUT: no controller is active"):
        await controllers.forwarder(Loader()).forward(UNFENCE_BROKER, request)
    assert asyncio.get_running_loop().time() - began == pytest.approx(waits_s, abs=0.1)


async def test_an_answer_and_a_refusal_are_passed_on_and_the_want_of_either_is_a_refusal() -> None:
    request = UnfenceBrokerRequest(broker_id=1, timeout_ms=1_000)
    done = BrokerActionResult(changed=True, leaderless=[])
    assert await FakeControllers(unfence_broker=done).forwarder(Loader()).forward(UNFENCE_BROKER, request) == done
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "the controller's own")
    for given, expected in ((refusal, "INVALID_REQUEST"), (NoController("nobody is active"), "REQUEST_TIMED_OUT")):
        with pytest.raises(Refusal, match=expected):
            await FakeControllers(unfence_broker=given).forwarder(Loader()).forward(UNFENCE_BROKER, request)


async def test_a_request_without_a_timeout_waits_as_long_as_clients_do() -> None:
    controllers = FakeControllers()
    controllers.takes_s = 3_600
    began = asyncio.get_running_loop().time()
    with pytest.raises(Refusal, match="REQUEST_TIMED_OUT"):
        await controllers.forwarder(Loader()).forward(ALTER_CLIENT_QUOTAS, asked())
    assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_decision_is_answered_once_it_is_applied_here_and_a_check_at_once(validate_only: bool) -> None:
    response = AlterClientQuotasResponse(entries=())
    loader, request = Loader(cluster(1)), asked(validate_only=validate_only)
    forwarder = FakeControllers(alter_client_quotas=response).forwarder(loader)

    def is_applied(image: MetadataImage, of: AlterClientQuotasRequest, answer: AlterClientQuotasResponse) -> bool:
        return of is request and answer is response and len(image.brokers) == 2

    decided = asyncio.ensure_future(forwarder.decided(ALTER_CLIENT_QUOTAS, request, is_applied))
    await asyncio.sleep(0.5)
    assert decided.done() is validate_only
    loader.image = cluster(1, 2)
    assert await decided is response


async def test_what_does_not_become_visible_here_is_not_waited_for_long() -> None:
    began = asyncio.get_running_loop().time()
    await FakeControllers().forwarder(Loader()).until(lambda _: False)
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)
