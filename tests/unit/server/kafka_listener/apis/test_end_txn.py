from __future__ import annotations

import pytest

from kraft.coordinator.transactions.commands import EndTransaction
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.server.kafka_listener.apis.end_txn import EndTxnApi
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

VERSIONS = versions_of(EndTxnRequest)


def request(committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="payments", producer_id=7, producer_epoch=2, committed=committed)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_epoch_is_bumped_since_version_5(version: int, committed: bool) -> None:
    ended: list[EndTransaction] = []

    async def end(command: EndTransaction) -> ProducerIdAndEpoch:
        ended.append(command)
        return ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(3))

    response = await answered(EndTxnApi(end), request(committed), version, EndTxnResponse)
    assert ended == [
        EndTransaction(
            transactional_id="payments",
            producer=ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(2)),
            commit=committed,
            client_version=2 if version >= 5 else 0,
        )
    ]
    after = (7, 3) if version >= 5 else (-1, -1)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, *after)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS])
async def test_a_refusal_is_answered_and_old_clients_know_a_fenced_producer_by_its_epoch(
    version: int, code: ErrorCode
) -> None:
    async def end(_: EndTransaction) -> ProducerIdAndEpoch:
        raise Refusal(code, "no")

    response = await answered(EndTxnApi(end), request(), version, EndTxnResponse)
    is_old = version < 2 and code is ErrorCode.PRODUCER_FENCED
    assert response == EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each >= 5])
async def test_a_commit_of_what_the_coordinator_aborted_is_that_of_a_fenced_producer(version: int) -> None:
    """KAFKA-20785: Kafka Streams goes on with another producer, and ends at any other code."""

    async def end(_: EndTransaction) -> ProducerIdAndEpoch:
        raise Refusal(ErrorCode.TRANSACTION_ABORTABLE, "it was aborted")

    response = await answered(EndTxnApi(end), request(), version, EndTxnResponse)
    assert response == EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
