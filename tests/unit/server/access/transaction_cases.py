"""Cases of the APIs of transactional producers, and about transactions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from kraft.model.access import Operation
from kraft.model.transactions import CommitTransactionsRequest, PreparedTransaction
from kraft.wire.schema import (
    add_partitions_to_txn,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from tests.unit.server.access.needs import (
    ACTION,
    ALTER,
    ANSWERED,
    DESCRIBE,
    GROUP,
    NONE,
    NOTHING,
    OF_ID,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    Case,
    on_cluster,
    on_group,
    on_id,
    on_topic,
    whole,
)


def transaction(transactional_id: str) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=NONE,
        transactional_id=transactional_id,
        transaction_state="Ongoing",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=1,
        producer_epoch=0,
        topics=(describe_transactions.TopicData(topic=TOPIC, partitions=(0,)),),
    )


def marker() -> write_txn_markers.WriteTxnMarkersRequest:
    return write_txn_markers.WriteTxnMarkersRequest(markers=())


TRANSACTION_CASES: Final[dict[str, Case]] = {
    "InitProducerId": Case(
        init_producer_id.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=1, enable2_pc=True),
        lambda _: ANSWERED,
        ((on_id(WRITE),), (on_id(Operation.TWO_PHASE_COMMIT),)),
        "TWO_PHASE_COMMIT for transactions of that kind only; without a transactional id IDEMPOTENT_WRITE on the "
        "cluster, or WRITE on any topic, or else CLUSTER_AUTHORIZATION_FAILED",
    ),
    "InitTemporaryProducerId": Case(
        init_producer_id.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=1),
        lambda _: ANSWERED,
        ((on_id(WRITE),),),
    ),
    "<ApiKey.ADD_PARTITIONS_TO_TXN: 24>": Case(
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
        ),
        lambda _: ANSWERED,
        ((on_id(WRITE),), (on_topic(WRITE),)),
        "from version 4, which brokers send, CLUSTER_ACTION on the cluster instead",
    ),
    "<ApiKey.ADD_OFFSETS_TO_TXN: 25>": whole(
        SimpleNamespace(transactional_id=TRANSACTION, group_id=GROUP), on_id(WRITE), on_group(READ)
    ),
    "EndTxn": whole(OF_ID, on_id(WRITE)),
    "CommitTransactions": whole(
        CommitTransactionsRequest(
            transactional_id=TRANSACTION,
            sequence=1,
            transactions=(PreparedTransaction(transactional_id=TRANSACTION, producer_id=1, producer_epoch=0),),
        ),
        on_id(WRITE),
    ),
    "WriteTxnMarkers": Case(marker(), lambda _: ANSWERED, ((on_cluster(ALTER), on_cluster(ACTION)),)),
    "AbortTransaction": whole(NOTHING, on_cluster(ALTER)),
    "DescribeTransactions": Case(
        describe_transactions.DescribeTransactionsRequest(transactional_ids=(TRANSACTION,)),
        lambda request: describe_transactions.DescribeTransactionsResponse(
            transaction_states=tuple(map(transaction, request.transactional_ids))
        ),
        ((on_id(DESCRIBE),), (on_topic(DESCRIBE, None),)),
        "topics of a transaction that the client may not describe are left out",
    ),
    "ListTransactions": Case(
        NOTHING,
        lambda _: list_transactions.ListTransactionsResponse(
            error_code=NONE,
            unknown_state_filters=(),
            transaction_states=(
                list_transactions.TransactionState(
                    transactional_id=TRANSACTION, producer_id=1, transaction_state="Ongoing"
                ),
            ),
        ),
        ((on_id(DESCRIBE, None),),),
        "transactional ids that the client may not describe are left out",
    ),
}
