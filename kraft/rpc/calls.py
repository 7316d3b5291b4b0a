"""The public API, a row a call."""

from __future__ import annotations

from typing import Final

from kraft.model import broker_requests as brokers
from kraft.model import config_requests as configs
from kraft.model import feature_requests as features
from kraft.model import partition_requests as partitions
from kraft.model import quota_requests as quotas
from kraft.model import requests as values
from kraft.rpc.call import Call, Stream, service_of
from kraft.rpc.pb import admin_pb2, broker_pb2

_BROKER: Final = service_of(broker_pb2.DESCRIPTOR, "Broker")

PRODUCE: Final = Stream(_BROKER, "Produce", values.ProduceRequest, values.ProduceResponse)
FETCH: Final = Stream(_BROKER, "Fetch", values.FetchRequest, values.FetchResponse)
PRODUCE_RECORDS: Final = Call(_BROKER, "ProduceRecords", values.ProduceRecordsRequest, values.ProducePartitionResult)
FETCH_RECORDS: Final = Call(
    _BROKER, "FetchRecords", values.FetchRecordsRequest, values.FetchRecordsResponse, long_list="records"
)
METADATA: Final = Call(_BROKER, "Metadata", values.MetadataRequest, values.MetadataResponse)
LIST_OFFSETS: Final = Call(_BROKER, "ListOffsets", values.ListOffsetsRequest, values.ListOffsetsResponse)
OFFSET_FOR_LEADER_EPOCH: Final = Call(
    _BROKER, "OffsetForLeaderEpoch", values.OffsetForLeaderEpochRequest, values.OffsetForLeaderEpochResponse
)
DELETE_RECORDS: Final = Call(_BROKER, "DeleteRecords", values.DeleteRecordsRequest, values.DeleteRecordsResponse)
INIT_PRODUCER_ID: Final = Call(_BROKER, "InitProducerId", values.InitProducerIdRequest, values.InitProducerIdResponse)

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

CREATE_TOPICS: Final = Call(_ADMIN, "CreateTopics", values.CreateTopicsRequest, values.TopicResults)
DELETE_TOPICS: Final = Call(_ADMIN, "DeleteTopics", values.DeleteTopicsRequest, values.TopicResults)
DESCRIBE_TOPICS: Final = Call(_ADMIN, "DescribeTopics", values.DescribeTopicsRequest, values.DescribeTopicsResponse)
CREATE_PARTITIONS: Final = Call(_ADMIN, "CreatePartitions", partitions.CreatePartitionsRequest, values.TopicResults)
ELECT_LEADERS: Final = Call(_ADMIN, "ElectLeaders", partitions.ElectLeadersRequest, partitions.ElectLeadersResponse)
ALTER_PARTITION_REASSIGNMENTS: Final = Call(
    _ADMIN,
    "AlterPartitionReassignments",
    partitions.AlterPartitionReassignmentsRequest,
    partitions.AlterPartitionReassignmentsResponse,
)
LIST_PARTITION_REASSIGNMENTS: Final = Call(
    _ADMIN,
    "ListPartitionReassignments",
    partitions.ListPartitionReassignmentsRequest,
    partitions.ListPartitionReassignmentsResponse,
)
DESCRIBE_CONFIGS: Final = Call(
    _ADMIN, "DescribeConfigs", configs.DescribeConfigsRequest, configs.DescribeConfigsResponse
)
INCREMENTAL_ALTER_CONFIGS: Final = Call(
    _ADMIN,
    "IncrementalAlterConfigs",
    configs.IncrementalAlterConfigsRequest,
    configs.IncrementalAlterConfigsResponse,
)
DESCRIBE_BROKERS: Final = Call(
    _ADMIN, "DescribeBrokers", brokers.DescribeBrokersRequest, brokers.DescribeBrokersResponse
)
FENCE_BROKER: Final = Call(_ADMIN, "FenceBroker", brokers.FenceBrokerRequest, brokers.BrokerActionResult)
UNFENCE_BROKER: Final = Call(_ADMIN, "UnfenceBroker", brokers.UnfenceBrokerRequest, brokers.BrokerActionResult)
UNREGISTER_BROKER: Final = Call(_ADMIN, "UnregisterBroker", brokers.UnregisterBrokerRequest, brokers.BrokerActionResult)
DESCRIBE_FEATURES: Final = Call(
    _ADMIN, "DescribeFeatures", features.DescribeFeaturesRequest, features.DescribeFeaturesResponse
)
UPDATE_FEATURES: Final = Call(_ADMIN, "UpdateFeatures", features.UpdateFeaturesRequest, features.UpdateFeaturesResponse)
DESCRIBE_CLIENT_QUOTAS: Final = Call(
    _ADMIN, "DescribeClientQuotas", quotas.DescribeClientQuotasRequest, quotas.DescribeClientQuotasResponse
)
ALTER_CLIENT_QUOTAS: Final = Call(
    _ADMIN, "AlterClientQuotas", quotas.AlterClientQuotasRequest, quotas.AlterClientQuotasResponse
)
DESCRIBE_QUORUM: Final = Call(_ADMIN, "DescribeQuorum", values.DescribeQuorumRequest, values.QuorumDescription)
