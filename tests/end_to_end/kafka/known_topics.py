"""A topic that was just created: its creator is answered before every broker has heard of it."""

from __future__ import annotations

from kraft.client import Consumer, TopicPartition
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.kafka.kafka_connection import Connection
from tests.support.waiting import until

_METADATA_VERSION = 9


def until_known(cluster: Cluster, topic: str, partitions: int) -> None:
    """Wait until every broker names all in-sync replicas of the topic, and its leaders lead. Raises TimeoutError.

    Clients that are told of a change too early ask again, but their calls for a single answer do not.
    """
    for server in cluster.kafka_bootstrap_servers.split(","):
        until(lambda: _names_all(server, topic, partitions), f"{server} does not know all of {topic}")  # noqa: B023
    with Consumer(cluster.bootstrap_servers) as consumer:
        consumer.end_offsets([TopicPartition(topic, partition) for partition in range(partitions)])


def _names_all(server: str, topic: str, partitions: int) -> bool:
    with Connection(server) as connection:
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        connection.send(asked, _METADATA_VERSION)
        frame = connection.frame()
    assert frame is not None
    (described,) = decode_response(MetadataResponse, _METADATA_VERSION, frame)[1].topics
    in_sync = [len(each.isr_nodes) == len(each.replica_nodes) > 0 for each in described.partitions]
    return len(in_sync) == partitions and all(in_sync) and all(each.leader_id >= 0 for each in described.partitions)
