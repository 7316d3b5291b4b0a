"""Leaders that die, and clients that ask for metadata at that moment, or never; and followers that are slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Final

import aiokafka
import confluent_kafka as ck
import pytest

from kraft.client import Admin, ElectionType, TopicPartition
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.single_requests import end_offsets
from tests.support.records import create_topic
from tests.support.waiting import until, until_every_broker_knows, until_in_sync

_NODES: Final = 3
_TOPIC: Final = "led"
_DEADLINE_S: Final = 30.0
_METADATA_VERSION: Final = 9
_KILLS: Final = 3
_SLOW_MS: Final = 300


def _leader(admin: Admin) -> int:
    (topic,) = admin.describe_topics([_TOPIC])
    return topic.metadata.partitions[0].leader_id


def _address(cluster: Cluster, node_id: int) -> str:
    return cluster.kafka_bootstrap_servers.split(",")[node_id - 1]


@pytest.mark.slow
def test_metadata_that_is_asked_before_a_loss_is_noticed_names_no_dead_leader() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=_TOPIC),), allow_auto_topic_creation=False)
    with Cluster(_NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=_NODES)
        for _ in range(_KILLS):
            until_every_broker_knows(cluster.bootstrap_servers, _TOPIC)
            until_in_sync(admin, _TOPIC, _DEADLINE_S)
            dead = _leader(admin)
            asked = next(each for each in range(1, _NODES + 1) if each != dead)
            with Connection(_address(cluster, asked)) as connection:
                # It finds the broken connections and the request at the same moment.
                cluster.node(asked).pause()
                cluster.node(dead).kill()
                connection.send(request, _METADATA_VERSION)
                cluster.node(asked).resume()
                frame = connection.frame()
            assert frame is not None
            _, answer = decode_response(MetadataResponse, _METADATA_VERSION, memoryview(frame))
            assert answer.topics[0].partitions[0].leader_id != dead
            cluster.node(dead).start()
            cluster.wait_ready(_DEADLINE_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(_NODES, overrides={"slow.request.log.ms": str(_SLOW_MS)}) as started:
        create_topic(started.bootstrap_servers, _TOPIC, partitions=1, replication_factor=_NODES)
        yield started


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as opened:
        until_in_sync(opened, _TOPIC, _DEADLINE_S)
        yield opened


def test_a_client_that_repeats_list_offsets_at_a_former_leader_is_disconnected_and_reads_on(
    cluster: Cluster, admin: Admin
) -> None:
    asyncio.run(_seek_after_a_move(cluster, admin))
    assert len(_lines_of(cluster, "ListOffsets was repeated")) == 1


def test_a_produce_that_a_slow_follower_holds_up_is_logged_and_a_fetch_that_waits_for_it_is_not(
    cluster: Cluster, admin: Admin
) -> None:
    servers = {"bootstrap.servers": cluster.kafka_bootstrap_servers, "log_level": 0}
    waiting = {"client.id": "waits", "group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 5_000}
    consumer = ck.Consumer({**servers, **waiting})
    consumer.assign([ck.TopicPartition(_TOPIC, 0, ck.OFFSET_BEGINNING)])
    producer = ck.Producer({**servers, "client.id": "held-up", "acks": "all", "linger.ms": 0})
    producer.produce(_TOPIC, b"at once", partition=0)
    assert producer.flush(_DEADLINE_S) == 0
    # From then on its fetches wait for records.
    _read_until(consumer, b"at once")
    leader = _leader(admin)
    follower = cluster.node(1 + leader % _NODES)
    follower.pause()
    try:
        producer.produce(_TOPIC, b"held up", partition=0)
        assert producer.flush(2 * _SLOW_MS / 1_000) == 1
    finally:
        follower.resume()
    assert producer.flush(_DEADLINE_S) == 0
    _read_until(consumer, b"held up")
    consumer.close()
    slow = [json.loads(line) for line in _lines_of(cluster, '"request answered slowly"')]
    # The first one may be slow, too, on a machine that is busy.
    *_, produce = (each for each in slow if each["client_id"] == "held-up" and each["api"] == "PRODUCE")
    assert not [each for each in slow if each["api"] == "FETCH"]
    assert produce["remote_ms"] >= _SLOW_MS > produce["local_ms"]
    assert (produce["principal"], produce["listener"]) == ("User:ANONYMOUS", "PLAINTEXT")


def _read_until(consumer: ck.Consumer, value: bytes) -> None:
    while True:
        record = consumer.poll(_DEADLINE_S)
        assert record is not None, f"{value!r} was not read"
        if record.value() == value:
            return


def _lines_of(cluster: Cluster, text: str) -> list[str]:
    lines = "".join(each.log_path.read_text() for each in cluster.nodes).splitlines()
    return [line for line in lines if text in line]


async def _seek_after_a_move(cluster: Cluster, admin: Admin) -> None:
    """Let aiokafka find a position at a leader that it does not know of."""
    place = aiokafka.TopicPartition(_TOPIC, 0)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap_servers, group_id=None)
    consumer.assign([place])
    # A fetch would be refused too, and it makes aiokafka refresh its metadata.
    consumer.pause(place)
    async with consumer, asyncio.timeout(_DEADLINE_S):
        await consumer.position(place)
        await asyncio.to_thread(_move_leader, cluster, admin)
        await consumer.seek_to_end(place)
        await consumer.position(place)


def _move_leader(cluster: Cluster, admin: Admin) -> None:
    """Every broker knows the new leader when it returns."""
    before = _leader(admin)
    others = [each for each in range(1, _NODES + 1) if each != before]
    admin.alter_partition_reassignments({TopicPartition(_TOPIC, 0): [*others, before]})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(_TOPIC, 0)])
    until(lambda: _leader(admin) == others[0], "the leader has not moved", _DEADLINE_S)
    servers = cluster.kafka_bootstrap_servers
    until(lambda: end_offsets(servers, _TOPIC, 1) is not None, "a broker does not know the leader", _DEADLINE_S)
