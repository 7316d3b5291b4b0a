"""Which value is which message of the public API."""

from __future__ import annotations

from kraft.model import broker_requests as brokers
from kraft.model import config_requests as configs
from kraft.model import feature_requests as features
from kraft.model import partition_requests as partitions
from kraft.model import quota_requests as quotas
from kraft.model import requests as values
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import admin_pb2, broker_pb2

PRODUCE_REQUEST = Mapping(values.ProduceRequest, broker_pb2.ProduceRequest)
PRODUCE_RESPONSE = Mapping(values.ProduceResponse, broker_pb2.ProduceResponse)
FETCH_REQUEST = Mapping(values.FetchRequest, broker_pb2.FetchRequest)
FETCH_RESPONSE = Mapping(values.FetchResponse, broker_pb2.FetchResponse)
PRODUCE_RECORDS_REQUEST = Mapping(values.ProduceRecordsRequest, broker_pb2.ProduceRecordsRequest)
PRODUCE_RECORDS_RESULT = Mapping(values.ProducePartitionResult, broker_pb2.ProducePartitionResult)
FETCH_RECORDS_REQUEST = Mapping(values.FetchRecordsRequest, broker_pb2.FetchRecordsRequest)
PLAIN_RECORD = Mapping(values.PlainRecord, broker_pb2.PlainRecord)
FETCH_RECORDS_RESPONSE = Mapping(values.FetchRecordsResponse, broker_pb2.FetchRecordsResponse)
METADATA_REQUEST = Mapping(values.MetadataRequest, broker_pb2.MetadataRequest)
METADATA_RESPONSE = Mapping(values.MetadataResponse, broker_pb2.MetadataResponse)
LIST_OFFSETS_REQUEST = Mapping(values.ListOffsetsRequest, broker_pb2.ListOffsetsRequest)
LIST_OFFSETS_RESPONSE = Mapping(values.ListOffsetsResponse, broker_pb2.ListOffsetsResponse)
EPOCH_END_REQUEST = Mapping(values.OffsetForLeaderEpochRequest, broker_pb2.OffsetForLeaderEpochRequest)
EPOCH_END_RESPONSE = Mapping(values.OffsetForLeaderEpochResponse, broker_pb2.OffsetForLeaderEpochResponse)
DELETE_RECORDS_REQUEST = Mapping(values.DeleteRecordsRequest, broker_pb2.DeleteRecordsRequest)
DELETE_RECORDS_RESPONSE = Mapping(values.DeleteRecordsResponse, broker_pb2.DeleteRecordsResponse)
INIT_PRODUCER_ID_RESPONSE = Mapping(values.InitProducerIdResponse, broker_pb2.InitProducerIdResponse)

CREATE_TOPICS_REQUEST = Mapping(values.CreateTopicsRequest, admin_pb2.CreateTopicsRequest)
DESCRIBE_CONFIGS_REQUEST = Mapping(configs.DescribeConfigsRequest, admin_pb2.DescribeConfigsRequest)
DESCRIBE_CONFIGS_RESPONSE = Mapping(configs.DescribeConfigsResponse, admin_pb2.DescribeConfigsResponse)
ALTER_CONFIGS_REQUEST = Mapping(configs.IncrementalAlterConfigsRequest, admin_pb2.IncrementalAlterConfigsRequest)
ALTER_CONFIGS_RESPONSE = Mapping(configs.IncrementalAlterConfigsResponse, admin_pb2.IncrementalAlterConfigsResponse)
DELETE_TOPICS_REQUEST = Mapping(values.DeleteTopicsRequest, admin_pb2.DeleteTopicsRequest)
TOPIC_RESULTS = Mapping(values.TopicResults, admin_pb2.TopicResults)
DESCRIBE_TOPICS_REQUEST = Mapping(values.DescribeTopicsRequest, admin_pb2.DescribeTopicsRequest)
DESCRIBE_TOPICS_RESPONSE = Mapping(values.DescribeTopicsResponse, admin_pb2.DescribeTopicsResponse)
DESCRIBE_BROKERS_REQUEST = Mapping(brokers.DescribeBrokersRequest, admin_pb2.DescribeBrokersRequest)
DESCRIBE_BROKERS_RESPONSE = Mapping(brokers.DescribeBrokersResponse, admin_pb2.DescribeBrokersResponse)
FENCE_BROKER_REQUEST = Mapping(brokers.FenceBrokerRequest, admin_pb2.FenceBrokerRequest)
UNFENCE_BROKER_REQUEST = Mapping(brokers.UnfenceBrokerRequest, admin_pb2.UnfenceBrokerRequest)
UNREGISTER_BROKER_REQUEST = Mapping(brokers.UnregisterBrokerRequest, admin_pb2.UnregisterBrokerRequest)
BROKER_ACTION_RESULT = Mapping(brokers.BrokerActionResult, admin_pb2.BrokerActionResult)
DESCRIBE_FEATURES_RESPONSE = Mapping(features.DescribeFeaturesResponse, admin_pb2.DescribeFeaturesResponse)
UPDATE_FEATURES_REQUEST = Mapping(features.UpdateFeaturesRequest, admin_pb2.UpdateFeaturesRequest)
UPDATE_FEATURES_RESPONSE = Mapping(features.UpdateFeaturesResponse, admin_pb2.UpdateFeaturesResponse)
DESCRIBE_QUOTAS_REQUEST = Mapping(quotas.DescribeClientQuotasRequest, admin_pb2.DescribeClientQuotasRequest)
DESCRIBE_QUOTAS_RESPONSE = Mapping(quotas.DescribeClientQuotasResponse, admin_pb2.DescribeClientQuotasResponse)
ALTER_QUOTAS_REQUEST = Mapping(quotas.AlterClientQuotasRequest, admin_pb2.AlterClientQuotasRequest)
ALTER_QUOTAS_RESPONSE = Mapping(quotas.AlterClientQuotasResponse, admin_pb2.AlterClientQuotasResponse)
CREATE_PARTITIONS_REQUEST = Mapping(partitions.CreatePartitionsRequest, admin_pb2.CreatePartitionsRequest)
ELECT_LEADERS_REQUEST = Mapping(partitions.ElectLeadersRequest, admin_pb2.ElectLeadersRequest)
ELECT_LEADERS_RESPONSE = Mapping(partitions.ElectLeadersResponse, admin_pb2.ElectLeadersResponse)
ALTER_REASSIGNMENTS_REQUEST = Mapping(
    partitions.AlterPartitionReassignmentsRequest, admin_pb2.AlterPartitionReassignmentsRequest
)
ALTER_REASSIGNMENTS_RESPONSE = Mapping(
    partitions.AlterPartitionReassignmentsResponse, admin_pb2.AlterPartitionReassignmentsResponse
)
LIST_REASSIGNMENTS_REQUEST = Mapping(
    partitions.ListPartitionReassignmentsRequest, admin_pb2.ListPartitionReassignmentsRequest
)
LIST_REASSIGNMENTS_RESPONSE = Mapping(
    partitions.ListPartitionReassignmentsResponse, admin_pb2.ListPartitionReassignmentsResponse
)
QUORUM_DESCRIPTION = Mapping(values.QuorumDescription, admin_pb2.QuorumDescription)
