"""A small turn of `kafka_restart_runs`, and a node that is stopped under bare sockets of Kafka's protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.soak import kafka_restart_runs
from tests.soak.kafka_restart_runs import Fault
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.kafka_numbered_loads import read_numbers
from tests.support.records import create_topic

DEADLINE_S = 30.0
PRODUCE_VERSION, FETCH_VERSION = 9, 11
ACKNOWLEDGED_BEFORE = 200
UNREAD_BYTES = 8 << 20
SMALL_BUFFER_BYTES = 16 * 1024


@pytest.mark.slow
def test_idempotent_producers_notice_nothing_of_restarts_kills_and_moves_but_pauses() -> None:
    faults = (Fault.RESTART, Fault.MOVE_REPLICA, Fault.KILL_LEADER, Fault.KILL_ALL)
    verdict = kafka_restart_runs.run(faults=faults, seed=1)
    assert verdict.is_exact, str(verdict)
    assert [each.fault for each in verdict.happenings] == list(faults)


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        create_topic(cluster.bootstrap_servers, "numbers", partitions=1, replication_factor=1)
        yield cluster


def produce(value: bytes, acks: int = -1, topic: str = "numbers") -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 1_000, None, value)]))
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )


def fetch_all() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=UNREAD_BYTES)
    topic = FetchTopic(topic="numbers", partitions=(partition,))
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=UNREAD_BYTES, topics=(topic,))


def code_of(frame: bytes | None) -> ErrorCode:
    assert frame is not None, "the connection ended without an answer"
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, frame)
    ((result,),) = [topic.partition_responses for topic in response.responses]
    return ErrorCode(result.error_code)


def test_what_is_under_way_when_a_node_stops_is_answered_and_nothing_else_is_appended(cluster: Cluster) -> None:
    """There is nobody to hand the partition to: it has no leader for the last moments, and producers are told so."""
    server, node = cluster.kafka_bootstrap_servers, cluster.node(1)
    with Connection(server) as connection:

        def send_on() -> None:
            number = 0
            # Without an end of its own: it goes on until the connection is gone.
            with suppress(OSError):
                while True:
                    connection.send(produce(b"%d" % number), PRODUCE_VERSION)
                    number += 1

        sending = threading.Thread(target=send_on, daemon=True)
        sending.start()
        codes: list[ErrorCode] = []
        while (frame := connection.frame()) is not None:
            codes.append(code_of(frame))
            if len(codes) == ACKNOWLEDGED_BEFORE:
                node.request_stop()
    sending.join(DEADLINE_S)
    assert not sending.is_alive()
    node.wait_stopped(DEADLINE_S)

    cluster.start()
    cluster.wait_ready()
    numbers = read_numbers(server, "numbers", 0)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < len(codes), "each that was appended was answered"
    acknowledged = [number for number, code in enumerate(codes) if code is ErrorCode.NONE]
    assert len(acknowledged) >= ACKNOWLEDGED_BEFORE
    assert set(acknowledged) <= set(numbers)
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_node_stops_in_time_though_a_client_reads_nothing_and_takes_no_new_ones(cluster: Cluster) -> None:
    server, node = cluster.kafka_bootstrap_servers, cluster.node(1)
    with Connection(server) as filling, Connection(server, SMALL_BUFFER_BYTES) as unread:
        for _ in range(UNREAD_BYTES >> 19):
            filling.send(produce(bytes(1 << 19)), PRODUCE_VERSION)
            assert code_of(filling.frame()) is ErrorCode.NONE
        for _ in range(4):
            unread.send(fetch_all(), FETCH_VERSION)
        # Raises NodeFailed when it has to be killed.
        node.terminate(DEADLINE_S)
        with pytest.raises(ConnectionRefusedError):
            Connection(server)
        assert filling.frame() is None


def test_a_produce_without_acks_that_fails_costs_its_connection_and_no_other(cluster: Cluster) -> None:
    server = cluster.kafka_bootstrap_servers
    with Connection(server) as other, Connection(server) as connection:
        connection.send(produce(b"0", acks=0), PRODUCE_VERSION)
        connection.send(produce(b"1", acks=1), PRODUCE_VERSION)
        assert code_of(connection.frame()) is ErrorCode.NONE, "of the second: the first has no answer"

        connection.send(produce(b"2", acks=0, topic="nowhere"), PRODUCE_VERSION)
        with suppress(ConnectionResetError):
            assert connection.frame() is None
        # It is committed when it is answered, and so are those before it.
        other.send(produce(b"2", acks=-1), PRODUCE_VERSION)
        assert code_of(other.frame()) is ErrorCode.NONE
    assert read_numbers(server, "numbers", 0) == [0, 1, 2]
