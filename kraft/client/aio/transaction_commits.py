"""Calls of the asyncio admin client that end transactions which their producers have prepared (docs/adr/0037)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import Final
from uuid import uuid4

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.coordinator.group_partition import partition_of
from kraft.metadata.described_topics import DescribeTopicsRequest
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.transactions import CommitTransactionsRequest, PreparedTransaction
from kraft.rpc.topic_calls import DESCRIBE_TOPICS
from kraft.rpc.transaction_calls import COMMIT_TRANSACTIONS, DESCRIBE_TRANSACTIONS, END_TXN, LIST_TRANSACTIONS
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest
from kraft.wire.schema.end_txn import EndTxnRequest
from kraft.wire.schema.list_transactions import ListTransactionsRequest

_ENDED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Refusals of an abort after which the transaction has ended, or its end is decided."""

_ABORTS_AT_ONCE: Final = 32
_ONGOING: Final = "Ongoing"


async def new_transactional_id(admin: AdminClient, committer: str, *, timeout_ms: int | None = None) -> str:
    """Return a new transactional id whose transaction `commit_transactions` can commit under this committer.

    It begins with the committer's, and belongs to the same partition of `__transaction_state`.
    """
    if not admin.calls.transaction_partitions:
        admin.calls.transaction_partitions = await _count_partitions(
            admin, committer, admin.calls.deadline_ms(timeout_ms)
        )
    count = admin.calls.transaction_partitions
    place = partition_of(committer, count)
    while partition_of(new := f"{committer}-{uuid4().hex}", count) != place:
        pass
    return new


async def commit_transactions(
    admin: AdminClient,
    committer: str,
    sequence: int,
    transactions: Sequence[PreparedTransaction],
    *,
    timeout_ms: int | None = None,
) -> bool:
    """Commit all of these transactions, or none, unless the committer's last sequence is this one or a later one.

    Returns False if it is: an earlier call has committed, perhaps this one with a response that was lost, and now
    nothing has changed. Raises TRANSACTION_ABORTABLE if one of them is not open any more. If the call times out, it
    may have committed: repeat it.
    """
    request = CommitTransactionsRequest(
        transactional_id=committer,
        sequence=sequence,
        transactions=tuple(transactions),
    )
    deadline_ms, coordinators = (
        admin.calls.deadline_ms(timeout_ms),
        admin.calls.coordinators(CoordinatorType.TRANSACTION),
    )
    return (await coordinators.call(committer, COMMIT_TRANSACTIONS, request, deadline_ms)).are_committed


async def abort_transactions(
    admin: AdminClient, transactions: Sequence[PreparedTransaction], *, timeout_ms: int | None = None
) -> None:
    """Abort those that are open. One whose end is decided, by a commit too, is left as it is."""
    deadline_ms, coordinators = (
        admin.calls.deadline_ms(timeout_ms),
        admin.calls.coordinators(CoordinatorType.TRANSACTION),
    )
    free = asyncio.Semaphore(_ABORTS_AT_ONCE)

    async def abort(each: PreparedTransaction) -> None:
        request = EndTxnRequest(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            committed=False,
        )

        async def attempt(timeout_ms: int) -> None:
            try:
                await coordinators.attempt(each.transactional_id, END_TXN, request, timeout_ms)
            except Refusal as refusal:
                if refusal.error_code not in _ENDED:
                    raise

        async with free:
            await coordinators.until(deadline_ms, attempt)

    await asyncio.gather(*map(abort, transactions))


async def abort_other_transactions(
    admin: AdminClient, committer: str, kept: Collection[str] = (), *, timeout_ms: int | None = None
) -> int:
    """Abort the open transactions with ids of this committer that are not kept, and return how many.

    For those of producers that were lost: readers of committed records would wait until they time out.
    """
    deadline_ms, coordinators = (
        admin.calls.deadline_ms(timeout_ms),
        admin.calls.coordinators(CoordinatorType.TRANSACTION),
    )
    request = ListTransactionsRequest(
        state_filters=(_ONGOING,),
        producer_id_filters=(),
        transactional_id_pattern=re.escape(committer) + "-[0-9a-f]{32}",
    )
    listed = await coordinators.call(committer, LIST_TRANSACTIONS, request, deadline_ms)
    ids = {each.transactional_id for each in listed.transaction_states}.difference(kept)
    if not ids:
        return 0
    describe = DescribeTransactionsRequest(transactional_ids=tuple(ids))
    described = await coordinators.call(committer, DESCRIBE_TRANSACTIONS, describe, deadline_ms)
    others = [
        PreparedTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
        )
        for each in described.transaction_states
        if each.error_code == ErrorCode.NONE and each.transaction_state == _ONGOING
    ]
    await abort_transactions(admin, others, timeout_ms=admin.calls.left_ms(deadline_ms))
    return len(others)


async def _count_partitions(admin: AdminClient, committer: str, deadline_ms: int) -> int:
    coordinators = admin.calls.coordinators(CoordinatorType.TRANSACTION)
    request = DescribeTopicsRequest(topics=[TRANSACTIONS_TOPIC])

    async def count(timeout_ms: int) -> int:
        # The first look-up of a coordinator creates the topic, and the coordinator knows it.
        described = (await coordinators.attempt(committer, DESCRIBE_TOPICS, request, timeout_ms)).topics
        if not described or not described[0].metadata.partitions:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTIONS_TOPIC} does not exist yet; retry")
        check(described[0].metadata.error_code, described[0].error_message)
        return len(described[0].metadata.partitions)

    return await coordinators.until(deadline_ms, count)
