"""Table of the Kafka listener's APIs of transactions, each with the handler that answers it."""

from __future__ import annotations

from kraft.server.handlers.broker_handlers import BrokerHandlers
from kraft.server.kafka_listener.apis.add_partitions_to_txn import AddPartitionsToTxnApi
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


def kafka_transaction_apis(handlers: BrokerHandlers) -> dict[ApiKey, Api]:
    transactions = handlers.transactions
    return {
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnApi(transactions.add_partitions_of_producer),
    }
