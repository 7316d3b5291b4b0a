from __future__ import annotations

import pytest

from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.server.kafka_listener.apis.init_producer_id import InitProducerIdApi
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import answered

VERSIONS = range(6)


async def not_asked() -> ProducerId:
    raise AssertionError("no id is needed")


async def not_transactional(_: InitProducerId) -> ProducerIdAndEpoch:
    raise AssertionError("it has no transactional id")


def ask(version: int, api: InitProducerIdApi, request: InitProducerIdRequest) -> tuple[int, int, int]:
    """Return error code, producer id and epoch of the response."""
    response: InitProducerIdResponse = run_virtually(answered(api, request, version, InitProducerIdResponse))
    return response.error_code, response.producer_id, response.producer_epoch


def request(transactional_id: str | None, producer_id: int = -1, epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotent_producer_is_given_an_id(version: int) -> None:
    async def give() -> ProducerId:
        return ProducerId(4_001)

    assert ask(version, InitProducerIdApi(give, not_transactional), request(None)) == (0, 4_001, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_a_producer_without_an_id_from_the_controller_gets_a_retriable_error(version: int, code: ErrorCode) -> None:
    async def refuse() -> ProducerId:
        raise Refusal(code, "not now")

    # aiokafka and older Java clients stop on any other code, REQUEST_TIMED_OUT included.
    refused = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert ask(version, InitProducerIdApi(refuse, not_transactional), request(None)) == refused


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_producer_gets_the_identity_that_its_coordinator_gives(version: int) -> None:
    asked: list[InitProducerId] = []

    async def init(command: InitProducerId) -> ProducerIdAndEpoch:
        asked.append(command)
        return ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(2))

    api = InitProducerIdApi(not_asked, init)
    assert ask(version, api, request("payments")) == (0, 7, 2)
    assert asked == [InitProducerId(transactional_id="payments", timeout_ms=60_000)]
    if version >= 3:
        ask(version, api, request("payments", 7, 2))
        assert asked[-1].expected == ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(2))


@pytest.mark.parametrize("version", VERSIONS)
def test_old_clients_know_a_fenced_producer_by_its_epoch(version: int) -> None:
    async def fence(_: InitProducerId) -> ProducerIdAndEpoch:
        raise Refusal(ErrorCode.PRODUCER_FENCED, "another producer")

    code = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(version, InitProducerIdApi(not_asked, fence), request("payments")) == (code, -1, -1)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 3])
@pytest.mark.parametrize("transactional_id", [None, "payments"])
@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_without_an_epoch_and_an_epoch_without_an_id_are_refused(
    version: int, transactional_id: str | None, producer_id: int, epoch: int
) -> None:
    api = InitProducerIdApi(not_asked, not_transactional)
    refused = (ErrorCode.INVALID_REQUEST, -1, -1)
    assert ask(version, api, request(transactional_id, producer_id, epoch)) == refused
