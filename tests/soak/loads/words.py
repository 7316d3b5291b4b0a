"""Words that are written, and the reader of their counts, which checks what it reads while it is written."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.working_thread import WorkingThread

WORDS: Final = 60
_STOP_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.1
_READ_MAX: Final = 500


class Words:
    """Values for a `SteadyProducer`: some words come more often than others."""

    def __init__(self, chance: Random) -> None:
        self.written: Counter[bytes] = Counter()
        self._chance = chance

    def __call__(self, _: int) -> bytes:
        word = b"word-%d" % min(self._chance.randrange(WORDS), self._chance.randrange(WORDS))
        self.written[word] += 1
        return word


class Counts:
    """The count of each word so far. Every word is counted 1, 2, 3 and so on, in one partition."""

    def __init__(self) -> None:
        self.last: Counter[bytes] = Counter()
        self._partitions: dict[bytes, int] = {}

    def add(self, partition: int, word: bytes, count: bytes) -> None:
        """Raises AssertionError for a gap, a repetition, or a word in two partitions."""
        number, before = int.from_bytes(count, "big"), self.last[word]
        assert number == before + 1, f"partition {partition}: count {number} of {word.decode()} after {before}"
        first = self._partitions.setdefault(word, partition)
        assert partition == first, f"{word.decode()} is counted in partitions {first} and {partition}"
        self.last[word] = number


class CountsReader(WorkingThread):
    """Reads committed counts of a topic from its beginning. `check` raises AssertionError."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__("reader of counts", _STOP_DEADLINE_S)
        self.counts = Counts()
        self._topic = topic
        self._partitions = partitions
        self._read_at_s: list[list[float]] = [[] for _ in range(partitions)]
        """When counts were read, by partition."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader of counts",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 1_000,
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 100,
            }
        )

    def longest_pause_s(self, since_s: float) -> float:
        """The longest time between then and now in which a partition had no new count."""
        return max(
            later - earlier
            for read_at_s in self._read_at_s
            for earlier, later in pairwise([since_s, *(each for each in read_at_s if each > since_s), time.monotonic()])
        )

    def _work(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._partitions)])
        while not self._stopping.is_set():
            for message in self._consumer.consume(_READ_MAX, _POLL_S):
                if message.error() is None:
                    self._read(message)
        self._consumer.close()

    def _read(self, message: Message) -> None:
        partition = message.partition()
        assert partition is not None
        self._read_at_s[partition].append(time.monotonic())
        self.counts.add(partition, message.key() or b"", message.value() or b"")
