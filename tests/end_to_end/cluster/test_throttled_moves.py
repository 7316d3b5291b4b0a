"""A replica moves at a limited rate while its brokers are killed: nothing is lost, and it joins when it has all."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import pytest

from kraft.client import Admin, NewTopic, TopicPartition
from kraft.testing import Cluster
from tests.support.kafka.kafka_numbered_loads import LibrdkafkaLoad, compare, read_numbers
from tests.support.waiting import until

TOPIC: Final = "moved"
MOVED: Final = TopicPartition(TOPIC, 0)
RATE: Final = 256 << 10
FETCH_BYTES: Final = 1 << 20
"""So much may pass at once."""
LARGE: Final = 1_000
LARGE_BYTES: Final = 30_000
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class LargeFirst(LibrdkafkaLoad):
    """The first numbers take two minutes at the rate, later ones a small part of it."""

    pause_s = 0.002
    """The first ones are sent as fast as they are acknowledged."""

    def _next(self, partition: int) -> bytes:
        return super()._next(partition).ljust(LARGE_BYTES if self.sent[partition] < LARGE else 0)


def copied_bytes(cluster: Cluster) -> int:
    return sum(path.stat().st_size for path in cluster.directory.glob(f"node-3/**/{TOPIC}-0/*.log"))


def has_more_than(cluster: Cluster, size_bytes: int) -> bool:
    return copied_bytes(cluster) > size_bytes


def in_sync(admin: Admin) -> set[int]:
    (described,) = admin.describe_topics([TOPIC])
    return set(described.metadata.partitions[0].isr_nodes)


@pytest.mark.slow
def test_a_throttled_move_survives_kill_9_of_both_brokers_and_ends_at_another_rate() -> None:
    settings = {"replica.lag.time.max.ms": "3000", "auto.leader.rebalance.enable": "false"}
    with Cluster(3, overrides=settings) as cluster, Admin(cluster.bootstrap_servers) as admin:
        names = {"leader.replication.throttled.replicas": "0:1,0:2", "follower.replication.throttled.replicas": "*"}
        admin.alter_broker_configs(None, dict.fromkeys(RATES, "0"))
        admin.create_topics([NewTopic(topic=TOPIC, assignments=[[1, 2]], configs=names)])
        with LargeFirst(cluster.kafka_bootstrap_servers, TOPIC, [0]) as load:
            # The follower in sync is not throttled.
            load.wait_for_acknowledgements(LARGE + 50, 0)
            assert admin.alter_partition_reassignments({MOVED: [1, 3]}) == {MOVED: None}
            until(lambda: any(cluster.directory.glob(f"node-3/**/{TOPIC}-0/*.log")), "there is a replica")
            load.wait_for_acknowledgements(20, time.monotonic())
            assert copied_bytes(cluster) == 0, "at a rate of 0"
            began_s = time.monotonic()
            admin.alter_broker_configs(None, dict.fromkeys(RATES, str(RATE)))
            until(partial(has_more_than, cluster, 2 * RATE), "the copy begins")
            for victim in (3, 1):
                cluster.node(victim).kill()
                load.wait_for_acknowledgements(20, time.monotonic())
                cluster.node(victim).start()
                cluster.wait_ready()
                before = copied_bytes(cluster)
                until(partial(has_more_than, cluster, before), "the copy goes on")
            # A process that starts, or leads, has the burst of a second again.
            copied, took_s = copied_bytes(cluster), time.monotonic() - began_s
            assert copied <= RATE * (took_s + 3) + FETCH_BYTES, f"{copied} bytes in {took_s:.1f} s"
            assert 3 not in in_sync(admin)
            admin.alter_broker_configs(None, dict.fromkeys(RATES, str(200 * RATE)))
            changed_s = time.monotonic()
            until(lambda: in_sync(admin) == {1, 3}, lambda: in_sync(admin))
            assert time.monotonic() - changed_s < 15
            load.wait_for_acknowledgements(20, time.monotonic())
            load.stop()
        numbers = read_numbers(cluster.kafka_bootstrap_servers, TOPIC, 0)
        found = compare(load.client, 0, load.sent[0], numbers)
        assert found.is_exact, str(found)
