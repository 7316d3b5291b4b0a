"""A topic whose only partition loses acknowledged records, because its topic allows an unclean election."""

from __future__ import annotations

from kraft.client import Admin, ElectionType, Producer, TopicPartition
from kraft.testing import Cluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from tests.support.waiting import DEADLINE_S, until


class LosingTopic:
    """A topic with replicas on two nodes. The second has only the first records when it becomes leader."""

    def __init__(self, cluster: Cluster, admin: Admin, topic: str, replicas: tuple[int, int]) -> None:
        """Create the topic. Raises Refusal if it exists."""
        self.partition = TopicPartition(topic, 0)
        self._cluster = cluster
        self._admin = admin
        self._first, self._second = replicas
        configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        admin.create_topic(topic, partitions=1, replication_factor=1, configs=configs)
        admin.alter_partition_reassignments({self.partition: list(replicas)})
        until(
            lambda: self.state.replica_nodes == replicas and set(self.state.isr_nodes) == set(replicas),
            lambda: self.state,
        )
        admin.elect_leaders(ElectionType.PREFERRED, [self.partition])
        until(lambda: self.state.leader_id == self._first, lambda: self.state)

    @property
    def state(self) -> DescribeTopicPartitionsResponsePartition:
        (described,) = self._admin.describe_topics([self.partition.topic])
        return described.metadata.partitions[0]

    def write(self, values: list[bytes]) -> None:
        with Producer(self._cluster.bootstrap_servers, acks="all") as producer:
            producer.produce_many(self.partition.topic, values, partition=0).result(DEADLINE_S)

    def write_without_second(self, values: list[bytes]) -> None:
        self._cluster.node(self._second).kill()
        until(lambda: self.state.isr_nodes == (self._first,), lambda: self.state)
        self.write(values)

    def lose(self) -> None:
        """Lose what `write_without_second` wrote. Afterwards both nodes run, and both replicas are in sync."""
        self._cluster.node(self._first).kill()
        self._cluster.node(self._second).start()
        until(lambda: self.state.leader_id == self._second, lambda: self.state)
        self._cluster.start()
        self._cluster.wait_ready()
        until(lambda: len(self.state.isr_nodes) == 2, lambda: self.state)
