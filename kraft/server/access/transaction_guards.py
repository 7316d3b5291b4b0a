"""Guards of the APIs of transactional producers, and about transactions: WRITE on the transactional id."""

from __future__ import annotations

from typing import Any, Final

from kraft.coordinator.transactions.added_partitions import results_of
from kraft.model.access import CLUSTER_NAME, Operation, ResourceType
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartition
from kraft.model.transactions import CommitTransactionsRequest
from kraft.server.access.asker import Asker
from kraft.server.access.guard import ASKED_AT_ONCE, Permission, Proceed, asked, part_by_part
from kraft.server.handlers.transactions import refused_transaction
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.list_transactions import ListTransactionsResponse

_ID: Final = ResourceType.TRANSACTIONAL_ID
_TOPIC: Final = ResourceType.TOPIC
_CLUSTER: Final = ResourceType.CLUSTER


async def init_producer_id(asker: Asker, request: InitProducerIdRequest, proceed: Proceed) -> Any:
    """WRITE on the transactional id, and TWO_PHASE_COMMIT for a transaction of that kind.

    Without an id IDEMPOTENT_WRITE on the cluster, or WRITE on any topic: a producer that may write may be idempotent.
    """
    if request.transactional_id is not None:
        asker.require(Operation.WRITE, _ID, request.transactional_id)
        if request.enable2_pc:
            asker.require(Operation.TWO_PHASE_COMMIT, _ID, request.transactional_id)
    elif not asker.may_on_cluster(Operation.IDEMPOTENT_WRITE) and not asker.may_on_any(Operation.WRITE, _TOPIC):
        raise asker.refusal(Operation.IDEMPOTENT_WRITE, _CLUSTER, CLUSTER_NAME)
    return await proceed(request)


async def add_partitions_to_txn(
    asker: Asker, request: AddPartitionsToTxnRequest, proceed: Proceed
) -> AddPartitionsToTxnResponse:
    """WRITE on the transactional id and on each topic: if one is refused, none is added.

    Brokers, which send many transactions at once, need CLUSTER_ACTION.
    """
    if request.transactions:
        asker.require(Operation.CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME)
        response: AddPartitionsToTxnResponse = await proceed(request)
        return response
    topics = request.v3_and_below_topics
    asker.require(Operation.WRITE, _ID, request.v3_and_below_transactional_id)
    _, hidden = await asked(topics, lambda topic: asker.may(Operation.WRITE, _TOPIC, topic.name))
    if not hidden:
        added: AddPartitionsToTxnResponse = await proceed(request)
        return added
    names = {topic.name for topic in hidden}
    asker.is_refused(Operation.WRITE, _TOPIC, names)
    codes = {
        TopicPartition(topic.name, number): ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic.name in names
        else ErrorCode.OPERATION_NOT_ATTEMPTED
        for topic in topics
        for number in topic.partitions
    }
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results_of(topics, codes))


async def commit_transactions(asker: Asker, request: CommitTransactionsRequest, proceed: Proceed) -> Any:
    """WRITE on the id that keeps the sequence and on each that is committed: all or none."""
    asker.require(Operation.WRITE, _ID, request.transactional_id)
    _, refused = await asked(request.transactions, lambda each: asker.may(Operation.WRITE, _ID, each.transactional_id))
    if refused:
        raise asker.refusal(Operation.WRITE, _ID, refused[0].transactional_id)
    return await proceed(request)


async def write_txn_markers(asker: Asker, request: Any, proceed: Proceed) -> Any:
    """ALTER on the cluster, for operators, or CLUSTER_ACTION."""
    if not asker.may_on_cluster(Operation.ALTER):
        asker.require(Operation.CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME)
    return await proceed(request)


_described: Final = part_by_part(
    Permission(Operation.DESCRIBE, _ID),
    parts="transactional_ids",
    name=str,
    refused=refused_transaction,
    answers="transaction_states",
)


async def describe_transactions(
    asker: Asker, request: DescribeTransactionsRequest, proceed: Proceed
) -> DescribeTransactionsResponse:
    """DESCRIBE on each transactional id. Topics of a transaction that the client may not describe are left out."""
    response: DescribeTransactionsResponse = await _described(asker, request, proceed)
    turns, shown = Turns(ASKED_AT_ONCE), []
    for state in response.transaction_states:
        visible, hidden = await asked(state.topics, lambda topic: asker.may(Operation.DESCRIBE, _TOPIC, topic.topic))
        shown.append(replace(state, topics=visible) if hidden else state)
        await turns.done(1 + len(state.topics))
    return replace(response, transaction_states=tuple(shown))


async def list_transactions(asker: Asker, request: Any, proceed: Proceed) -> ListTransactionsResponse:
    """DESCRIBE on a transactional id shows it. The others are left out."""
    response: ListTransactionsResponse = await proceed(request)
    visible, _ = await asked(
        response.transaction_states, lambda state: asker.may(Operation.DESCRIBE, _ID, state.transactional_id)
    )
    return replace(response, transaction_states=visible)
