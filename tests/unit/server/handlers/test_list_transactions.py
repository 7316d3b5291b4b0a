"""ListTransactions filters by a regular expression of the whole transactional id."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, record_of, replay
from kraft.coordinator.transactions.transaction import new_transaction
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId
from kraft.model.name_regex import LENGTH_MAX
from kraft.model.producer_transactions import CoordinatedPartition, ProducerTransactionsRequest
from kraft.server.coordinator.transaction_coordinators import CommittedShard
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.wire.schema.list_transactions import ListTransactionsRequest
from tests.support.server.replicas import InlineExecutor


class Coordinators:
    """What the broker coordinates: ids with Kafka's usual characters, and others."""

    def all_committed(self) -> Any:
        transactions = NO_TRANSACTIONS
        for producer_id, transactional_id in enumerate(("payer-1", "payer-2", "größe 😀", "two\nlines")):
            transaction = new_transaction(ProducerId(producer_id), 60_000, 1_000)
            transactions = replay(transactions, record_of(transactional_id, transaction, transaction_version=2))
        return [CommittedShard(CoordinatedPartition(partition=3, leader_epoch=5), transactions)]


async def listed(pattern: str | None) -> list[str]:
    coordinators: Any = Coordinators()
    handler = TransactionsHandler(coordinators, lambda: EMPTY_IMAGE, lambda: None, lambda: 2_000, InlineExecutor())
    request = ListTransactionsRequest(state_filters=(), producer_id_filters=(), transactional_id_pattern=pattern)
    response = await handler.list_transactions(request)
    return [each.transactional_id for each in response.transaction_states]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["payer-1", "payer-2", "größe 😀", "two\nlines"]),
        (None, ["payer-1", "payer-2", "größe 😀", "two\nlines"]),
        ("payer", []),
        ("payer-.", ["payer-1", "payer-2"]),
        ("gr.+ 😀", ["größe 😀"]),
        ("[^a-z]*2|.*[[:^ascii:]]", ["größe 😀"]),
        (".*", ["payer-1", "payer-2", "größe 😀"]),
        ("(?s).*", ["payer-1", "payer-2", "größe 😀", "two\nlines"]),
    ],
)
async def test_a_pattern_matches_whole_ids_of_any_characters(pattern: str | None, expected: list[str]) -> None:
    assert sorted(await listed(pattern)) == sorted(expected)


async def test_the_partitions_that_were_looked_at_are_named() -> None:
    coordinators: Any = Coordinators()
    handler = TransactionsHandler(coordinators, lambda: EMPTY_IMAGE, lambda: None, lambda: 2_000, InlineExecutor())
    response = await handler.of_producer(ProducerTransactionsRequest(producer_id=99))
    assert response.transactions == ()
    assert response.coordinated == (CoordinatedPartition(partition=3, leader_epoch=5),)


@pytest.mark.parametrize("pattern", ["(", "a" * (LENGTH_MAX + 1)])
async def test_a_pattern_that_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(Refusal, match="is not valid: ") as caught:
        await listed(pattern)
    assert caught.value.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(caught.value.message) < 200
