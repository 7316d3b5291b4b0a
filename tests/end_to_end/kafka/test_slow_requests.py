"""The worst requests of `slow_requests`, once each: every one is answered, right and within its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.log.format.record_stream import RECORD_BYTES_MAX
from kraft.model.errors import ErrorCode
from kraft.server.handlers.plain_records import FETCHED_RECORDS_MAX
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.list_offsets import ListOffsetsResponse
from tests.soak.slow_request_runs import SlowRequestRuns
from tests.support.kafka import slow_requests
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.slow_requests import CLAIM_MS, EARLY_MS, LIST_OFFSETS_VERSION, MOST_RECORDS

LOOK_UPS = 6
ANSWERS = [(0, CLAIM_MS), (MOST_RECORDS - 1, EARLY_MS + 9)] * (LOOK_UPS // 2)
"""A lie is answered as it was told, from where its batch begins; among true records the first of that time is found."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        SlowRequestRuns(running).prepare()
        yield running


def test_look_ups_by_time_are_answered_on_both_listeners(cluster: Cluster) -> None:
    with slow_requests.stub(cluster.bootstrap_servers) as broker:
        topics = broker.ListOffsets(slow_requests.grpc_list_offsets(LOOK_UPS), timeout=60).topics
    results = [result for topic in topics for result in topic.partitions]
    assert [(result.error_code, (result.offset, result.timestamp)) for result in results] == [
        (0, answer) for answer in ANSWERS
    ]
    with Connection(cluster.kafka_bootstrap_servers) as connection:
        connection.send(slow_requests.list_offsets(LOOK_UPS), LIST_OFFSETS_VERSION)
        frame = connection.frame()
    assert frame is not None
    _, response = decode_response(ListOffsetsResponse, LIST_OFFSETS_VERSION, memoryview(frame))
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    assert [(each.error_code, (each.offset, each.timestamp)) for each in partitions] == [
        (0, answer) for answer in ANSWERS
    ]


@pytest.mark.parametrize("start", [0, MOST_RECORDS // 2 + 1, MOST_RECORDS - 1])
def test_plain_records_come_as_many_as_an_answer_holds_from_inside_a_batch_too(cluster: Cluster, start: int) -> None:
    with slow_requests.stub(cluster.bootstrap_servers) as broker:
        response = broker.FetchRecords(slow_requests.fetch_records(start), timeout=60)
    expected = range(start, min(start + FETCHED_RECORDS_MAX, MOST_RECORDS))
    assert (response.error_code, response.high_watermark) == (0, MOST_RECORDS)
    assert [record.offset for record in response.records] == list(expected)


def test_a_record_that_is_larger_than_any_answer_is_refused_by_name(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("large", 1, 1)
    with slow_requests.stub(cluster.bootstrap_servers) as broker:
        slow_requests.append(broker, "large", slow_requests.batch_of_zeros(RECORD_BYTES_MAX // 3))
        slow_requests.append(broker, "large", slow_requests.batch_of_zeros(RECORD_BYTES_MAX))
        answers = [broker.FetchRecords(slow_requests.fetch_records(at, "large"), timeout=60) for at in (0, 1)]
    assert [len(answer.records) for answer in answers] == [1, 0]
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE]


def test_an_honest_client_produces_and_consumes_meanwhile(cluster: Cluster) -> None:
    attack = SlowRequestRuns(cluster).attack(
        [slow_requests.LIST_OFFSETS, slow_requests.FETCH_RECORDS], look_ups=LOOK_UPS
    )
    attacking = Thread(target=attack.run, args=(2.0,))
    attacking.start()
    with Producer(cluster.bootstrap_servers) as producer, Consumer(cluster.bootstrap_servers) as consumer:
        honest, read = TopicPartition("honest", 0), list[bytes | None]()
        consumer.assign([honest])
        consumer.seek_to_beginning()
        sent = [f"value {number}".encode() for number in range(60)]
        for value in sent:
            producer.send(honest.topic, value).result(30)
        while len(read) < len(sent):
            read += [record.value for record in consumer.poll(30_000)]
    attacking.join(60)
    assert read == sent
    assert len(attack.answered) == 4
    assert not attack.failed
