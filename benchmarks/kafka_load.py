"""The load on a broker of Kafka's protocol: librdkafka, as a process of its own, so that only the broker differs.

`python -m benchmarks.kafka_load produce|consume|ping` prints one JSON object. `transaction_load.py` is another such
process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import confluent_kafka
import typer

VALUE_BYTES: Final = 1_024
DEADLINE_S: Final = 120
"""Longest time without any progress, and part of the deadline of a whole load."""

RECORDS_PER_S_MIN: Final = 100
"""Rate below which a load fails."""

MODULE: Final = "benchmarks.kafka_load"
PING_RATE_HZ: Final = 1_000

_CALL_RECORDS: Final = 10_000
"""Handed over or taken in one call: librdkafka is the load, not Python's loop around it."""

_FIRST_PART: Final = 50
"""Part of a consumer's records that comes before the time starts."""

WARM_UP_RECORDS: Final = 50_000
_WARM_UP_PINGS: Final = 500

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class LoadFailed(Exception):
    """The process of a load failed, or did not end in time."""


class Isolation(StrEnum):
    """`isolation.level` of a consumer."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Rate of records in one direction."""

    records: int
    seconds: float
    cpu_s: float
    """Of the load, in that time."""
    began_s: float
    """On the clock that all processes of the machine share."""
    all_records: int
    """With those before that time."""

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def load_us(self) -> float:
        """CPU time of the load, a record."""
        return self.cpu_s / self.records * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """How long something took, such as from the call of produce() to the acknowledgement."""

    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, latencies_s: Iterable[float]) -> Latencies:
        found_ms = sorted(latency_s * 1_000 for latency_s in latencies_s)
        return cls(p50_ms=found_ms[len(found_ms) // 2], p99_ms=found_ms[int(len(found_ms) * 0.99)], max_ms=found_ms[-1])


# --- for who measures --------------------------------------------------------------------------------------------


def produce(servers: str, topic: str, records: int, batch_bytes: int, acks: int = 1, partition: int = 0) -> Flow:
    """Produce into one partition, after some records that are not counted."""
    return produced_by((MODULE, "produce"), servers, topic, records, batch_bytes, acks, partition)


def consume(
    servers: str, topic: str, records: int, partitions: int = 1, isolation: Isolation = Isolation.READ_COMMITTED
) -> Flow:
    """Consume the partitions from their beginning. The time starts with the first records."""
    said = run_load(MODULE, "consume", servers, topic, str(records), str(partitions), isolation, records=records)
    return Flow(**said)


def ping(servers: str, topic: str, records: int, acks: int = 1) -> Latencies:
    """1,000 records a second, each sent at once."""
    return Latencies(**run_load(MODULE, "ping", servers, topic, str(records), "--acks", str(acks), records=records))


def produced_by(
    load: Sequence[str], servers: str, topic: str, records: int, batch_bytes: int, acks: int, partition: int
) -> Flow:
    """Produce with the process of a load that takes these arguments."""
    place = (servers, topic, str(records), str(batch_bytes))
    options = ("--acks", str(acks), "--partition", str(partition))
    return Flow(**run_load(*load, *place, *options, records=records))


def load_deadline_s(records: int) -> int:
    """Return the time that a load of so many records may take, with its start and its warm-up."""
    return 2 * DEADLINE_S + records // RECORDS_PER_S_MIN


def run_load(module: str, *arguments: str, records: int) -> dict[str, Any]:
    """Run the process of a load, and return the JSON object that it prints. Raises LoadFailed."""
    command = [sys.executable, "-m", module, *arguments]
    deadline_s = load_deadline_s(records)
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        raise LoadFailed(
            f"{' '.join(arguments)}: the load did not end within {deadline_s} s, though {RECORDS_PER_S_MIN} records a"
            f" second would be fast enough: look for the reason in the server's log, or ask for fewer records"
        ) from None
    if finished.returncode != 0:
        raise LoadFailed(f"{' '.join(arguments)}: the load failed: {finished.stderr.strip()}")
    said: dict[str, Any] = json.loads(finished.stdout)
    return said


# --- the process -------------------------------------------------------------------------------------------------

Servers = Annotated[str, typer.Argument()]
Topic = Annotated[str, typer.Argument()]
Records = Annotated[int, typer.Argument(min=1)]
BatchBytes = Annotated[int, typer.Argument(min=1)]
Acks = Annotated[int, typer.Option(min=-1, max=1)]
Partition = Annotated[int, typer.Option(min=0)]


@contextmanager
def measured(records: int, before: int) -> Iterator[None]:
    """Print the flow of these records, which the block exchanges; `before` came without being measured."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    yield
    ended_s, cpu_s = time.perf_counter(), time.process_time() - cpu_s
    _say(Flow(records=records, seconds=ended_s - began_s, cpu_s=cpu_s, began_s=began_s, all_records=before + records))


@app.command("produce")
def produce_here(
    servers: Servers, topic: Topic, records: Records, batch_bytes: BatchBytes, acks: Acks, partition: Partition
) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "acks": acks,
            "batch.size": batch_bytes,
            "batch.num.messages": 100_000,
            "message.max.bytes": batch_bytes + 100_000,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 1 << 20,
            # None: a record may wait long in the queue of a slow server. Standing still is an error of its own.
            "message.timeout.ms": 0,
            # A call for each record that arrives would cost the load a tenth of its CPU.
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    _send(producer, topic, partition, WARM_UP_RECORDS, failures)
    with measured(records, WARM_UP_RECORDS):
        _send(producer, topic, partition, records, failures)


def _send(
    producer: confluent_kafka.Producer, topic: str, partition: int, records: int, failures: Sequence[object]
) -> None:
    message = {"value": b"x" * VALUE_BYTES}
    sent, left, progress_s = 0, len(producer), time.monotonic()
    while sent < records and not failures:
        messages = [message] * min(_CALL_RECORDS, records - sent)
        taken = producer.produce_batch(topic, messages, partition=partition)
        sent += taken
        # Full: until some are acknowledged.
        producer.poll(0 if taken == len(messages) else 0.002)
        before, left = left, len(producer)
        # What poll returns would count errors of connections, too.
        if taken or left != before:
            progress_s = time.monotonic()
        elif time.monotonic() - progress_s > DEADLINE_S:
            break
    _flush(producer, failures)
    if sent < records:
        raise SystemExit(f"only {sent} of {records} records were taken: is there a partition {partition} of {topic}?")


def _flush(producer: confluent_kafka.Producer, failures: Sequence[object]) -> None:
    """Wait until every record is acknowledged. Raises SystemExit if one is refused, or none for some time."""
    left = len(producer)
    while left and not failures:
        before, left = left, producer.flush(DEADLINE_S)
        if left == before:
            raise SystemExit(f"{left} records were not acknowledged: none for {DEADLINE_S} s")
    if failures:
        raise SystemExit(f"not every record was acknowledged: {failures[0]}")


@app.command("consume")
def consume_here(
    servers: Servers,
    topic: Topic,
    records: Records,
    partitions: Annotated[int, typer.Argument(min=1)],
    isolation: Annotated[Isolation, typer.Argument()],
) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            # As much as it takes ahead, so that it never waits for its own queue to be emptied.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)])
    read = len(_take(consumer, max(1, records // _FIRST_PART)))
    with measured(records - read, read):
        while read < records:
            read += len(_take(consumer, records - read))
    consumer.close()


def _take(consumer: confluent_kafka.Consumer, records: int) -> list[confluent_kafka.Message]:
    messages = consumer.consume(min(_CALL_RECORDS, records), DEADLINE_S)
    if not messages or messages[0].error() is not None:
        raise SystemExit(f"no more records came: {messages[:1]}")
    return messages


@app.command("ping")
def ping_here(servers: Servers, topic: Topic, records: Records, acks: Acks) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "acks": acks, "linger.ms": 0, "socket.nagle.disable": True}
    )
    latencies_s: list[float] = []
    failures: list[object] = []

    def acknowledged(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error)
        latencies_s.append(message.latency() or 0.0)

    value = b"x" * VALUE_BYTES
    began_s = time.perf_counter()
    for number in range(_WARM_UP_PINGS + records):
        due_s = began_s + number / PING_RATE_HZ
        while (left_s := due_s - time.perf_counter()) > 0:
            producer.poll(left_s)
        producer.produce(topic, value, partition=0, on_delivery=acknowledged)
    _flush(producer, failures)
    _say(Latencies.of(latencies_s[_WARM_UP_PINGS:]))


def _say(figures: Flow | Latencies) -> None:
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    app(prog_name=f"python -m {MODULE}")
