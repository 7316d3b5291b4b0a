from __future__ import annotations

import pytest

from kraft.coordinator.transactions.commands import AddOffsets
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.server.kafka_listener.apis.add_offsets_to_txn import AddOffsetsToTxnApi
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

REQUEST = AddOffsetsToTxnRequest(transactional_id="payments", producer_id=7, producer_epoch=2, group_id="billing")
VERSIONS = versions_of(AddOffsetsToTxnRequest)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_group_is_added(version: int) -> None:
    added: list[AddOffsets] = []

    async def add(command: AddOffsets) -> None:
        added.append(command)

    response = await answered(AddOffsetsToTxnApi(add), REQUEST, version, AddOffsetsToTxnResponse)
    assert response.error_code == 0
    producer = ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(2))
    assert added == [AddOffsets(transactional_id="payments", producer=producer, group_id="billing")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_a_refusal_is_answered_and_old_clients_know_a_fenced_producer_by_its_epoch(
    version: int, code: ErrorCode
) -> None:
    async def add(_: AddOffsets) -> None:
        raise Refusal(code, "no")

    response = await answered(AddOffsetsToTxnApi(add), REQUEST, version, AddOffsetsToTxnResponse)
    is_old = version < 2 and code is ErrorCode.PRODUCER_FENCED
    assert response.error_code == (ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code)
