from __future__ import annotations

import pytest

from kraft.model import transactions as values
from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.apis.describe_transactions import DescribeTransactionsApi
from kraft.wire.schema.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(DescribeTransactionsRequest))
async def test_each_id_is_described_or_has_its_error(version: int) -> None:
    asked: list[values.DescribeTransactionsRequest] = []

    async def handle(request: values.DescribeTransactionsRequest) -> values.DescribeTransactionsResponse:
        asked.append(request)
        partitions = (("orders", 0), ("orders", 2), ("parcels", 1))
        found = values.DescribedTransaction(
            transactional_id="payments",
            state="Ongoing",
            timeout_ms=60_000,
            start_ms=5,
            producer_id=7,
            producer_epoch=2,
            partitions=tuple(PartitionName(topic=topic, partition=number) for topic, number in partitions),
        )
        unknown = values.DescribedTransaction(
            transactional_id="unknown", error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, error_message="unknown"
        )
        return values.DescribeTransactionsResponse(transactions=(found, unknown))

    request = DescribeTransactionsRequest(transactional_ids=("payments", "unknown"))
    response = await answered(DescribeTransactionsApi(handle), request, version, DescribeTransactionsResponse)
    assert asked == [values.DescribeTransactionsRequest(transactional_ids=("payments", "unknown"))]
    found_state, refused = response.transaction_states
    assert found_state == (
        TransactionState(
            error_code=0,
            transactional_id="payments",
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=5,
            producer_id=7,
            producer_epoch=2,
            topics=(TopicData(topic="orders", partitions=(0, 2)), TopicData(topic="parcels", partitions=(1,))),
        )
    )
    assert (refused.error_code, refused.transactional_id, refused.transaction_state) == (105, "unknown", "")
    numbers = (refused.transaction_timeout_ms, refused.transaction_start_time_ms, refused.producer_id)
    assert (*numbers, refused.producer_epoch, refused.topics) == (0, 0, 0, 0, ())
