"""Producer, Consumer and Admin over a log in memory, with the faults that a test asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from itertools import count

from kraft.client import (
    ConsumerRecord,
    DeliveryTimeout,
    RecordMetadata,
    TimestampType,
    TopicPartition,
    Unreachable,
)


class MemoryCluster:
    """Shared by the clients. Every `lost_answers_every`-th record is stored, and its producer is told of a timeout;
    every `failed_polls_every`-th poll raises Unreachable. With `polls_that_break`, every poll ends in a bug, and the
    cluster has failed as told after so many."""

    def __init__(self, *, lost_answers_every: int = 0, failed_polls_every: int = 0, polls_that_break: int = 0) -> None:
        self.guard = threading.Lock()
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.created: list[tuple[str, int, int, Mapping[str, str]]] = []
        self._sends = count(1)
        self._polls = count(1)
        self._lost_answers_every = lost_answers_every
        self._failed_polls_every = failed_polls_every
        self._polls_that_break = polls_that_break
        self._failed_polls = 0

    @property
    def has_failed_as_told(self) -> bool:
        """Whether the polls that are to raise have raised."""
        least = self._polls_that_break or min(1, self._failed_polls_every)
        return self._failed_polls >= least

    def admin(self, _: str) -> MemoryAdmin:
        return MemoryAdmin(self)

    def producer(self, _: str, **settings: object) -> MemoryProducer:
        assert settings["acks"] == "all"
        return MemoryProducer(self)

    def consumer(self, _: str, **settings: object) -> MemoryConsumer:
        assert settings["auto_offset_reset"] == "none"
        return MemoryConsumer(self)

    def loses_this_answer(self) -> bool:
        return bool(self._lost_answers_every) and next(self._sends) % self._lost_answers_every == 0

    def check_poll(self) -> None:
        with self.guard:
            poll = next(self._polls)
            fails = self._failed_polls_every and poll % self._failed_polls_every == 0
            if self._polls_that_break or fails:
                self._failed_polls += 1
        if self._polls_that_break:
            raise ZeroDivisionError("a bug of the client")
        if fails:
            raise Unreachable("a:1", "closed")


class _Client:
    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_ms: int | None = None) -> None:
        """Nothing is open."""


class MemoryAdmin(_Client):
    def create_topic(self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        self.cluster.created.append((topic, partitions, replicas, configs))


class MemoryProducer(_Client):
    def send(self, topic: str, value: bytes, *, partition: int) -> Future[RecordMetadata]:
        place = TopicPartition(topic, partition)
        future: Future[RecordMetadata] = Future()
        with self.cluster.guard:
            log = self.cluster.logs.setdefault(place, [])
            log.append(value)
            offset = len(log) - 1
            is_lost = self.cluster.loses_this_answer()
        if is_lost:
            future.set_exception(DeliveryTimeout(place, 1, "no answer"))
        else:
            future.set_result(RecordMetadata(topic, partition, offset, 0))
        return future


class MemoryConsumer(_Client):
    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions = dict.fromkeys(partitions, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return {each: len(self.cluster.logs.get(each, [])) for each in partitions}

    def poll(self, _: int) -> list[ConsumerRecord]:
        self.cluster.check_poll()
        time.sleep(0.001)
        records = []
        with self.cluster.guard:
            for place, position in self._positions.items():
                found = self.cluster.logs.get(place, [])[position : position + 10]
                self._positions[place] = position + len(found)
                records += [
                    ConsumerRecord(place.topic, place.partition, offset, 0, TimestampType.CREATE_TIME, None, value, ())
                    for offset, value in enumerate(found, start=position)
                ]
        return records
