"""ListTransactions: the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import transactions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.server.loop.turns import Turns
from kraft.wire.schema.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

TRANSACTIONS_AT_ONCE: Final = 1_000
"""Transactions converted before other tasks have their turn."""


class ListTransactionsApi:
    def __init__(
        self, handle: Callable[[values.ListTransactionsRequest], Awaitable[values.ListTransactionsResponse]]
    ) -> None:
        self._handle = handle

    async def __call__(self, request: ListTransactionsRequest, call: RequestContext) -> ListTransactionsResponse:
        wanted = values.ListTransactionsRequest(
            states=request.state_filters,
            producer_ids=request.producer_id_filters,
            duration_ms=request.duration_filter if request.duration_filter >= 0 else None,
            transactional_id_pattern=request.transactional_id_pattern or "",
        )
        try:
            listed = await self._handle(wanted)
        except Refusal as refusal:
            return ListTransactionsResponse(
                error_code=refusal.error_code, unknown_state_filters=(), transaction_states=()
            )
        turns, states = Turns(TRANSACTIONS_AT_ONCE), []
        for each in listed.transactions:
            states.append(
                TransactionState(
                    transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state
                )
            )
            await turns.done()
        return ListTransactionsResponse(
            error_code=ErrorCode.NONE, unknown_state_filters=listed.unknown_states, transaction_states=tuple(states)
        )
