"""Table of the Kafka listener's admin APIs, each with the handler that answers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.metadata.image import MetadataImage
from kraft.model.endpoint import Endpoint
from kraft.model.ids import BrokerId
from kraft.server.handlers.broker_handlers import BrokerHandlers
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from kraft.server.kafka_listener.apis.alter_partition_reassignments import AlterPartitionReassignmentsApi
from kraft.server.kafka_listener.apis.describe_cluster import DescribeClusterApi
from kraft.server.kafka_listener.apis.describe_log_dirs import DescribeLogDirsApi
from kraft.server.kafka_listener.apis.describe_quorum import DescribeQuorumApi
from kraft.server.kafka_listener.apis.describe_topic_partitions import DescribeTopicPartitionsApi
from kraft.server.kafka_listener.apis.elect_leaders import ElectLeadersApi
from kraft.server.kafka_listener.apis.list_partition_reassignments import ListPartitionReassignmentsApi
from kraft.server.kafka_listener.apis.unregister_broker import UnregisterBrokerApi
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
    queries, forwarded = handlers.queries, handlers.forwarded
    partitions = forwarded.partition_changes
    describe_cluster = DescribeClusterApi(handlers.metadata.handle, image, listener, broker_id)
    describe_topic_pages = DescribeTopicPartitionsApi(lambda request: describe_topic_partitions(image(), request))
    return {
        ApiKey.ELECT_LEADERS: ElectLeadersApi(partitions.elect_leaders),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsApi(partitions.alter_reassignments),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsApi(queries.list_partition_reassignments),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_pages,
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsApi(handlers.describe_log_directories.handle),
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.DESCRIBE_QUORUM: DescribeQuorumApi(handlers.quorum.describe, voters),
        ApiKey.UNREGISTER_BROKER: UnregisterBrokerApi(forwarded.brokers.unregister),
    }
