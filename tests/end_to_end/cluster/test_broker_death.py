"""Partitions whose brokers die: the death is noticed before a session ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import aiokafka
import kafka
import pytest

from kraft.client import Admin, ElectionType, Producer
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.soak import leader_kill_runs
from tests.support.kafka.kafka_connection import Connection
from tests.support.waiting import until

SESSION_S = 300.0
DEADLINE_S = 30.0
"""A tenth of the session, so that nothing within it is an effect of the session's end."""

TOPIC = "orders"
METADATA_VERSION: Final = 12


@pytest.fixture(name="cluster", scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides={"broker.session.timeout.ms": f"{SESSION_S * 1_000:.0f}"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, partitions=3, replication_factor=3)
        yield cluster


@pytest.fixture(name="admin")
def _admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def leaders(admin: Admin) -> list[int]:
    (topic,) = admin.describe_topics([TOPIC])
    return [partition.leader_id for partition in topic.metadata.partitions]


def all_in_sync(admin: Admin) -> bool:
    (topic,) = admin.describe_topics([TOPIC])
    return all(len(partition.isr_nodes) == 3 for partition in topic.metadata.partitions)


@pytest.mark.parametrize("is_controller", [False, True])
def test_what_a_killed_process_led_is_led_by_others_long_before_its_session_ends(
    cluster: Cluster, admin: Admin, is_controller: bool
) -> None:
    until(lambda: all_in_sync(admin) and len(set(leaders(admin))) == 3, "no even start")
    controller_id = admin.describe_quorum().leader_id
    killed = controller_id if is_controller else controller_id % 3 + 1
    assert killed in leaders(admin)
    cluster.node(killed).kill()
    until(lambda: not {killed, -1} & set(leaders(admin)), f"broker {killed} still leads")
    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        for partition in range(3):
            producer.send(TOPIC, b"x", partition=partition).result(timeout=DEADLINE_S)
    assert next(each for each in admin.describe_brokers() if each.broker_id == killed).fenced
    cluster.node(killed).start()
    cluster.wait_ready(DEADLINE_S)
    until(lambda: all_in_sync(admin), "the new process of the broker is not in sync")
    # Otherwise the broker would lead nothing in the next turn.
    admin.elect_leaders(ElectionType.PREFERRED)
    until(lambda: len(set(leaders(admin))) == 3, "leaders are not even again")


def brokers_listed(server: str) -> set[int]:
    """Return the brokers that Kafka's clients see in a request about one topic."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)
    with Connection(server) as connection:
        connection.send(request, METADATA_VERSION)
        _, response = decode_response(MetadataResponse, METADATA_VERSION, connection.frame() or b"")
    return {each.node_id for each in response.brokers}


def brokers_described(server: str) -> set[int]:
    """Return the brokers that Kafka's admin tools see."""
    with Connection(server) as connection:
        connection.send(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
        _, response = decode_response(DescribeClusterResponse, 0, connection.frame() or b"")
    return {each.broker_id for each in response.brokers}


@pytest.mark.slow
def test_kafkas_clients_find_a_dead_broker_listed_for_a_while_and_work_all_the_same(
    cluster: Cluster, admin: Admin
) -> None:
    until(lambda: all_in_sync(admin) and len(set(leaders(admin))) == 3, "no even start")
    killed = admin.describe_quorum().leader_id % 3 + 1
    servers = cluster.kafka_bootstrap_servers
    others = [server for each, server in enumerate(servers.split(","), start=1) if each != killed]
    cluster.node(killed).kill()
    until(lambda: not {killed, -1} & set(leaders(admin)), f"broker {killed} still leads")
    until(lambda: not any(killed in brokers_described(server) for server in others), f"broker {killed} is not fenced")
    assert [brokers_listed(server) for server in others] == [{1, 2, 3}] * 2

    with closing(kafka.KafkaProducer(bootstrap_servers=servers.split(","))) as producer:
        for partition in range(3):
            producer.send(TOPIC, b"kafka-python", partition=partition).get(DEADLINE_S)
    asyncio.run(send_by_aiokafka(servers))

    until(lambda: all(killed not in brokers_listed(server) for server in others), f"broker {killed} is still listed")
    cluster.node(killed).start()
    cluster.wait_ready(DEADLINE_S)
    until(lambda: all_in_sync(admin), "the new process of the broker is not in sync")
    admin.elect_leaders(ElectionType.PREFERRED)


async def send_by_aiokafka(servers: str) -> None:
    async with asyncio.timeout(DEADLINE_S), aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for partition in range(3):
            await producer.send_and_wait(TOPIC, b"aiokafka", partition=partition)


@pytest.mark.slow
def test_the_command_that_measures_how_long_a_producer_waits_takes_a_turn() -> None:
    ends = list(leader_kill_runs.End)
    found = leader_kill_runs.run(times=len(ends), seed=1, ends=ends)
    assert [each.end for each in found] == ends
    assert all(0 < each.gap_s < DEADLINE_S for each in found)
