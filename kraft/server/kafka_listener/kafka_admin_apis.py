"""Table of the Kafka listener's admin APIs, each with the handler that answers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.metadata.image import MetadataImage
from kraft.model.endpoint import Endpoint
from kraft.model.ids import BrokerId
from kraft.server.handlers.broker_handlers import BrokerHandlers
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from kraft.server.kafka_listener.apis.describe_cluster import DescribeClusterApi
from kraft.server.kafka_listener.apis.describe_quorum import DescribeQuorumApi
from kraft.server.kafka_listener.apis.describe_topic_partitions import DescribeTopicPartitionsApi
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


def kafka_admin_apis(
    handlers: BrokerHandlers,
    *,
    broker_id: BrokerId,
    listener: str,
    image: Callable[[], MetadataImage],
    voters: Sequence[tuple[int, Endpoint]],
) -> dict[ApiKey, Api]:
    """Return the admin APIs of one listener. `handlers.metadata` belongs to the same listener."""
    describe_cluster = DescribeClusterApi(handlers.metadata.handle, image, listener, broker_id)
    describe_topic_pages = DescribeTopicPartitionsApi(lambda request: describe_topic_partitions(image(), request))
    return {
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_pages,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.DESCRIBE_QUORUM: DescribeQuorumApi(handlers.quorum.describe, voters),
    }
