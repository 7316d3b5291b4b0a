"""The load of one program in Python with one client: records out and in as programs write it, one call for each.

`python -m benchmarks.client_load send|send-many|poll|wait ...` prints one JSON object.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol

import confluent_kafka
import kafka
import typer

from benchmarks.kafka_load import DEADLINE_S, Latencies, run_load
from kraft.client import Consumer as KraftConsumer
from kraft.client import Producer as KraftProducer
from kraft.client import TopicPartition

MODULE: Final = "benchmarks.client_load"
WARM_UP_RECORDS: Final = 20_000
WARM_UP_WAITS: Final = 300

_BATCH_BYTES: Final = 262_144
_LINGER_MS: Final = 5
_LOT_RECORDS: Final = 10_000
"""Records of one call that sends many, and at most of one poll."""

_FIRST_PART: Final = 20
"""Part of a consumer's records that comes before the time starts."""


class Client(StrEnum):
    """Client that generates the load."""

    CONFLUENT = "confluent-kafka"
    KAFKA_PYTHON = "kafka-python"
    KRAFT = "kraft.client"

    @property
    def can_send_many(self) -> bool:
        return self is not Client.KAFKA_PYTHON


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Records that a client exchanged, and the CPU time of its process for that."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of the client, a record."""
        return self.cpu_s / self.records * 1e6


# --- for who measures --------------------------------------------------------------------------------------------


def send(client: Client, servers: str, topic: str, records: int, value_bytes: int) -> Load:
    """Send into partition 0, a call for each record, after some that are not counted."""
    return Load(**run_load(MODULE, "send", client, servers, topic, str(records), str(value_bytes), records=records))


def send_many(client: Client, servers: str, topic: str, records: int, value_bytes: int) -> Load:
    """Send into partition 0, a call for each 10,000 records."""
    return Load(
        **run_load(MODULE, "send-many", client, servers, topic, str(records), str(value_bytes), records=records)
    )


def poll(client: Client, servers: str, topic: str, records: int) -> Load:
    """Consume partition 0 from its beginning, and look at each value. The time starts with the first records."""
    return Load(**run_load(MODULE, "poll", client, servers, topic, str(records), records=records))


def wait(client: Client, servers: str, topic: str, records: int, value_bytes: int) -> Latencies:
    """Send records one after the other: each waits until the one before is acknowledged."""
    return Latencies(
        **run_load(MODULE, "wait", client, servers, topic, str(records), str(value_bytes), records=records)
    )


# --- the clients -------------------------------------------------------------------------------------------------


class Sender(Protocol):
    """A producer with acks=all, idempotent; `failures` has the errors of its records."""

    failures: list[object]

    def send(self, value: bytes) -> None: ...
    def send_many(self, values: Sequence[bytes]) -> None: ...
    def send_and_wait(self, value: bytes) -> None: ...
    def flush(self) -> None: ...


class Confluent:
    def __init__(self, servers: str, topic: str, linger_ms: int) -> None:
        self.failures: list[object] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "batch.size": _BATCH_BYTES,
                "linger.ms": linger_ms,
                "queue.buffering.max.messages": 200_000,
            }
        )

    def send(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.002)
            else:
                self._producer.poll(0)
                return

    def send_many(self, values: Sequence[bytes]) -> None:
        messages = [{"value": value, "callback": self._delivered} for value in values]
        while messages:
            del messages[: self._producer.produce_batch(self._topic, messages, partition=0)]
            self._producer.poll(0.002 if messages else 0)

    def send_and_wait(self, value: bytes) -> None:
        self.send(value)
        self.flush()

    def flush(self) -> None:
        if self._producer.flush(DEADLINE_S):
            raise SystemExit("not every record was acknowledged")

    def _delivered(self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            self.failures.append(error)


class KafkaPython:
    def __init__(self, servers: str, topic: str, linger_ms: int) -> None:
        self.failures: list[object] = []
        self._topic = topic
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=servers.split(","),
            enable_idempotence=True,
            batch_size=_BATCH_BYTES,
            linger_ms=linger_ms,
        )

    def send(self, value: bytes) -> None:
        self._producer.send(self._topic, value, partition=0).add_errback(self.failures.append)

    def send_many(self, values: Sequence[bytes]) -> None:
        raise NotImplementedError("kafka-python sends one record a call")

    def send_and_wait(self, value: bytes) -> None:
        self._producer.send(self._topic, value, partition=0).get(DEADLINE_S)

    def flush(self) -> None:
        self._producer.flush(DEADLINE_S)


class Kraft:
    def __init__(self, servers: str, topic: str, linger_ms: int) -> None:
        self.failures: list[object] = []
        self._topic = topic
        self._producer = KraftProducer(servers, batch_size=_BATCH_BYTES, linger_ms=linger_ms)

    def send(self, value: bytes) -> None:
        self._producer.send(self._topic, value, partition=0).add_done_callback(self._delivered)

    def send_many(self, values: Sequence[bytes]) -> None:
        self._producer.produce_many(self._topic, values, partition=0).add_done_callback(self._delivered)

    def send_and_wait(self, value: bytes) -> None:
        self._producer.send(self._topic, value, partition=0).result(DEADLINE_S)

    def flush(self) -> None:
        if not self._producer.flush(DEADLINE_S * 1_000):
            raise SystemExit("not every record was acknowledged")

    def _delivered(self, future: Future[Any]) -> None:
        if (error := future.exception()) is not None:
            self.failures.append(error)


