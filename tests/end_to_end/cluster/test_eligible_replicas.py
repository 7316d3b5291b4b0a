"""Three real nodes die together, and two come back: nothing waits for the third."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kraft.client import Admin
from kraft.testing import Cluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from tests.support.records import create_topic, once_each, publish, read_all

RECORDS = 2_000
WITHIN_S = 90.0
SHORT_SESSIONS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "400"}


def partitions(cluster: Cluster) -> Sequence[DescribeTopicPartitionsResponsePartition]:
    with Admin(cluster.bootstrap_servers) as admin:
        return admin.describe_topics(["orders"])[0].metadata.partitions


def test_two_of_three_nodes_that_come_back_from_a_crash_of_all_lead_everything_and_have_it_all() -> None:
    """The node that stays down may have been the last in every in-sync set."""
    with Cluster(nodes=3, overrides=SHORT_SESSIONS) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=6)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS))
        cluster.kill()
        for node_id in (1, 3):
            cluster.node(node_id).start()
        cluster.wait_ready()
        began = time.monotonic()
        while not all(sorted(each.isr_nodes) == [1, 3] and each.leader_id in (1, 3) for each in partitions(cluster)):
            assert time.monotonic() - began < WITHIN_S, partitions(cluster)
            time.sleep(0.2)
        assert all(not each.eligible_leader_replicas for each in partitions(cluster)), "enough are in sync"
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS, 2 * RECORDS))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(2 * RECORDS)
