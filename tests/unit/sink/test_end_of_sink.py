"""The end of a sink while the search engine is away: nothing is committed, and nothing fails."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from kraft.client import Consumer, Producer, TopicPartition
from kraft.sink.config import sink_config
from kraft.sink.counts import Counts
from kraft.sink.delivery import Batch, Delivery
from kraft.sink.engine import Engine
from kraft.sink.running import Sink

KEYS = ["bootstrap.servers", "topics", "group.id", "index", "errors.deadletterqueue.topic.name"]
SETTINGS = {**dict.fromkeys(KEYS, "a"), "topics": "b", "connection.url": "http://127.0.0.1:1"}
PLACE = TopicPartition("a", 0)


class LeavingConsumer:
    def __init__(self) -> None:
        self.committed: list[object] = []

    def subscribe(self, *_: object, **callbacks: object) -> None:
        self.callbacks = callbacks

    def commit(self, offsets: object) -> None:
        self.committed.append(offsets)


def test_partitions_are_given_back_although_a_delivery_was_stopped() -> None:
    stop, counts, consumer = threading.Event(), Counts(), LeavingConsumer()
    config = sink_config(SETTINGS)
    delivery = Delivery("a", cast(Producer, None), (1, 60_000), counts, stop)
    with ThreadPoolExecutor(1) as senders:
        sink = Sink(config, cast(Consumer, consumer), delivery, senders, counts)
        sink._progress.added(1, PLACE, 10)
        batch = Batch(number=1, began_s=0.0, documents=[], refused=[])
        stopped: Future[int] = senders.submit(_stopped, delivery, stop)
        sink._in_flight[stopped] = batch, Engine(config.engine)
    revoked = consumer.callbacks["on_revoked"]
    assert callable(revoked)
    revoked([PLACE])
    assert consumer.committed == []


def _stopped(delivery: Delivery, stop: threading.Event) -> int:
    stop.set()
    delivery._pause(1, "the engine is away", 1)
    return 1
