from __future__ import annotations

import asyncio

from kraft.model.brokers import BrokerActionResult
from kraft.model.brokers import UnregisterBrokerRequest as Asked
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.unregister_broker import UnregisterBrokerApi
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.server.kafka_listener.apis.listener import answered


def unregister(broker_id: int) -> tuple[int, str | None]:
    async def handle(request: Asked) -> BrokerActionResult:
        if request.broker_id != 3:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no such broker")
        return BrokerActionResult(changed=True, leaderless=[])

    request = UnregisterBrokerRequest(broker_id=broker_id)
    response = asyncio.run(answered(UnregisterBrokerApi(handle), request, 0, UnregisterBrokerResponse))
    return response.error_code, response.error_message


def test_a_broker_is_forgotten() -> None:
    assert unregister(3) == (0, None)


def test_a_refusal_is_answered_with_its_reason() -> None:
    assert unregister(4) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no such broker")
