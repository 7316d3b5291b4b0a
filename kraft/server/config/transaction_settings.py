"""Settings of the coordinators of transactions, and of the topic `__transaction_state`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.topic_config import SEGMENT_BYTES_MAX
from kraft.model.config_keys import boolean, key, whole_number
from kraft.server.config.readers import MIB

TRANSACTIONS_REPLICATION_FACTOR: Final = "transaction.state.log.replication.factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsTopicSettings:
    """Settings of the topic that holds the state of transactions."""

    partitions: int = key(
        "transaction.state.log.num.partitions",
        whole_number(1, 10_000),
        "Partition count of __transaction_state, used when the topic is created.",
        default=50,
    )
    replication_factor: int = key(
        TRANSACTIONS_REPLICATION_FACTOR,
        whole_number(1, 32_767),
        "Replication factor of __transaction_state, used when the topic is created; not created with fewer brokers."
        " A node that is the whole cluster uses 1 if the key is not set.",
        default=3,
    )
    min_insync_replicas: int = key(
        "transaction.state.log.min.isr",
        whole_number(1, 32_767),
        "min.insync.replicas of __transaction_state, used when the topic is created; at most its replication factor.",
        default=2,
    )
    segment_bytes: int = key(
        "transaction.state.log.segment.bytes",
        whole_number(1_024, SEGMENT_BYTES_MAX),
        "Segment size of __transaction_state, used when the topic is created: small segments are compacted sooner.",
        default=100 * MIB,
    )
    load_bytes_max: int = key(
        "transaction.state.log.load.buffer.size",
        whole_number(1),
        "Bytes read at a time when a coordinator loads its partition of __transaction_state. Kafka's default is 5 MiB.",
        default=MIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerification:
    """Verification of producers' transactions by the leaders of their partitions."""

    enabled: bool = key(
        "transaction.partition.verification.enable",
        boolean,
        "Whether a broker asks the coordinator before a producer's first batch in a partition opens a transaction.",
        default=True,
    )
