"""Calls of the public gRPC API for topics, one row each."""

from __future__ import annotations

from typing import Final

from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse
from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.wire.schema.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

CREATE_TOPICS: Final = Call(_ADMIN, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse)
DELETE_TOPICS: Final = Call(_ADMIN, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse)
DESCRIBE_TOPICS: Final = Call(_ADMIN, "DescribeTopics", DescribeTopicsRequest, DescribeTopicsResponse)
DESCRIBE_TOPIC_PARTITIONS: Final = Call(
    _ADMIN, "DescribeTopicPartitions", DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
)
CREATE_PARTITIONS: Final = Call(_ADMIN, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse)
