"""Pages of topics, and resources that have configs, as a broker of the fake cluster lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model.configs import ConfigResourceType
from kraft.model.errors import ErrorCode
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kraft.wire.schema.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster


class FakeListings:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def describe_topic_partitions(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        """Return a page for each topic, and a cursor at the one after it."""
        names = [topic.name for topic in request.topics]
        first = 0 if request.cursor is None else names.index(request.cursor.topic_name)
        left = names[first + 1 :]
        return DescribeTopicPartitionsResponse(
            topics=(self._cluster.topic_metadata(names[first]),),
            next_cursor=Cursor(topic_name=left[0], partition_index=0) if left else None,
        )

    def list_config_resources(self, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
        (kind,) = request.resource_types
        names = {
            ConfigResourceType.TOPIC: list(self._cluster.topics),
            ConfigResourceType.CLIENT_METRICS: sorted(self._cluster.client_metrics),
        }[ConfigResourceType(kind)]
        resources = [ConfigResource(resource_name=name, resource_type=kind) for name in names]
        return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=tuple(resources))
