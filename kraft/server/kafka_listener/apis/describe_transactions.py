"""DescribeTransactions: the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import transactions as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.server.loop.turns import Turns
from kraft.wire.schema.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

PARTITIONS_AT_ONCE: Final = 1_000
"""Partitions and transactional ids converted before other tasks have their turn."""


class DescribeTransactionsApi:
    def __init__(
        self, handle: Callable[[values.DescribeTransactionsRequest], Awaitable[values.DescribeTransactionsResponse]]
    ) -> None:
        self._handle = handle

    async def __call__(
        self, request: DescribeTransactionsRequest, call: RequestContext
    ) -> DescribeTransactionsResponse:
        described = await self._handle(values.DescribeTransactionsRequest(transactional_ids=request.transactional_ids))
        turns, states = Turns(PARTITIONS_AT_ONCE), []
        for each in described.transactions:
            states.append(_state(each))
            await turns.done(1 + len(each.partitions))
        return DescribeTransactionsResponse(transaction_states=tuple(states))


def _state(described: values.DescribedTransaction) -> TransactionState:
    if described.error_code is not ErrorCode.NONE:
        return TransactionState(
            error_code=described.error_code,
            transactional_id=described.transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for each in described.partitions:
        topics[each.topic].append(each.partition)
    return TransactionState(
        error_code=described.error_code,
        transactional_id=described.transactional_id,
        transaction_state=described.state,
        transaction_timeout_ms=described.timeout_ms,
        transaction_start_time_ms=described.start_ms,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        topics=tuple(TopicData(topic=topic, partitions=tuple(numbers)) for topic, numbers in topics.items()),
    )
