"""librdkafka's transactional producer after the response to a produce request was lost and its transaction aborted.

It gives the sequences of the unanswered records to other records, under the same epoch. A broker that took those for a
repetition would acknowledge them without storing them, and the next transaction would be committed without its records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from kraft.client import Admin, Consumer, TopicPartition
from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.server.identity import storage
from tests.support.command_line import PROGRAMS
from tests.support.kafka.lossy_proxy import DEADLINE_S, LossyProxy
from tests.support.waiting import until, until_stable

TOPIC = "orders"
ATTEMPT_S = 1.0


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, LossyProxy]]:
    """One node, which sends Kafka's clients to a proxy."""
    with ReservedPorts(3) as (grpc, controller, plain), LossyProxy(("127.0.0.1", plain)) as proxy:
        settings = {
            "listeners": f"GRPC://127.0.0.1:{grpc},CONTROLLER://127.0.0.1:{controller},PLAINTEXT://127.0.0.1:{plain}",
            "advertised.listeners": f"GRPC://127.0.0.1:{grpc},PLAINTEXT://127.0.0.1:{proxy.port}",
        }
        plans = [NodePlan(node_id=1, grpc_port=grpc, controller_port=controller, settings=settings)]
        directory = tmp_path_factory.mktemp("cluster")
        cluster_files.write(directory, plans, storage.random_cluster_id())
        running = LocalCluster(directory, plans, launch=PROGRAMS.launch)
        running.start()
        try:
            running.wait_ready()
            with Admin(running.bootstrap_servers) as admin:
                admin.create_topic(TOPIC, 1, 1)
            yield running, proxy
        finally:
            running.stop()


def transact(producer: Producer, value: bytes) -> int:
    """Write a record in a transaction, as librdkafka's guide says; return how often it had to be aborted."""
    for aborted in range(10):
        try:
            producer.begin_transaction()
            producer.produce(TOPIC, value)
            producer.commit_transaction(DEADLINE_S)
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(DEADLINE_S)
        else:
            return aborted
    raise AssertionError("no transaction succeeded")


def abort(producer: Producer) -> None:
    """Abort the transaction. Each attempt drops what waits, but not a record in flight that is to be sent again."""

    def is_aborted() -> bool:
        try:
            producer.abort_transaction(ATTEMPT_S)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
            return False
        return True

    until(is_aborted, "the transaction is not aborted", DEADLINE_S)


def test_records_with_the_sequences_of_an_aborted_transaction_are_not_taken_for_its_records(
    cluster: tuple[LocalCluster, LossyProxy],
) -> None:
    running, proxy = cluster
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{proxy.port}",
            "transactional.id": "billing",
            "reconnect.backoff.max.ms": 100,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(DEADLINE_S)
    assert transact(producer, b"first") == 0

    proxy.lose_next_answer()
    producer.begin_transaction()
    producer.produce(TOPIC, b"dropped")
    proxy.wait_lost()
    abort(producer)
    proxy.pass_on()

    transact(producer, b"second")
    transact(producer, b"third")
    # A commit is answered once it is decided, which may be before the partition has its marker.
    until_stable(running.bootstrap_servers, [TOPIC])
    with Consumer(running.bootstrap_servers, isolation_level="read_committed") as consumer:
        place = TopicPartition(TOPIC, 0)
        end = consumer.end_offsets([place])[place]
        values = [value for part in consumer.read_columns(place, 0, end) for value in part.columns.values]
    assert values == [b"first", b"second", b"third"]
