"""Queries answered from metadata alone: a broker's from what it has applied, a controller's from what is committed."""

from __future__ import annotations

from collections.abc import Callable

from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import list_partition_reassignments
from kraft.model.brokers import DescribeBrokersRequest, DescribeBrokersResponse
from kraft.model.partitions import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kraft.model.topics import DescribeTopicsRequest, DescribeTopicsResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import DESCRIBE_BROKERS, LIST_PARTITION_REASSIGNMENTS
from kraft.rpc.topic_calls import DESCRIBE_TOPICS
from kraft.server.handlers.describe_brokers import describe_brokers
from kraft.server.handlers.describe_topics import describe_topics


class MetadataQueries:
    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    async def describe_topics(self, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
        return await describe_topics(self._image(), request)

    async def describe_brokers(self, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
        return describe_brokers(self._image(), request)

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return list_partition_reassignments(self._image(), request)

    def served(self) -> list[Served]:
        return [
            DESCRIBE_TOPICS.served_by(self.describe_topics),
            DESCRIBE_BROKERS.served_by(self.describe_brokers),
            LIST_PARTITION_REASSIGNMENTS.served_by(self.list_partition_reassignments),
        ]
