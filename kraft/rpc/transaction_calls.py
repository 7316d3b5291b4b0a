"""Calls of the public gRPC API to coordinators of transactions, and about producers, one row each."""

from __future__ import annotations

from typing import Final

from kraft.model import transactions as values
from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import transactions_pb2
from kraft.wire.schema.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_TRANSACTIONS: Final = service_of(transactions_pb2.DESCRIPTOR, "Transactions")

END_TXN: Final = Call(_TRANSACTIONS, "EndTxn", EndTxnRequest, EndTxnResponse)
COMMIT_TRANSACTIONS: Final = Call(
    _TRANSACTIONS, "CommitTransactions", values.CommitTransactionsRequest, values.CommitTransactionsResponse
)
LIST_TRANSACTIONS: Final = Call(_TRANSACTIONS, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse)
DESCRIBE_TRANSACTIONS: Final = Call(
    _TRANSACTIONS, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse
)
DESCRIBE_PRODUCERS: Final = Call(
    _TRANSACTIONS, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse
)
ABORT_TRANSACTION: Final = Call(
    _TRANSACTIONS, "AbortTransaction", values.AbortTransactionRequest, values.AbortTransactionResponse
)
