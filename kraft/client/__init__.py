"""Python client of a Kraft cluster: Producer, Consumer and Admin.

    from kraft.client import Producer

    with Producer("localhost:9094", compression_type="lz4") as producer:
        producer.send("orders", b"...", key=b"customer-7")

These three are synchronous and may be used from threads; `kraft.client.aio` has the same three for asyncio. Names are
imported at first use, so that a command that only lists topics does not load the codecs. An import opens nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kraft.client.bulk.arrow_chunks import ArrowChunk
    from kraft.client.cluster.any_broker import NoBrokerReachable
    from kraft.client.model.errors import (
        AuthenticationFailed,
        BufferExhausted,
        ClientClosed,
        CommitFailed,
        DeliveryTimeout,
        InvalidSetting,
        LogTruncated,
        NoRetriesLeft,
        NotSupportedYet,
        ProducerFenced,
        RecordTooLarge,
        SubscriptionConflict,
        TransactionAborted,
        TransactionConflict,
        TransactionOutcomeUnknown,
        TransactionTimeout,
    )
    from kraft.client.model.security import ClientSecurity, client_security
    from kraft.client.model.transactions import TransactionDescription, TransactionListing
    from kraft.client.model.values import (
        ColumnsToSend,
        ConsumerRecord,
        Delay,
        Delivery,
        GroupMetadata,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionColumns,
        RecordMetadata,
    )
    from kraft.client.sans_io.batches import StoredBatch, decode_columns, records_of
    from kraft.client.sans_io.group.descriptions import GroupDescription, GroupMember, ListedGroup
    from kraft.client.sans_io.partitioner import partition_for_key
    from kraft.client.threads.admin import Admin
    from kraft.client.threads.consumer import Consumer
    from kraft.client.threads.producer import Producer
    from kraft.log.format.arrow_columns import ColumnBuffers, HeaderViews, Views, WantedColumns
    from kraft.log.format.compression import Codec
    from kraft.log.format.record_batch import TimestampType
    from kraft.log.format.record_codec import RecordColumns
    from kraft.model.brokers import BrokerDescription
    from kraft.model.client_quotas import QuotaMatch
    from kraft.model.configs import ConfigSource
    from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
    from kraft.model.ids import TopicPartition, TopicPartitionReplica
    from kraft.model.partitions import ElectionType
    from kraft.model.transactions import PreparedTransaction
    from kraft.rpc.peers import Unreachable
    from kraft.wire.schema.list_partition_reassignments import OngoingPartitionReassignment

__all__ = [
    "Admin",
    "ArrowChunk",
    "AuthenticationFailed",
    "BrokerDescription",
    "BufferExhausted",
    "ClientClosed",
    "ClientSecurity",
    "Codec",
    "ColumnBuffers",
    "ColumnsToSend",
    "CommitFailed",
    "ConfigSource",
    "Consumer",
    "ConsumerRecord",
    "Delay",
    "Delivery",
    "DeliveryTimeout",
    "ElectionType",
    "ErrorCode",
    "GroupDescription",
    "GroupMember",
    "GroupMetadata",
    "HeaderViews",
    "InvalidBatch",
    "InvalidSetting",
    "KraftError",
    "ListedGroup",
    "LogTruncated",
    "NewTopic",
    "NoBrokerReachable",
    "NoRetriesLeft",
    "NotSupportedYet",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OngoingPartitionReassignment",
    "PartitionColumns",
    "PreparedTransaction",
    "Producer",
    "ProducerFenced",
    "QuotaMatch",
    "RecordColumns",
    "RecordMetadata",
    "RecordTooLarge",
    "Refusal",
    "StoredBatch",
    "SubscriptionConflict",
    "TimestampType",
    "TopicPartition",
    "TopicPartitionReplica",
    "TransactionAborted",
    "TransactionConflict",
    "TransactionDescription",
    "TransactionListing",
    "TransactionOutcomeUnknown",
    "TransactionTimeout",
    "Unreachable",
    "Views",
    "WantedColumns",
    "client_security",
    "decode_columns",
    "partition_for_key",
    "records_of",
]

_HOMES = {
    "kraft.client.threads.admin": ("Admin",),
    "kraft.client.cluster.any_broker": ("NoBrokerReachable",),
    "kraft.client.sans_io.batches": ("StoredBatch", "decode_columns", "records_of"),
    "kraft.client.bulk.arrow_chunks": ("ArrowChunk",),
    "kraft.client.threads.consumer": ("Consumer",),
    "kraft.client.model.errors": (
        "AuthenticationFailed",
        "BufferExhausted",
        "ClientClosed",
        "CommitFailed",
        "DeliveryTimeout",
        "InvalidSetting",
        "LogTruncated",
        "NoRetriesLeft",
        "NotSupportedYet",
        "ProducerFenced",
        "RecordTooLarge",
        "SubscriptionConflict",
        "TransactionAborted",
        "TransactionConflict",
        "TransactionOutcomeUnknown",
        "TransactionTimeout",
    ),
    "kraft.client.model.security": ("ClientSecurity", "client_security"),
    "kraft.client.sans_io.group.descriptions": ("GroupDescription", "GroupMember", "ListedGroup"),
    "kraft.client.sans_io.partitioner": ("partition_for_key",),
    "kraft.client.threads.producer": ("Producer",),
    "kraft.client.model.transactions": ("TransactionDescription", "TransactionListing"),
    "kraft.model.transactions": ("PreparedTransaction",),
    "kraft.client.model.values": (
        "ColumnsToSend",
        "ConsumerRecord",
        "Delay",
        "Delivery",
        "GroupMetadata",
        "NewTopic",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "PartitionColumns",
        "RecordMetadata",
    ),
    "kraft.log.format.arrow_columns": ("ColumnBuffers", "HeaderViews", "Views", "WantedColumns"),
    "kraft.log.format.compression": ("Codec",),
    "kraft.log.format.record_batch": ("TimestampType",),
    "kraft.log.format.record_codec": ("RecordColumns",),
    "kraft.model.brokers": ("BrokerDescription",),
    "kraft.model.configs": ("ConfigSource",),
    "kraft.model.errors": ("ErrorCode", "InvalidBatch", "KraftError", "Refusal"),
    "kraft.model.ids": ("TopicPartition", "TopicPartitionReplica"),
    "kraft.model.partitions": ("ElectionType",),
    "kraft.model.client_quotas": ("QuotaMatch",),
    "kraft.rpc.peers": ("Unreachable",),
    "kraft.wire.schema.list_partition_reassignments": ("OngoingPartitionReassignment",),
}

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
