"""Calls of the asyncio admin client for transactions, and for the producers of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kraft.client.aio.absences import absences
from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import PartMissing, check
from kraft.client.cluster.connections import PeerNode
from kraft.client.model.arguments import checked_names
from kraft.client.model.group_offsets import numbers_by_topic
from kraft.client.model.transactions import TransactionDescription, TransactionListing, described
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.find_coordinator import CoordinatorType
from kraft.model.ids import TopicPartition
from kraft.model.transactions import AbortTransactionRequest
from kraft.rpc.transaction_calls import (
    ABORT_TRANSACTION,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
from kraft.wire.schema.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kraft.wire.schema.list_transactions import ListTransactionsRequest


async def list_transactions(
    admin: AdminClient,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    duration_ms: int | None = None,
    pattern: str = "",
    timeout_ms: int | None = None,
) -> list[TransactionListing]:
    """Return the transactional ids of all brokers, sorted; every filter that is set has to accept one.

    States are Kafka's, such as `Ongoing`; `duration_ms` accepts transactions that began longer ago, `pattern` is a
    regular expression for the whole id. Raises ValueError for a state that no broker knows, and
    INVALID_REGULAR_EXPRESSION, and PartMissing, with those of the others, if a broker does not answer.
    """
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=-1 if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )
    listed, silent = await admin.calls.of_each_broker(LIST_TRANSACTIONS, request, timeout_ms)
    unknown = [set(response.unknown_state_filters) for response in listed.values()]
    if unknown and (unknown_to_all := set.intersection(*unknown)):
        raise ValueError(f"{', '.join(map(repr, sorted(unknown_to_all)))}: no such state of a transaction")
    # An id that moved meanwhile may be on two lists.
    by_id = {
        each.transactional_id: TransactionListing(
            transactional_id=each.transactional_id,
            coordinator_id=broker_id,
            producer_id=each.producer_id,
            state=each.transaction_state,
        )
        for broker_id, response in listed.items()
        for each in response.transaction_states
    }
    found = [by_id[transactional_id] for transactional_id in sorted(by_id)]
    if silent:
        raise PartMissing(silent, found, "transactional ids")
    return found


async def describe_transactions(
    admin: AdminClient, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, TransactionDescription | Refusal]:
    """Return each transactional id with its transaction, or its Refusal: TRANSACTIONAL_ID_NOT_FOUND.

    Creates no topic. COORDINATOR_NOT_AVAILABLE if the topic of transactions may not be seen and may not be there.
    """
    deadline_ms, asked = admin.calls.deadline_ms(timeout_ms), checked_names(transactional_ids)
    if absent := await absences(admin, CoordinatorType.TRANSACTION, asked, deadline_ms):
        return dict[str, TransactionDescription | Refusal](absent)
    coordinators = admin.calls.coordinators(CoordinatorType.TRANSACTION)

    async def describe(transactional_id: str) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        found = await coordinators.call(transactional_id, DESCRIBE_TRANSACTIONS, request, deadline_ms, _check)
        coordinator = await coordinators.find(transactional_id, admin.calls.left_ms(deadline_ms))
        return described(found.transaction_states[0], coordinator)

    return await admin.calls.of_each(coordinators, asked, deadline_ms, describe)


async def find_transaction(
    admin: AdminClient, transactional_id: str, *, timeout_ms: int | None = None
) -> TransactionDescription:
    """Return the transactional id with its transaction. Raises its Refusal: TRANSACTIONAL_ID_NOT_FOUND."""
    found = (await describe_transactions(admin, [transactional_id], timeout_ms=timeout_ms))[transactional_id]
    if isinstance(found, Refusal):
        raise found
    return found


async def describe_producers(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    *,
    broker_id: int | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, tuple[ProducerState, ...] | KraftError]:
    """Return the producers of each partition by producer id, or its error: as its leader or this broker knows them.

    NOT_LEADER_OR_FOLLOWER: the broker has no replica. Raises BROKER_NOT_AVAILABLE if it is not in service.
    """

    async def ask(
        node: PeerNode, asked: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | Refusal]:
        topics = tuple(
            TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in numbers_by_topic(asked).items()
        )
        found = await node.call(DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=topics), timeout_s)
        return {
            TopicPartition(topic.name, each.partition_index): each.active_producers
            if each.error_code == ErrorCode.NONE
            else Refusal(error_code(each.error_code), each.error_message or error_code(each.error_code).name)
            for topic in found.topics
            for each in topic.partitions
        }

    call = admin.calls.leader_calls().of_each(partitions, ask, admin.calls.timeout(timeout_ms), broker_id)
    return dict(await admin.calls.watched(call, timeout_ms))


async def abort_transaction(
    admin: AdminClient,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    timeout_ms: int | None = None,
) -> None:
    """Abort the producer's transaction in one partition, if it hangs: no coordinator has it there.

    The epochs are those that `describe_producers` returns. Aborting twice is harmless. Raises the leader's Refusal:
    INVALID_TXN_STATE for a transaction that does not hang, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
    COORDINATOR_NOT_AVAILABLE.
    """
    request = AbortTransactionRequest(
        topic=partition.topic,
        partition=partition.partition,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        # Before its first marker a producer has epoch -1; no coordinator's epoch is below 0.
        coordinator_epoch=max(0, coordinator_epoch),
    )

    async def ask(node: PeerNode, _: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, None]:
        await node.call(ABORT_TRANSACTION, request, timeout_s)
        return {partition: None}

    call = admin.calls.leader_calls().of_each([partition], ask, admin.calls.timeout(timeout_ms))
    (outcome,) = (await admin.calls.watched(call, timeout_ms)).values()
    if isinstance(outcome, Exception):
        raise outcome


def _check(response: DescribeTransactionsResponse) -> None:
    for each in response.transaction_states:
        is_unknown = each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        reason = "there is no" if is_unknown else "its coordinator does not describe"
        check(each.error_code, f"{reason} transactional id {each.transactional_id!r}")
