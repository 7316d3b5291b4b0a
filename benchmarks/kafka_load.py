"""The load on a broker of Kafka's protocol: librdkafka, as a process of its own, so that only the broker differs.

`python -m benchmarks.kafka_load produce|consume|ping` prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import confluent_kafka
import typer

VALUE_BYTES: Final = 1_024
DEADLINE_S: Final = 120
PING_RATE_HZ: Final = 1_000

_CALL_RECORDS: Final = 10_000
"""Handed over or taken in one call: librdkafka is the load, not Python's loop around it."""

WARM_UP_RECORDS: Final = 50_000
_WARM_UP_PINGS: Final = 500

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Rate of records in one direction."""

    records: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Latency from the call of produce() to the acknowledgement, as librdkafka counts it."""

    p50_ms: float
    p99_ms: float
    max_ms: float


# --- for who measures --------------------------------------------------------------------------------------------


def produce(servers: str, topic: str, records: int, batch_bytes: int) -> Flow:
    """acks=1 into partition 0, after some that are not counted."""
    return Flow(**_run("produce", servers, topic, str(records), str(batch_bytes)))


def consume(servers: str, topic: str, records: int) -> Flow:
    """Consume partition 0 from its beginning. The time starts with the first records."""
    return Flow(**_run("consume", servers, topic, str(records)))


def ping(servers: str, topic: str, records: int) -> Latencies:
    """1,000 records a second, each sent at once, acks=1."""
    return Latencies(**_run("ping", servers, topic, str(records)))


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.kafka_load", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"the load failed: {finished.stderr.strip()}")
    said: dict[str, Any] = json.loads(finished.stdout)
    return said


# --- the process -------------------------------------------------------------------------------------------------

Servers = Annotated[str, typer.Argument()]
Topic = Annotated[str, typer.Argument()]
Records = Annotated[int, typer.Argument(min=1)]


@app.command("produce")
def produce_here(
    servers: Servers, topic: Topic, records: Records, batch_bytes: Annotated[int, typer.Argument()]
) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "acks": 1,
            "batch.size": batch_bytes,
            "batch.num.messages": 100_000,
            "message.max.bytes": batch_bytes + 100_000,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    _send(producer, topic, WARM_UP_RECORDS)
    began_s = time.perf_counter()
    _send(producer, topic, records)
    _say(Flow(records=records, seconds=time.perf_counter() - began_s))


def _send(producer: confluent_kafka.Producer, topic: str, records: int) -> None:
    value = b"x" * VALUE_BYTES
    failures: list[object] = []
    message = {"value": value, "callback": lambda error, _: failures.append(error) if error is not None else None}
    sent = 0
    while sent < records:
        messages = [message] * min(_CALL_RECORDS, records - sent)
        taken = producer.produce_batch(topic, messages, partition=0)
        sent += taken
        # Full: until some are acknowledged.
        producer.poll(0 if taken == len(messages) else 0.002)
    if producer.flush(DEADLINE_S) or failures:
        raise SystemExit(f"not every record was acknowledged: {failures[:1]}")


@app.command("consume")
def consume_here(servers: Servers, topic: Topic, records: Records) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # As much as it takes ahead, so that it never waits for its own queue to be emptied.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    read = len(_take(consumer))
    began_s, before = time.perf_counter(), read
    while read < records:
        read += len(_take(consumer))
    _say(Flow(records=read - before, seconds=time.perf_counter() - began_s))
    consumer.close()


def _take(consumer: confluent_kafka.Consumer) -> list[confluent_kafka.Message]:
    messages = consumer.consume(_CALL_RECORDS, DEADLINE_S)
    if not messages or messages[0].error() is not None:
        raise SystemExit(f"no more records came: {messages[:1]}")
    return messages


@app.command("ping")
def ping_here(servers: Servers, topic: Topic, records: Records) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "acks": 1, "linger.ms": 0, "socket.nagle.disable": True}
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
    if producer.flush(DEADLINE_S) or failures:
        raise SystemExit(f"not every record was acknowledged: {failures[:1]}")
    found_ms = sorted(latency_s * 1_000 for latency_s in latencies_s[_WARM_UP_PINGS:])
    _say(
        Latencies(
            p50_ms=found_ms[len(found_ms) // 2],
            p99_ms=found_ms[int(len(found_ms) * 0.99)],
            max_ms=found_ms[-1],
        )
    )


def _say(figures: Flow | Latencies) -> None:
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.kafka_load")