_SENDERS: Final[dict[Client, Callable[[str, str, int], Sender]]] = {
    Client.CONFLUENT: Confluent,
    Client.KAFKA_PYTHON: KafkaPython,
    Client.KRAFT: Kraft,
}


Values = Generator[list[bytes | None]]


def _confluent_values(servers: str, topic: str) -> Values:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while True:
        messages = consumer.consume(_LOT_RECORDS, 0.1)
        if any(message.error() is not None for message in messages):
            raise SystemExit(f"a record could not be read: {messages[0].error()}")
        yield [message.value() for message in messages]


def _kafka_python_values(servers: str, topic: str) -> Values:
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers.split(","), enable_auto_commit=False)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    while True:
        found = consumer.poll(100, max_records=_LOT_RECORDS)
        yield [record.value for record in found.get(partition, ())]


def _kraft_values(servers: str, topic: str) -> Values:
    with KraftConsumer(servers) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while True:
            yield [record.value for record in consumer.poll(100, max_records=_LOT_RECORDS)]


_VALUES: Final[dict[Client, Callable[[str, str], Values]]] = {
    Client.CONFLUENT: _confluent_values,
    Client.KAFKA_PYTHON: _kafka_python_values,
    Client.KRAFT: _kraft_values,
}

# --- the process -------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Which = Annotated[Client, typer.Argument()]
Servers = Annotated[str, typer.Argument()]
Topic = Annotated[str, typer.Argument()]
Records = Annotated[int, typer.Argument(min=1)]
ValueBytes = Annotated[int, typer.Argument(min=1)]


@contextmanager
def _measured(records: int) -> Iterator[None]:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    yield
    load = Load(records=records, seconds=time.perf_counter() - began_s, cpu_s=time.process_time() - cpu_s)
    print(json.dumps(asdict(load)))


def _flushed(sender: Sender) -> None:
    sender.flush()
    if sender.failures:
        raise SystemExit(f"not every record was acknowledged: {sender.failures[0]}")


@app.command("send")
def send_here(client: Which, servers: Servers, topic: Topic, records: Records, value_bytes: ValueBytes) -> None:
    sender, value = _SENDERS[client](servers, topic, _LINGER_MS), b"x" * value_bytes
    for _ in range(WARM_UP_RECORDS):
        sender.send(value)
    _flushed(sender)
    with _measured(records):
        for _ in range(records):
            sender.send(value)
        _flushed(sender)


@app.command("send-many")
def send_many_here(client: Which, servers: Servers, topic: Topic, records: Records, value_bytes: ValueBytes) -> None:
    sender, value = _SENDERS[client](servers, topic, _LINGER_MS), b"x" * value_bytes
    sender.send_many([value] * WARM_UP_RECORDS)
    _flushed(sender)
    with _measured(records):
        for sent in range(0, records, _LOT_RECORDS):
            sender.send_many([value] * min(_LOT_RECORDS, records - sent))
        _flushed(sender)


@app.command("wait")
def wait_here(client: Which, servers: Servers, topic: Topic, records: Records, value_bytes: ValueBytes) -> None:
    sender, value = _SENDERS[client](servers, topic, 0), b"x" * value_bytes
    latencies_s = []
    for _ in range(WARM_UP_WAITS + records):
        began_s = time.perf_counter()
        sender.send_and_wait(value)
        latencies_s.append(time.perf_counter() - began_s)
    _flushed(sender)
    print(json.dumps(asdict(Latencies.of(latencies_s[WARM_UP_WAITS:]))))


@app.command("poll")
def poll_here(client: Which, servers: Servers, topic: Topic, records: Records) -> None:
    values = _VALUES[client](servers, topic)
    before = _take(values, max(1, records // _FIRST_PART))
    left = records - before
    if left < 1:
        raise SystemExit(f"{records} records are too few: the first poll returned all of them")
    with _measured(left):
        taken = _take(values, left)
    if taken != left:
        raise SystemExit(f"{before + taken} records came of {records}")
    values.close()


def _take(values: Values, records: int) -> int:
    """Take at least so many records. Raises SystemExit if none come for some time."""
    taken, deadline_s = 0, time.monotonic() + DEADLINE_S
    while taken < records:
        found = next(values)
        if found:
            taken += len([value for value in found if value is not None])
            deadline_s = time.monotonic() + DEADLINE_S
        elif time.monotonic() > deadline_s:
            raise SystemExit(f"no more records came after {taken}")
    return taken


if __name__ == "__main__":
    app(prog_name=f"python -m {MODULE}")
