"""Producers of Kafka's unmodified clients, idempotent, that send 0, 1, 2, ... to partitions of their own.

Each is a context manager with a thread. Acknowledgements are recorded by partition, with their times; `check` raises a
client's error, and the numbers of a partition are compared with the records that are read from it.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Final

import aiokafka
import confluent_kafka
import kafka

from tests.support.working_thread import WorkingThread

DEADLINE_S: Final = 180.0
DELIVERY_MS_MAX: Final = 120_000
_POLL_S: Final = 0.02
_BURST: Final = 5
_BURST_PAUSE_S: Final = 0.02
"""The loads have a rate, so that a long run ends with logs that can be compared, and the nodes keep their share of a
busy machine: those that are starved answer late, which must not make their clients busier.
"""
_VALUE_BYTES: Final = 300
_BATCH_BYTES: Final = 8_192
"""Small batches, so that several requests are in flight once a pause has left more than one batch."""


class NumberedLoad(WorkingThread):
    client: str

    def __init__(self, servers: str, topic: str, partitions: Sequence[int]) -> None:
        super().__init__(self.client, DEADLINE_S)
        self.partitions = tuple(partitions)
        self.sent = dict.fromkeys(partitions, 0)
        self.acknowledged_at_s: dict[int, list[float]] = {partition: [] for partition in partitions}
        self.errors: Counter[str] = Counter()
        self._servers = servers
        self._topic = topic

    # --- for the run ---

    def check(self) -> None:
        """Raise an error of the thread or of a record, if there was one."""
        super().check()
        assert not self.errors, f"{self.client} failed: {dict(self.errors)}"

    def wait_for_acknowledgements(self, count: int, since_s: float) -> None:
        """Wait for that many acknowledgements of each partition since then. Raises TimeoutError and AssertionError."""
        until_s = time.monotonic() + DEADLINE_S
        for partition, times_s in self.acknowledged_at_s.items():
            while len(times_s) < count or times_s[-count] < since_s:
                self.check()
                if time.monotonic() > until_s:
                    raise TimeoutError(
                        f"partition {partition} acknowledged nothing to {self.client} in {DEADLINE_S:g} s"
                    )
                # Polled: another thread records the acknowledgements, without a signal.
                time.sleep(_POLL_S)

    def gap_s(self, begin_s: float) -> float:
        """Return the longest time since then in which a partition had no acknowledgement."""
        gaps_s = []
        for times_s in self.acknowledged_at_s.values():
            around = times_s[max(0, bisect_left(times_s, begin_s) - 1) :]
            gaps_s += [later - max(earlier, begin_s) for earlier, later in pairwise(around)]
        return max(gaps_s, default=0.0)

    def stop(self) -> None:
        """Stop sending; return once everything is acknowledged. Raises AssertionError."""
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.client} does not end"
        self.check()
        for partition, times_s in self.acknowledged_at_s.items():
            assert len(times_s) == self.sent[partition], f"a number of {self.client} is without an outcome"

    # --- for the clients ---

    @abstractmethod
    def _work(self) -> None:
        """Send the next numbers until `_stopping`, then wait for all outcomes."""

    def _next(self, partition: int) -> bytes:
        number = self.sent[partition]
        self.sent[partition] += 1
        return b"%d" % number

    def _note(self, partition: int, error: object) -> None:
        if error is None:
            self.acknowledged_at_s[partition].append(time.monotonic())
        else:
            self.errors[str(error)] += 1


class LibrdkafkaLoad(NumberedLoad):
    """Batches of two, several of each partition in flight, and never more records than librdkafka may send.

    An idempotent librdkafka counts records where Kafka counts batches: while 5 records of a partition are unanswered it
    sends no more of it. If another one is queued then, and has lingered, librdkafka's thread polls without waiting
    until an answer comes, whatever its settings, and so takes the processor from the nodes that are to answer.
    """

    client = "librdkafka"
    unanswered_max: ClassVar[float] = 5
    """Of each partition."""

    pause_s: ClassVar[float] = _BURST_PAUSE_S
    settings: ClassVar[Mapping[str, Any]] = {
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.num.messages": 2,
        "message.timeout.ms": DELIVERY_MS_MAX,
        "reconnect.backoff.max.ms": 500,
    }

    def _work(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._servers, **self.settings})
        try:
            while not self._stopping.is_set():
                until_s = time.monotonic() + self.pause_s
                for partition in self.partitions:
                    for _ in range(_BURST):
                        if self.sent[partition] - len(self.acknowledged_at_s[partition]) < self.unanswered_max:
                            self._send(producer, partition)
                # A poll ends with the first outcome.
                while (left_s := until_s - time.monotonic()) > 0:
                    producer.poll(left_s)
            producer.flush(DEADLINE_S)
        finally:
            producer.purge()

    def _send(self, producer: confluent_kafka.Producer, partition: int) -> None:
        value = self._next(partition).ljust(_VALUE_BYTES)
        while True:
            try:
                producer.produce(
                    self._topic,
                    value,
                    partition=partition,
                    on_delivery=lambda error, _: self._note(partition, error),
                )
                return
            except BufferError:
                producer.poll(_POLL_S)


class DefaultLibrdkafkaLoad(LibrdkafkaLoad):
    """A load with librdkafka's own defaults, so not idempotent: records that are sent again may be stored twice."""

    client = "librdkafka with its defaults"
    unanswered_max = inf
    settings: ClassVar[Mapping[str, Any]] = {}


