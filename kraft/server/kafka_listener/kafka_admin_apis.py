"""What the Kafka listener serves operators: each API beside the handler that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kraft.metadata.image import MetadataImage
from kraft.model.broker_requests import BrokerAddress
from kraft.model.config_requests import ConfigEntry
from kraft.model.ids import BrokerId
from kraft.model.log_directory_requests import (
    AlterReplicaLogDirectoriesRequest,
    DescribeLogDirectoriesRequest,
    LogDirectoryDescription,
    ReplicaDirectoryResult,
)
from kraft.model.producer_requests import DescribeProducersRequest, PartitionProducers
from kraft.rpc.services import AdminHandlers, BrokerHandlers
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from kraft.server.handlers.list_config_resources import list_config_resources
from kraft.server.kafka_listener.apis.alter_client_quotas import AlterClientQuotasApi
from kraft.server.kafka_listener.apis.alter_configs import AlterConfigsApi
from kraft.server.kafka_listener.apis.alter_partition_reassignments import AlterPartitionReassignmentsApi
from kraft.server.kafka_listener.apis.alter_replica_log_dirs import AlterReplicaLogDirsApi
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
    alter_replica_log_directories: Callable[
        [AlterReplicaLogDirectoriesRequest], Awaitable[list[ReplicaDirectoryResult]]
    ]
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
    cluster, partitions = admin.cluster, admin.partitions
    describe_cluster = DescribeClusterApi(broker.metadata, image, listener, broker_id)
    describe_topic_pages = DescribeTopicPartitionsApi(lambda request: describe_topic_partitions(image(), request))
    list_resources = ListConfigResourcesApi(lambda types: list_config_resources(image(), types))
    return {
        ApiKey.CREATE_TOPICS: CreateTopicsApi(admin.create_topics, only_here.configs_in_effect),
        ApiKey.DELETE_TOPICS: DeleteTopicsApi(admin.delete_topics),
        ApiKey.DELETE_RECORDS: DeleteRecordsApi(broker.delete_records),
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsApi(admin.describe_configs),
        ApiKey.ALTER_CONFIGS: AlterConfigsApi(admin.incremental_alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsApi(admin.incremental_alter_configs),
        ApiKey.LIST_CONFIG_RESOURCES: list_resources,
        ApiKey.CREATE_PARTITIONS: CreatePartitionsApi(partitions.create_partitions),
        ApiKey.ELECT_LEADERS: ElectLeadersApi(partitions.elect_leaders),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsApi(partitions.alter_reassignments),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsApi(partitions.list_reassignments),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_pages,
        ApiKey.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsApi(only_here.alter_replica_log_directories),
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsApi(only_here.describe_log_directories),
        ApiKey.DESCRIBE_PRODUCERS: DescribeProducersApi(only_here.describe_producers),
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.DESCRIBE_QUORUM: DescribeQuorumApi(admin.describe_quorum, only_here.voters),
        ApiKey.UNREGISTER_BROKER: UnregisterBrokerApi(cluster.unregister_broker),
        ApiKey.UPDATE_FEATURES: UpdateFeaturesApi(cluster.update_features),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasApi(cluster.describe_client_quotas),
        ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasApi(cluster.alter_client_quotas),
    }
