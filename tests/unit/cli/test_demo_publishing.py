from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import cast

import pytest

from kraft.cli.demo import flights
from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.publishing import Publisher
from kraft.client import Delivery, Producer, TopicPartition

PARTITION = TopicPartition("flights", 0)


class FakeProducer:
    """Takes everything; what it took is stored when it is flushed, or fails with `failure`."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.values: list[bytes] = []
        self._failure = failure
        self._waiting: list[tuple[Future[Delivery], int]] = []

    def produce_many(self, topic: str, values: list[bytes], keys: list[bytes]) -> Future[Delivery]:
        assert topic == "flights"
        assert len(keys) == len(values)
        self.values += values
        future: Future[Delivery] = Future()
        self._waiting.append((future, len(values)))
        return future

    def flush(self) -> bool:
        for future, records in self._waiting:
            if self._failure is None:
                future.set_result(Delivery(records=records, end_offsets={PARTITION: records}))
            else:
                future.set_exception(self._failure)
        self._waiting.clear()
        return True


def publisher_to(producer: FakeProducer) -> Publisher:
    return Publisher(cast(Producer, producer), "flights")


def test_every_flight_is_sent_and_counted_when_it_is_acknowledged() -> None:
    producer = FakeProducer()
    publisher = publisher_to(producer)
    publisher.send(flights.read(1_200))
    assert publisher.acknowledged == 0
    publisher.settle()
    assert producer.values == [flight.value for flight in flights.read(1_200)]
    assert publisher.acknowledged == 1_200
    assert [chunk.flights for chunk in publisher.acknowledgements] == [500, 500, 200]
    assert {partition for chunk in publisher.acknowledgements for partition in chunk.partitions} == {PARTITION}


def test_sending_goes_on_after_settling() -> None:
    publisher = publisher_to(FakeProducer())
    to_publish: Iterator[flights.Flight] = flights.read(1_000)
    publisher.send([next(to_publish)])
    publisher.settle()
    publisher.send(to_publish)
    publisher.settle()
    assert publisher.acknowledged == 1_000


def test_a_flight_that_is_not_acknowledged_is_reported_when_settling_at_the_latest() -> None:
    publisher = publisher_to(FakeProducer(failure=TimeoutError("nobody answered")))
    publisher.send(flights.read(600))
    with pytest.raises(DemoFailed, match="not acknowledged: nobody answered"):
        publisher.settle()
    with pytest.raises(DemoFailed, match="not acknowledged: nobody answered"):
        publisher.send(flights.read(1))