class KafkaPythonLoad(NumberedLoad):
    client = "kafka-python"

    def _work(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._servers.split(","),
            enable_idempotence=True,
            linger_ms=5,
            batch_size=_BATCH_BYTES,
            delivery_timeout_ms=DELIVERY_MS_MAX,
            reconnect_backoff_max_ms=500,
        )
        try:
            while not self._stopping.wait(_BURST_PAUSE_S):
                for partition in self.partitions:
                    for _ in range(_BURST):
                        self._send(producer, partition)
            producer.flush(timeout=DEADLINE_S)
        finally:
            producer.close(timeout=0)

    def _send(self, producer: kafka.KafkaProducer, partition: int) -> None:
        sent = producer.send(self._topic, self._next(partition).ljust(_VALUE_BYTES), partition=partition)
        sent.add_callback(lambda _: self._note(partition, None))
        sent.add_errback(lambda error: self._note(partition, repr(error)))


class AiokafkaLoad(NumberedLoad):
    client = "aiokafka"

    def _work(self) -> None:
        asyncio.run(self._send_on())

    async def _send_on(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._servers,
            enable_idempotence=True,
            linger_ms=5,
            max_batch_size=_BATCH_BYTES,
        )
        async with producer:
            while not self._stopping.is_set():
                for partition in self.partitions:
                    for _ in range(_BURST):
                        await self._send(producer, partition)
                await asyncio.sleep(_BURST_PAUSE_S)
            await asyncio.wait_for(producer.flush(), DEADLINE_S)

    async def _send(self, producer: aiokafka.AIOKafkaProducer, partition: int) -> None:
        sent = await producer.send(self._topic, self._next(partition).ljust(_VALUE_BYTES), partition=partition)

        def note(done: asyncio.Future[Any]) -> None:
            self._note(partition, "cancelled" if done.cancelled() else done.exception())

        sent.add_done_callback(note)


LOADS: Final[tuple[type[NumberedLoad], ...]] = (LibrdkafkaLoad, KafkaPythonLoad, AiokafkaLoad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The numbers in a partition, compared with those that one client sent; all of those were acknowledged."""

    client: str
    partition: int
    sent: int
    read: int
    lost: list[int]
    repeated: list[int]
    is_in_order: bool

    @property
    def is_complete(self) -> bool:
        """The numbers that are there more than once."""
        return not self.lost

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.repeated and self.is_in_order and self.read == self.sent

    def __str__(self) -> str:
        return (
            f"{self.client}, partition {self.partition}: {self.sent:,} acknowledged, {self.read:,} read, "
            f"{len(self.lost)} lost {self.lost[:5]}, {len(self.repeated)} twice {self.repeated[:5]}, "
            f"{'' if self.is_in_order else 'NOT '}in their order"
        )


def compare(client: str, partition: int, sent: int, numbers: Sequence[int]) -> Comparison:
    found = Counter(numbers)
    return Comparison(
        client=client,
        partition=partition,
        sent=sent,
        read=len(numbers),
        lost=[number for number in range(sent) if number not in found],
        repeated=sorted(number for number, times in found.items() if times > 1),
        is_in_order=list(numbers) == sorted(numbers),
    )


def read_numbers(servers: str, topic: str, partition: int) -> list[int]:
    """Read a partition's numbers in the order of their offsets. Raises AssertionError if some do not arrive."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False}
    )
    numbers: list[int] = []
    try:
        place = confluent_kafka.TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)
        consumer.assign([place])
        while len(numbers) < end:
            messages = consumer.consume(min(10_000, end - len(numbers)), DEADLINE_S)
            assert messages, f"only {len(numbers)} of {end} records of partition {partition} came"
            for message in messages:
                error = message.error()
                assert error is None, error
                numbers.append(int(message.value() or b""))
    finally:
        consumer.close()
    return numbers
