from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.quota_decisions import alter_client_quotas
from kraft.model.client_quotas import AlterClientQuotasResponse
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.client_quotas import ClientQuotasHandler, ControllerClientQuotasHandler
from tests.support.cluster_images import cluster
from tests.support.quotas import alteration, asked
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

REQUEST = asked(alteration({"user": "anna"}, producer_byte_rate=7))
DONE = AlterClientQuotasResponse(changed=1)


def handler(loader: Loader, **answers: object) -> ClientQuotasHandler:
    return ClientQuotasHandler(FakeControllers(**answers).forwarder(loader))


async def test_altered_quotas_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader(cluster(1))
    quotas = handler(loader, alter_client_quotas=DONE)
    answer = asyncio.ensure_future(quotas.alter(REQUEST))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = loader.image.replay(alter_client_quotas(loader.image, REQUEST).records)
    assert await answer == DONE


async def test_without_an_active_controller_the_caller_may_ask_again() -> None:
    nobody = handler(Loader(cluster(1)), alter_client_quotas=NoController("no controller is active"))
    with pytest.raises(Refusal) as refused:
        await nobody.alter(REQUEST)
    assert refused.value.error_code is ErrorCode.REQUEST_TIMED_OUT


async def test_the_controller_warns_once_that_quotas_are_not_enforced() -> None:
    image = cluster(1)

    class Decisions:
        async def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
            return decide(image).response

    quotas = ControllerClientQuotasHandler(Decisions())  # type: ignore[arg-type]
    with capture_logs() as logged:
        await quotas.alter(replace(REQUEST, validate_only=True))
        assert logged == []
        for _ in range(2):
            await quotas.alter(REQUEST)
    assert [each["event"] for each in logged] == ["client quotas changed, and not enforced yet"]
