"""A fourth broker joins three that hold topics: what is placed on it, and what is not moved by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.client import Admin, BrokerDescription, TopicPartition
from kraft.testing import Cluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until, until_every_broker_knows, until_in_sync

NEW = 4
RECORDS = 2_000
SETTINGS = {"leader.imbalance.check.interval.seconds": "1", "broker.session.timeout.ms": "2000"}


def described(admin: Admin) -> BrokerDescription:
    (broker,) = admin.describe_brokers([NEW])
    return broker


def partitions(admin: Admin, topic: str) -> Sequence[DescribeTopicPartitionsResponsePartition]:
    (found,) = admin.describe_topics([topic])
    return found.metadata.partitions


def held(cluster: Cluster) -> set[str]:
    """Names of the directories of partitions that the new broker has on disk."""
    return {path.parent.name for path in cluster.directory.glob(f"node-{NEW}/*/*.log")}


@pytest.mark.slow
def test_a_new_broker_stays_empty_until_topics_are_created_or_partitions_are_moved_to_it() -> None:
    with Cluster(nodes=4, overrides=SETTINGS) as cluster, Admin(cluster.bootstrap_servers) as admin:
        cluster.node(NEW).kill()
        until(lambda: described(admin).fenced, "the broker that is to be new has not left")
        admin.unregister_broker(NEW)
        assert [broker.broker_id for broker in admin.describe_brokers()] == [1, 2, 3]
        create_topic(cluster.bootstrap_servers, "before", partitions=6)
        publish(cluster.bootstrap_servers, "before", range(RECORDS))

        cluster.node(NEW).start()
        cluster.wait_ready()
        until(lambda: not described(admin).fenced, "the new broker is not put into service")
        # Leaders die, are elected and move back while records are produced; none of this may move replicas to it.
        cluster.node(1).kill()
        publish(cluster.bootstrap_servers, "before", range(RECORDS, 2 * RECORDS))
        cluster.node(1).start()
        cluster.wait_ready()
        until_in_sync(admin, "before")
        until(
            lambda: all(each.leader_id == each.replica_nodes[0] for each in partitions(admin, "before")),
            lambda: partitions(admin, "before"),
        )
        assert all(sorted(each.replica_nodes) == [1, 2, 3] for each in partitions(admin, "before"))
        empty = described(admin)
        assert (empty.replicas, empty.leaders, held(cluster)) == (0, 0, set())

        create_topic(cluster.bootstrap_servers, "after", partitions=4)
        # The broker that created it need not be the one that is asked.
        until_every_broker_knows(cluster.bootstrap_servers, "after")
        # Each of the four brokers leads one; how many it follows depends on where the placement begins.
        assert described(admin).leaders == 1
        given = {f"after-{each.partition_index}" for each in partitions(admin, "after") if NEW in each.replica_nodes}
        until(lambda: held(cluster) == given, lambda: held(cluster))

        moved = TopicPartition("before", 2)
        assert admin.alter_partition_reassignments({moved: [NEW, 1, 2]}) == {moved: None}
        until(lambda: admin.list_partition_reassignments() == {}, admin.list_partition_reassignments)
        assert held(cluster) == {*given, "before-2"}
        assert read_all(cluster.bootstrap_servers, "before") == once_each(2 * RECORDS)
