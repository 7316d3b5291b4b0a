"""Lone requests go to a real node; here few are sent."""

from __future__ import annotations

import confluent_kafka
import pytest

from benchmarks.lone_record import WARM_UP, latencies_us
from benchmarks.servers import DEADLINE_S, node
from tests.support.closing_server import closing_server

REQUESTS = 20


@pytest.mark.parametrize("acks", [1, -1])
def test_every_request_is_answered_and_its_record_is_in_the_log(acks: int) -> None:
    with node() as server:
        server.topics.make("alone", 1)
        took_us = latencies_us(server.address, "alone", REQUESTS, acks, value_bytes=100)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": server.address, "group.id": "any"})
        partition = confluent_kafka.TopicPartition("alone", 0)
        assert consumer.get_watermark_offsets(partition, timeout=DEADLINE_S) == (0, WARM_UP + REQUESTS)
        consumer.close()
    assert len(took_us) == REQUESTS
    assert all(each > 0 for each in took_us)


def test_a_broker_that_closes_the_connection_is_an_error() -> None:
    with closing_server() as address, pytest.raises(ConnectionError):
        latencies_us(address, "alone", REQUESTS, 1, value_bytes=100)
