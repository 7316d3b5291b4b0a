from __future__ import annotations

import pytest

from kraft.model import transactions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.list_transactions import ListTransactionsApi
from kraft.wire.schema.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

VERSIONS = versions_of(ListTransactionsRequest)


def request(version: int, duration: int = 5_000) -> ListTransactionsRequest:
    newer = {"duration_filter": duration} if version >= 1 else {}
    pattern = {"transactional_id_pattern": "pay.*"} if version >= 2 else {}
    return ListTransactionsRequest(state_filters=("Ongoing",), producer_id_filters=(7,), **newer, **pattern)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_filters_of_each_version_are_asked_for(version: int) -> None:
    asked: list[values.ListTransactionsRequest] = []

    async def handle(wanted: values.ListTransactionsRequest) -> values.ListTransactionsResponse:
        asked.append(wanted)
        found = values.ListedTransaction(transactional_id="payments", producer_id=7, state="Ongoing")
        return values.ListTransactionsResponse(transactions=(found,), unknown_states=("Asleep",))

    api = ListTransactionsApi(handle)
    response = await answered(api, request(version), version, ListTransactionsResponse)
    state = TransactionState(transactional_id="payments", producer_id=7, transaction_state="Ongoing")
    assert response == ListTransactionsResponse(
        error_code=0, unknown_state_filters=("Asleep",), transaction_states=(state,)
    )
    await answered(api, request(version, duration=-1), version, ListTransactionsResponse)
    pattern = "pay.*" if version >= 2 else ""
    assert asked == [
        values.ListTransactionsRequest(
            states=("Ongoing",), producer_ids=(7,), duration_ms=duration, transactional_id_pattern=pattern
        )
        for duration in (5_000 if version >= 1 else None, None)
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refusal_is_answered(version: int) -> None:
    async def refuse(_: values.ListTransactionsRequest) -> values.ListTransactionsResponse:
        raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "not yet")

    response = await answered(ListTransactionsApi(refuse), request(version), version, ListTransactionsResponse)
    assert response == ListTransactionsResponse(error_code=14, unknown_state_filters=(), transaction_states=())
