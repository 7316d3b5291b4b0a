"""Encodes and decodes the metadata records of one entry of the metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from kraft.metadata import records
from kraft.metadata.records import MetadataRecord
from kraft.model.errors import Corruption
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import metadata_pb2

_MAPPINGS: dict[str, Mapping[Any, Any]] = {
    "cluster_initialised": Mapping(records.ClusterInitialised, metadata_pb2.ClusterInitialised),
    "register_broker": Mapping(records.RegisterBroker, metadata_pb2.RegisterBroker),
    "broker_fenced": Mapping(records.BrokerFenced, metadata_pb2.BrokerFenced),
    "broker_unfenced": Mapping(records.BrokerUnfenced, metadata_pb2.BrokerUnfenced),
    "broker_shutting_down": Mapping(records.BrokerShuttingDown, metadata_pb2.BrokerShuttingDown),
    "topic_created": Mapping(records.TopicCreated, metadata_pb2.TopicCreated),
    "partition_created": Mapping(records.PartitionCreated, metadata_pb2.PartitionCreated),
    "partition_changed": Mapping(records.PartitionChanged, metadata_pb2.PartitionChanged),
    "topic_deleted": Mapping(records.TopicDeleted, metadata_pb2.TopicDeleted),
    "topic_config_set": Mapping(records.TopicConfigSet, metadata_pb2.TopicConfigSet),
    "producer_ids_allocated": Mapping(records.ProducerIdsAllocated, metadata_pb2.ProducerIdsAllocated),
    "operator_fence_set": Mapping(records.OperatorFenceSet, metadata_pb2.OperatorFenceSet),
    "broker_unregistered": Mapping(records.BrokerUnregistered, metadata_pb2.BrokerUnregistered),
    "feature_level_set": Mapping(records.FeatureLevelSet, metadata_pb2.FeatureLevelSet),
    "broker_config_set": Mapping(records.BrokerConfigSet, metadata_pb2.BrokerConfigSet),
    "group_config_set": Mapping(records.GroupConfigSet, metadata_pb2.GroupConfigSet),
    "client_metrics_config_set": Mapping(records.ClientMetricsConfigSet, metadata_pb2.ClientMetricsConfigSet),
    "scram_credential_set": Mapping(records.ScramCredentialSet, metadata_pb2.ScramCredentialSet),
    "scram_credential_removed": Mapping(records.ScramCredentialRemoved, metadata_pb2.ScramCredentialRemoved),
    "unknown_users_key_set": Mapping(records.UnknownUsersKeySet, metadata_pb2.UnknownUsersKeySet),
    "acl_added": Mapping(records.AclAdded, metadata_pb2.AclAdded),
    "acl_removed": Mapping(records.AclRemoved, metadata_pb2.AclRemoved),
    "client_quota_set": Mapping(records.ClientQuotaSet, metadata_pb2.ClientQuotaSet),
    "broker_epochs_used": Mapping(records.BrokerEpochsUsed, metadata_pb2.BrokerEpochsUsed),
    "transaction_begun": Mapping(records.MetadataTransactionBegun, metadata_pb2.TransactionBegun),
    "transaction_ended": Mapping(records.MetadataTransactionEnded, metadata_pb2.TransactionEnded),
    "transaction_aborted": Mapping(records.MetadataTransactionAborted, metadata_pb2.TransactionAborted),
}

_FIELD_OF_TYPE = {mapping.value_type: field for field, mapping in _MAPPINGS.items()}


def encode_records(batch: Sequence[MetadataRecord]) -> bytes:
    message = metadata_pb2.MetadataRecords()
    for record in batch:
        field = _FIELD_OF_TYPE[type(record)]
        _MAPPINGS[field].write(record, getattr(message.records.add(), field))
    return message.SerializeToString()


def decode_records(data: bytes, index: int) -> list[MetadataRecord]:
    """Return the records of the entry at `index`. Raises Corruption for invalid bytes and for unknown records."""
    message = metadata_pb2.MetadataRecords()
    try:
        message.ParseFromString(data)
        return [_decode(record) for record in message.records]
    except (DecodeError, KeyError, ValueError) as error:
        raise Corruption(
            "metadata log", index, f"the entry holds no records that this version can read: {error}"
        ) from error


def _decode(message: metadata_pb2.MetadataRecord) -> MetadataRecord:
    field = message.WhichOneof("record")
    if field is None:
        raise ValueError("a record of an unknown type")
    record: MetadataRecord = _MAPPINGS[field].to_value(getattr(message, field))
    return record
