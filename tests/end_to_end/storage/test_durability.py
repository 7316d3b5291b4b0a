"""Three real nodes: acknowledged records survive every way of stopping them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from kraft.client import Admin, Producer
from kraft.model.ids import Offset, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.high_watermarks import read_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.testing import Cluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until

RECORDS = 2_000


def partitions(admin: Admin) -> Sequence[DescribeTopicPartitionsResponsePartition]:
    (described,) = admin.describe_topics(["orders"])
    return described.metadata.partitions


def stop_in_order(cluster: Cluster) -> None:
    cluster.stop()


def kill_all(cluster: Cluster) -> None:
    cluster.kill()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [stop_in_order, kill_all])
def test_everything_is_there_after_all_nodes_stopped_and_started(stop: Callable[[Cluster], None]) -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster.bootstrap_servers, "kept", partitions=4)
        create_topic(cluster.bootstrap_servers, "also-kept", partitions=1, replication_factor=1)
        publish(cluster.bootstrap_servers, "kept", range(RECORDS))
        publish(cluster.bootstrap_servers, "also-kept", range(10))
        stop(cluster)
        cluster.start()
        cluster.wait_ready()
        with Admin(cluster.bootstrap_servers) as admin:
            assert admin.list_topics() == ["also-kept", "kept"]
        assert read_all(cluster.bootstrap_servers, "kept") == once_each(RECORDS)
        assert read_all(cluster.bootstrap_servers, "also-kept") == once_each(10)
        publish(cluster.bootstrap_servers, "kept", range(RECORDS, 2 * RECORDS))
        assert read_all(cluster.bootstrap_servers, "kept") == once_each(2 * RECORDS)


def test_a_killed_leader_costs_neither_loss_nor_duplicates() -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=3)
        with Admin(cluster.bootstrap_servers) as admin:
            (described,) = admin.describe_topics(["orders"])
        leader = described.metadata.partitions[0].leader_id
        with Producer(cluster.bootstrap_servers, acks="all", linger_ms=1, batch_size=4_096) as producer:
            sent = []
            for number in range(6_000):
                sent.append(producer.send("orders", b"%d" % number, key=b"%d" % number))
                if number == 3_000:
                    sent[0].result(timeout=30)
                    cluster.node(leader).kill()
            assert producer.flush(timeout_ms=60_000)
            for future in sent:
                future.result(timeout=1)
        expected = [
            (each.replica_nodes, sorted({*each.isr_nodes} - {leader})) for each in described.metadata.partitions
        ]
        with Admin(cluster.bootstrap_servers) as admin:
            until(
                lambda: [(each.replica_nodes, sorted(each.isr_nodes)) for each in partitions(admin)] == expected,
                "the ISR stays",
            )
            assert leader not in [each.leader_id for each in partitions(admin)]
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(6_000)
        cluster.node(leader).start()
        cluster.wait_ready()


def test_a_stopped_node_hands_on_what_it_leads() -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=3)
        cluster.node(1).terminate()
        with Admin(cluster.bootstrap_servers) as admin:
            until(lambda: {each.leader_id for each in partitions(admin)} == {2, 3}, lambda: partitions(admin))
        publish(cluster.bootstrap_servers, "orders", range(100))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(100)


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_leaderships_move_at_a_stop_unless_that_is_switched_off(enabled: str) -> None:
    with Cluster(nodes=3, overrides={"controlled.shutdown.enable": enabled}) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=3)
        with Admin(cluster.bootstrap_servers) as admin:
            cluster.node(1).terminate()
            until(lambda: admin.describe_brokers([1])[0].fenced, "broker 1 is thought to run")
            (stopped,) = admin.describe_brokers([1])
            until(lambda: {each.leader_id for each in partitions(admin)} == {2, 3}, lambda: partitions(admin))
        # In a controlled shutdown the broker reports its stop; otherwise the controller notices that it has ended.
        assert stopped.in_controlled_shutdown == (enabled == "true")
        answer = cluster.node(1).log_path.read_text()
        assert ("controlled shutdown completed" in answer) == (enabled == "true")
        assert "node stopped" in answer


def test_high_watermarks_are_written_down_every_so_often() -> None:
    interval = {"replica.high.watermark.checkpoint.interval.ms": "100"}
    with Cluster(nodes=1, overrides=interval) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        publish(cluster.bootstrap_servers, "orders", range(10))
        until_s = time.monotonic() + 10
        written: dict[TopicPartition, Offset] = {}
        while written != {TopicPartition("orders", 0): 10} and time.monotonic() < until_s:
            time.sleep(0.05)
            written = read_high_watermarks(RealDisk(), as_log_directory(cluster.directory / "node-1"))
        assert written == {TopicPartition("orders", 0): 10}
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(10)


def test_roles_may_be_on_separate_nodes() -> None:
    with Cluster(nodes=4, roles=["controller", "broker", "broker", "broker"]) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=3)
        publish(cluster.bootstrap_servers, "orders", range(1_000))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(1_000)
