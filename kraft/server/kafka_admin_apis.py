"""What the Kafka listener serves operators: each API beside the handler that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kraft.metadata.image import MetadataImage
from kraft.model import requests as values
from kraft.model.broker_requests import BrokerAddress
from kraft.model.config_requests import ConfigEntry
from kraft.model.ids import BrokerId
from kraft.model.log_directory_requests import DescribeLogDirectoriesRequest, LogDirectoryDescription
from kraft.model.producer_requests import DescribeProducersRequest, PartitionProducers
from kraft.rpc.services import AdminHandlers, BrokerHandlers
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from kraft.server.handlers.list_config_resources import list_config_resources
from kraft.server.kafka_listener.apis.alter_client_quotas import AlterClientQuotasApi
from kraft.server.kafka_listener.apis.alter_configs import AlterConfigsApi
from kraft.server.kafka_listener.apis.alter_partition_reassignments import AlterPartitionReassignmentsApi
from kraft.server.kafka_listener.apis.create_partitions import CreatePartitionsApi
from kraft.server.kafka_listener.apis.create_topics import CreateTopicsApi
from kraft.server.kafka_listener.apis.delete_records import DeleteRecordsApi
from kraft.server.kafka_listener.apis.delete_topics import DeleteTopicsApi
from kraft.server.kafka_listener.apis.describe_client_quotas import DescribeClientQuotasApi
from kraft.server.kafka_listener.apis.describe_cluster import DescribeClusterApi
from kraft.server.kafka_listener.apis.describe_configs import DescribeConfigsApi
from kraft.server.kafka_listener.apis.describe_log_dirs import DescribeLogDirsApi
from kraft.server.kafka_listener.apis.describe_producers import DescribeProducersApi
from kraft.server.kafka_listener.apis.describe_quorum import DescribeQuorumApi
from kraft.server.kafka_listener.apis.describe_topic_partitions import DescribeTopicPartitionsApi
from kraft.server.kafka_listener.apis.elect_leaders import ElectLeadersApi
from kraft.server.kafka_listener.apis.incremental_alter_configs import IncrementalAlterConfigsApi
from kraft.server.kafka_listener.apis.list_config_resources import ListConfigResourcesApi
from kraft.server.kafka_listener.apis.list_partition_reassignments import ListPartitionReassignmentsApi
from kraft.server.kafka_listener.apis.unregister_broker import UnregisterBrokerApi
from kraft.server.kafka_listener.apis.update_features import UpdateFeaturesApi
from kraft.server.kafka_listener.requests import Api
from kraft.wire.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAdminHandlers:
    """What answers operators over Kafka's protocol and not over gRPC."""

    describe_log_directories: Callable[[DescribeLogDirectoriesRequest], list[LogDirectoryDescription]]
    describe_producers: Callable[[DescribeProducersRequest], list[PartitionProducers]]
    configs_in_effect: Callable[[Mapping[str, str]], Sequence[ConfigEntry]]
    """All configs of a topic that sets these itself."""

    voters: Sequence[tuple[int, BrokerAddress]]
    """Where each controller is reached, by node id."""


def kafka_admin_apis(
    broker: BrokerHandlers,
    admin: AdminHandlers,
    only_here: KafkaAdminHandlers,
    *,
    broker_id: BrokerId,
    listener: str,
    image: Callable[[], MetadataImage],
) -> dict[ApiKey, Api]:
    """`broker.metadata` is that of the same listener."""
    return {
        **_topic_apis(broker, admin, only_here, image),
        **_config_apis(admin, image),
        **_partition_apis(admin, only_here),
        **_cluster_apis(broker.metadata, admin, only_here, DescribeClusterApi(broker.metadata, image, listener, broker_id)),
    }
