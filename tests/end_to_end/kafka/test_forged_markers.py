"""A stranger on the Kafka listener, who tries to end and to extend the open transaction of a real client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kraft.client import Admin
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.declaration import Message
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.wire.schema.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from kraft.wire.schema.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.end_to_end.kafka.known_topics import until_known
from tests.support.kafka.single_requests import response
from tests.support.waiting import until

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


@pytest.fixture
def producer(cluster: Cluster) -> Producer:
    """A producer with three records of an open transaction."""
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("payments", 2, 1)
    until_known(cluster, "payments", 2)
    producer = Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers, "transactional.id": "payer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(3):
        producer.produce("payments", b"%d" % number, partition=0)
    producer.flush(60)
    return producer


def ask(cluster: Cluster, request: Message, version: int) -> object:
    return response(cluster.kafka_bootstrap_servers, request, version)


def producers(cluster: Cluster) -> tuple[ProducerState, ...]:
    request = DescribeProducersRequest(topics=(TopicRequest(name="payments", partition_indexes=(0,)),))
    found = response(cluster.kafka_bootstrap_servers, request, 0)
    return tuple(found.topics[0].partitions[0].active_producers)


def committed_end(cluster: Cluster) -> int:
    settings = {
        "bootstrap.servers": cluster.kafka_bootstrap_servers,
        "group.id": "reader",
        "isolation.level": "read_committed",
    }
    with closing(Consumer(settings)) as consumer:
        end: int = consumer.get_watermark_offsets(TopicPartition("payments", 0), timeout=60)[1]
        return end


def test_a_stranger_neither_ends_nor_extends_a_transaction(cluster: Cluster, producer: Producer) -> None:
    (before,) = producers(cluster)
    for version in (1, 2):
        for is_commit in (True, False):
            marker = WritableTxnMarker(
                producer_id=before.producer_id,
                producer_epoch=before.producer_epoch,
                transaction_result=is_commit,
                topics=(WritableTxnMarkerTopic(name="payments", partition_indexes=(0,)),),
                coordinator_epoch=9,
            )
            forged = response(cluster.kafka_bootstrap_servers, WriteTxnMarkersRequest(markers=(marker,)), version)
            assert forged.markers[0].topics[0].partitions[0].error_code == REFUSED
    for version in (4, 5):
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="payer",
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            topics=(AddPartitionsToTxnTopic(name="payments", partitions=(1,)),),
        )
        extended = response(
            cluster.kafka_bootstrap_servers, AddPartitionsToTxnRequest(transactions=(transaction,)), version
        )
        assert (extended.error_code, extended.results_by_transaction) == (REFUSED, ())
    assert producers(cluster) == (before,)
    assert committed_end(cluster) == 0
    producer.abort_transaction(60)
    # The three records, and the abort marker.
    until(lambda: committed_end(cluster) == 4, "the owner's abort has not ended the transaction")
    producer.begin_transaction()
    producer.produce("payments", b"kept", partition=0)
    producer.commit_transaction(60)
    until(lambda: committed_end(cluster) == 6, "the owner's commit has not ended the transaction")
