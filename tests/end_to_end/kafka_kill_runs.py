"""`python -m tests.end_to_end.kafka_kill_runs`: kill -9 of a partition's leader under librdkafka's idempotent producer.

An unmodified client of Kafka sends 0, 1, 2, ... to one partition of three replicas. Its leader is killed and started
again, over and over. In the end the partition is read by the same library: each number is there once, in its place.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from types import TracebackType
from typing import Annotated, Final, Self

import confluent_kafka
import typer

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.leader_kill_runs import figures
from tests.end_to_end.records import create_topic
from tests.end_to_end.waiting import until_in_sync

NODES: Final = 3
_TOPIC: Final = "led"
_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.02
_ACKNOWLEDGED_AFTERWARDS: Final = 20
_BURST: Final = 20
_BURST_PAUSE_S: Final = 0.01
_VALUE_BYTES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderKill:
    """`gap_s` is the longest time between two acknowledgements around the kill."""

    node_id: int
    gap_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the partition holds, beside what was sent. All numbers were acknowledged."""

    kills: list[LeaderKill]
    sent: int
    read: int
    lost: list[int]
    repeated: list[int]
    is_in_order: bool

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.repeated and self.is_in_order and self.read == self.sent

    def __str__(self) -> str:
        return (
            f"{self.sent:,} sent and acknowledged, {self.read:,} read, {len(self.lost)} lost {self.lost[:5]}, "
            f"{len(self.repeated)} twice {self.repeated[:5]}, {'' if self.is_in_order else 'NOT '}in their order"
        )


class _Load:
    """A context manager: librdkafka's producer with its own retries, fed by a thread with 0, 1, 2, ..."""

    def __init__(self, servers: str) -> None:
        self.sent = 0
        self.errors: Counter[str] = Counter()
        self.acknowledged_at_s: list[float] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "acks": "all",
                # Small batches and several requests under way, so that a kill meets many of them.
                "linger.ms": 1,
                "batch.size": 16_384,
                "message.timeout.ms": int(2 * _DEADLINE_S * 1_000),
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._stopping = threading.Event()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._send_on, name="librdkafka load", daemon=True)

    def check(self) -> None:
        """Raises what went wrong, in the thread or with a record."""
        if self._crash is not None:
            raise self._crash
        assert not self.errors, f"the producer gave up: {dict(self.errors)}"

    def wait_for_acknowledgements(self, count: int, since_s: float) -> None:
        """Until so many came after that moment. Raises TimeoutError."""
        until_s = time.monotonic() + _DEADLINE_S
        while len(self.acknowledged_at_s) < count or self.acknowledged_at_s[-count] < since_s:
            self.check()
            if time.monotonic() > until_s:
                raise TimeoutError(f"nothing was acknowledged within {_DEADLINE_S:.0f} s")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Sends no more; returns when everything is acknowledged. Raises AssertionError."""
        self._stopping.set()
        self._thread.join(_DEADLINE_S)
        left = self._producer.flush(_DEADLINE_S)
        self.check()
        assert left == 0, f"{left} records have no outcome"
        assert len(self.acknowledged_at_s) == self.sent, "a number without an outcome"

    def _send_on(self) -> None:
        try:
            while not self._stopping.is_set():
                for _ in range(_BURST):
                    self._send(b"%d" % self.sent)
                    self.sent += 1
                # The load has a rate, so that a run of many kills ends with a log that can be compared.
                self._producer.poll(_BURST_PAUSE_S)
        except BaseException as error:  # noqa: BLE001  `check` raises it where somebody sees it.
            self._crash = error

    def _send(self, number: bytes) -> None:
        while True:
            try:
                self._producer.produce(_TOPIC, number.ljust(_VALUE_BYTES), partition=0, on_delivery=self._note)
                return
            except BufferError:
                self._producer.poll(_POLL_S)

    def _note(self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged_at_s.append(time.monotonic())
        else:
            self.errors[error.str()] += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(_DEADLINE_S)
        self._producer.purge()


def run(*, times: int, seed: int, tell: Callable[[LeaderKill], None] = lambda _: None) -> Verdict:
    """Raises AssertionError when the producer had to give anything up."""
    chance, kills = Random(seed), list[LeaderKill]()
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=NODES)
        with _Load(cluster.kafka_bootstrap_servers) as load:
            load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, 0)
            for _ in range(times):
                # Kills come at any moment of what the cluster does meanwhile.
                time.sleep(chance.uniform(0.5, 1.5))
                kills.append(_kill_leader(cluster, admin, load))
                tell(kills[-1])
                until_in_sync(admin, _TOPIC, _DEADLINE_S)
            load.stop()
            return _verdict(kills, load.sent, _read(cluster.kafka_bootstrap_servers))


def _kill_leader(cluster: Cluster, admin: Admin, load: _Load) -> LeaderKill:
    (topic,) = admin.describe_topics([_TOPIC])
    leader_id = topic.metadata.partitions[0].leader_id
    before = len(load.acknowledged_at_s)
    cluster.node(leader_id).kill()
    # What was on its way at the kill may arrive right after it, and is not yet the new leader's.
    load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, time.monotonic() + 0.1)
    around = load.acknowledged_at_s[max(0, before - 1) :]
    gap_s = max(later - earlier for earlier, later in pairwise(around))
    cluster.node(leader_id).start()
    cluster.wait_ready(_DEADLINE_S)
    return LeaderKill(node_id=leader_id, gap_s=gap_s)


def _read(servers: str) -> list[int]:
    """The numbers of the partition, by their offsets."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False}
    )
    numbers: list[int] = []
    try:
        partition = confluent_kafka.TopicPartition(_TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=_DEADLINE_S)
        consumer.assign([partition])
        while len(numbers) < end:
            messages = consumer.consume(10_000, 5)
            assert messages, f"only {len(numbers)} of {end} records came"
            for message in messages:
                error = message.error()
                assert error is None, error
                numbers.append(int(message.value() or b""))
    finally:
        consumer.close()
    return numbers


def _verdict(kills: list[LeaderKill], sent: int, numbers: Sequence[int]) -> Verdict:
    found = Counter(numbers)
    return Verdict(
        kills=kills,
        sent=sent,
        read=len(numbers),
        lost=[number for number in range(sent) if number not in found],
        repeated=sorted(number for number, times in found.items() if times > 1),
        is_in_order=list(numbers) == sorted(numbers),
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(times: Annotated[int, typer.Option(min=1)] = 30, seed: int = 1) -> None:
    """Kills the leader of a partition again and again, of three nodes that are brokers and controllers."""

    def tell(kill: LeaderKill) -> None:
        print(f"{time.strftime('%H:%M:%S')} node {kill.node_id}: {kill.gap_s:.2f} s", file=sys.stderr, flush=True)

    verdict = run(times=times, seed=seed, tell=tell)
    print(f"kill -9 of a partition's leader under librdkafka, idempotent, {NODES} nodes, RF {NODES}, seed {seed}")
    print(f"{len(verdict.kills)} kills: {verdict}")
    print(f"the producer waited: {figures([kill.gap_s for kill in verdict.kills])}")
    sys.exit(0 if verdict.is_exact else 1)


if __name__ == "__main__":
    app(prog_name="python -m tests.end_to_end.kafka_kill_runs")
