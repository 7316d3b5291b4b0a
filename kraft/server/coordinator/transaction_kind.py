"""The kind of shards that coordinate transactions, with the settings of a broker's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from kraft.coordinator.shard import BytesMax, ShardKind
from kraft.coordinator.transactions.commands import TransactionCommand
from kraft.coordinator.transactions.record_codec import decode, encode
from kraft.coordinator.transactions.records import TransactionRecord, UnknownTransactionRecord
from kraft.coordinator.transactions.replicated import Transactions, contents
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.volatile import TransactionsVolatile
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.shard_host import HostSettings, ShardHost

TransactionKind: TypeAlias = ShardKind[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord]
TransactionHost: TypeAlias = ShardHost[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord]


def transaction_kind(settings: TransactionSettings) -> TransactionKind:
    shard = TransactionShard(settings)
    return ShardKind(shard=shard, encode=encode, decode=_decode, contents=contents, limits_sizes=True)


def _decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    record = decode(key, value)
    return None if isinstance(record, UnknownTransactionRecord) else record


def transaction_settings(config: NodeConfig, batch_bytes_max: BytesMax) -> TransactionSettings:
    """`batch_bytes_max` returns the size of the largest batch that transactions may fill in `__transaction_state`."""
    return replace(config.transactions, batch_bytes_max=batch_bytes_max)


def transaction_host_settings(config: NodeConfig) -> HostSettings:
    return HostSettings(load_bytes_max=config.transactions_topic.load_bytes_max)
