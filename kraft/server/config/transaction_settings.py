"""Settings of the coordinators of transactions, and of the topic `__transaction_state`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.topic_config import SEGMENT_BYTES_MAX
from kraft.model.config_types import INT32_MAX
from kraft.server.config import readers
from kraft.server.config.declaration import key
from kraft.server.config.readers import MIB

TRANSACTIONS_REPLICATION_FACTOR: Final = "transaction.state.log.replication.factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsTopicSettings:
    """Settings of the topic that holds the state of transactions."""

    partitions: int = key(
        "transaction.state.log.num.partitions",
        readers.whole_number(1, 10_000),
        "Partition count of __transaction_state, used when the topic is created.",
        default=50,
    )
    replication_factor: int = key(
        TRANSACTIONS_REPLICATION_FACTOR,
        readers.whole_number(1, 32_767),
        "Replication factor of __transaction_state, used when the topic is created; not created with fewer brokers."
        " A node that is the whole cluster uses 1 if the key is not set.",
        default=3,
    )
    min_insync_replicas: int = key(
        "transaction.state.log.min.isr",
        readers.whole_number(1, 32_767),
        "min.insync.replicas of __transaction_state, used when the topic is created; at most its replication factor.",
        default=2,
    )
    segment_bytes: int = key(
        "transaction.state.log.segment.bytes",
        readers.whole_number(1_024, SEGMENT_BYTES_MAX),
        "Segment size of __transaction_state, used when the topic is created: small segments are compacted sooner.",
        default=100 * MIB,
    )
    load_bytes_max: int = key(
        "transaction.state.log.load.buffer.size",
        readers.whole_number(1),
        "Bytes read at a time when a coordinator loads its partition of __transaction_state. Kafka's default is 5 MiB.",
        default=MIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Settings of transactions and transactional ids."""

    timeout_max_ms: int = key(
        "transaction.max.timeout.ms",
        readers.whole_number(1, INT32_MAX),
        "Longest transaction.timeout.ms that a producer may ask for.",
        default=900_000,
    )
    id_expiration_ms: int = key(
        "transactional.id.expiration.ms",
        readers.whole_number(1, INT32_MAX),
        "Time after the last change of a transactional id after which the coordinator forgets it.",
        default=604_800_000,
    )
    id_expiry_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        readers.whole_number(1, INT32_MAX),
        "Interval of checks for expired transactional ids.",
        default=3_600_000,
    )
    memory_bytes_max: int = key(
        "transaction.state.partition.memory.max.bytes",
        readers.whole_number(1),
        "Memory of the transactional ids of one partition of __transaction_state, about 700 bytes each, above which new"
        " ids are refused; and of the partitions of their open transactions, about 150 bytes each.",
        default=16 * MIB,
    )
    verifies_partitions: bool = key(
        "transaction.partition.verification.enable",
        readers.boolean,
        "Whether a broker asks the coordinator before a producer's first batch in a partition opens a transaction.",
        default=True,
    )
