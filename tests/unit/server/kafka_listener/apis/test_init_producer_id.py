from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.model.requests import InitProducerIdResponse as Given
from kraft.server.kafka_listener.apis.init_producer_id import InitProducerIdApi
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.client.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.kafka_door import answered

VERSIONS = range(6)


def ask(version: int, given: Given, transactional_id: str | None = None) -> InitProducerIdResponse:
    async def give() -> Given:
        return given

    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    response: InitProducerIdResponse = run_virtually(
        answered(InitProducerIdApi(give, lambda: 0), request, version, InitProducerIdResponse)
    )
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotent_producer_is_given_an_id(version: int) -> None:
    given = Given(error_code=ErrorCode.NONE, producer_id=ProducerId(4_001), producer_epoch=ProducerEpoch(0))
    response = ask(version, given)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 4_001, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_of_the_controller_is_handed_on(version: int) -> None:
    given = Given(error_code=ErrorCode.REQUEST_TIMED_OUT, producer_id=ProducerId(-1), producer_epoch=ProducerEpoch(-1))
    response = ask(version, given)
    assert (response.error_code, response.producer_id) == (ErrorCode.REQUEST_TIMED_OUT, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_producer_is_refused_and_the_log_says_why(version: int) -> None:
    given = Given(error_code=ErrorCode.NONE, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0))
    with capture_logs() as lines:
        response = ask(version, given, transactional_id="payments")
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)
    (line,) = lines
    assert line["reason"] == "a transactional producer: transactions are not built yet"


def test_one_that_asks_again_and_again_does_not_fill_the_log() -> None:
    async def give() -> Given:
        raise AssertionError("not for a transactional producer")

    api = InitProducerIdApi(give, lambda: 0)
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    with capture_logs() as lines:
        for _ in range(100):
            run_virtually(answered(api, request, 4, InitProducerIdResponse))
    assert len(lines) == 1
