"""Calls of the public gRPC API, one row each. Those for topics, groups and transactions are in files of their own."""

from __future__ import annotations

from typing import Final

from kraft.model import brokers, features
from kraft.model.awaited_replicas import DescribeAwaitedReplicasRequest, DescribeAwaitedReplicasResponse
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.plain_records import FetchRecordsRequest, FetchRecordsResponse, ProduceRecordsRequest
from kraft.model.produce import ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.rpc.call import Call, Stream, service_of
from kraft.rpc.pb import admin_pb2, broker_pb2
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.wire.schema.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kraft.wire.schema.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kraft.wire.schema.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kraft.wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kraft.wire.schema.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.wire.schema.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from kraft.wire.schema.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kraft.wire.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_BROKER: Final = service_of(broker_pb2.DESCRIPTOR, "Broker")

PRODUCE: Final = Stream(_BROKER, "Produce", ProduceRequest, ProduceResponse)
FETCH: Final = Stream(_BROKER, "Fetch", FetchRequest, FetchResponse)
PRODUCE_RECORDS: Final = Call(_BROKER, "ProduceRecords", ProduceRecordsRequest, ProducePartitionResult)
FETCH_RECORDS: Final = Call(_BROKER, "FetchRecords", FetchRecordsRequest, FetchRecordsResponse)
METADATA: Final = Call(_BROKER, "Metadata", MetadataRequest, MetadataResponse)
LIST_OFFSETS: Final = Call(_BROKER, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse)
OFFSET_FOR_LEADER_EPOCH: Final = Call(
    _BROKER, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
)
DELETE_RECORDS: Final = Call(_BROKER, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse)
DESCRIBE_AWAITED_REPLICAS: Final = Call(
    _BROKER, "DescribeAwaitedReplicas", DescribeAwaitedReplicasRequest, DescribeAwaitedReplicasResponse
)
INIT_PRODUCER_ID: Final = Call(_BROKER, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse)
INIT_TEMPORARY_PRODUCER_ID: Final = Call(
    _BROKER, "InitTemporaryProducerId", InitProducerIdRequest, InitProducerIdResponse
)

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

ELECT_LEADERS: Final = Call(_ADMIN, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse)
ALTER_PARTITION_REASSIGNMENTS: Final = Call(
    _ADMIN,
    "AlterPartitionReassignments",
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
LIST_PARTITION_REASSIGNMENTS: Final = Call(
    _ADMIN,
    "ListPartitionReassignments",
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
DESCRIBE_CONFIGS: Final = Call(_ADMIN, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse)
INCREMENTAL_ALTER_CONFIGS: Final = Call(
    _ADMIN, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
)
ALTER_CONFIGS: Final = Call(_ADMIN, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse)
DESCRIBE_BROKERS: Final = Call(
    _ADMIN, "DescribeBrokers", brokers.DescribeBrokersRequest, brokers.DescribeBrokersResponse
)
FENCE_BROKER: Final = Call(_ADMIN, "FenceBroker", brokers.FenceBrokerRequest, brokers.BrokerActionResult)
UNFENCE_BROKER: Final = Call(_ADMIN, "UnfenceBroker", brokers.UnfenceBrokerRequest, brokers.BrokerActionResult)
UNREGISTER_BROKER: Final = Call(_ADMIN, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse)
DESCRIBE_FEATURES: Final = Call(
    _ADMIN, "DescribeFeatures", features.DescribeFeaturesRequest, features.DescribeFeaturesResponse
)
UPDATE_FEATURES: Final = Call(_ADMIN, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse)
DESCRIBE_CLIENT_QUOTAS: Final = Call(
    _ADMIN, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse
)
ALTER_CLIENT_QUOTAS: Final = Call(_ADMIN, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse)
DESCRIBE_QUORUM: Final = Call(_ADMIN, "DescribeQuorum", QuorumDescriptionRequest, QuorumDescription)
DESCRIBE_LOG_DIRS: Final = Call(_ADMIN, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse)
