from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.model.init_producer_id import InitProducerIdResponse as Given
from kraft.server.kafka_listener.apis.init_producer_id import InitProducerIdApi
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import answered

VERSIONS = range(6)


def ask(version: int, given: Given, transactional_id: str | None = None) -> InitProducerIdResponse:
    async def give(_: object) -> Given:
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
@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_a_producer_without_an_id_from_the_controller_gets_a_retriable_error(version: int, code: ErrorCode) -> None:
    # aiokafka and older Java clients stop on any other code, REQUEST_TIMED_OUT included.
    response = ask(version, Given(error_code=code, producer_id=ProducerId(-1), producer_epoch=ProducerEpoch(-1)))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        -1,
        -1,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_producer_is_refused_and_the_log_says_why(version: int) -> None:
    given = Given(error_code=ErrorCode.NONE, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0))
    with capture_logs() as lines:
        response = ask(version, given, transactional_id="payments")
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)
    (line,) = lines
    assert line["reason"] == "transactions are not supported yet: unset transactional.id"


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 3])
@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_without_an_epoch_and_an_epoch_without_an_id_are_refused(
    version: int, producer_id: int, epoch: int
) -> None:
    async def give(_: object) -> Given:
        raise AssertionError("not for half of an identity")

    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )
    response: InitProducerIdResponse = run_virtually(
        answered(InitProducerIdApi(give, lambda: 0), request, version, InitProducerIdResponse)
    )
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_one_that_asks_again_and_again_does_not_fill_the_log() -> None:
    async def give(_: object) -> Given:
        raise AssertionError("not for a transactional producer")

    api = InitProducerIdApi(give, lambda: 0)
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    with capture_logs() as lines:
        for _ in range(100):
            run_virtually(answered(api, request, 4, InitProducerIdResponse))
    assert len(lines) == 1
