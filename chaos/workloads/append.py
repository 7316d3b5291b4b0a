"""Producers append unique, increasing numbers to every partition of a topic, consumers read along, all is noted.

At the end everything is read once more from the beginning, the drain, because a record that was acknowledged must be
there for somebody who comes later.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

from chaos.history import Assign, Drain, OperationType, Poll, Send
from chaos.recorder import Recorder
from chaos.workloads.patience import call_until_answered
from kraft.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    ErrorCode,
    KraftError,
    Producer,
    RecordMetadata,
    Refusal,
    TopicPartition,
    Unreachable,
)

DELIVERY_TIMEOUT_MS: Final = 60_000
_PRODUCER_SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    # Small batches, so that one send is several of them and several are under way at once.
    "batch_size": 1_024,
    "compression_type": "lz4",
    "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
    # A broker that is paused keeps its connections open: only this tells a client to look for the next leader.
    "request_timeout_ms": 2_000,
}
_CONSUMER_SETTINGS: Final[dict[str, Any]] = {
    # Without a reset, an offset that is no longer there is an error that shows.
    "auto_offset_reset": "none",
    "request_timeout_ms": 2_000,
    "max_poll_records": 5_000,
}
_POLL_MS: Final = 500
_PAUSE_AFTER_ERROR_S: Final = 0.2
_CLIENT_ERRORS: Final = (KraftError, Unreachable, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """Size of the workload. Each producer has, for each partition, a lane: a thread and a process of the history."""

    topic: str = "chaos"
    partitions: int = 4
    replication_factor: int = 3
    min_insync_replicas: int = 2
    producers: int = 2
    consumers: int = 2
    values_per_send_max: int = 20
    value_bytes: int = 100
    pause_between_sends_ms: int = 5
    drain_deadline_s: float = 90.0


class AppendWorkload:
    """Started once, stopped once, then drained once."""

    def __init__(
        self,
        bootstrap_servers: str,
        plan: AppendPlan,
        recorder: Recorder,
        seed: int,
        clients: Mapping[str, Any] | None = None,
    ) -> None:
        """`clients` are settings of all clients, as those of a login."""
        self._clients = dict(clients or {})
        self._bootstrap_servers = bootstrap_servers
        self._plan = plan
        self._recorder = recorder
        self._seed = seed
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._producers: list[Producer] = []
        self._guard = threading.Lock()
        self.partitions = [TopicPartition(plan.topic, number) for number in range(plan.partitions)]
        self.keys = [str(partition) for partition in self.partitions]
        self._next_value = {key: count() for key in self.keys}
        self._ends: dict[str, int] = {}
        self.errors: Counter[str] = Counter()
        """Number of errors that clients raised, by kind."""
        self.crashes: list[str] = []
        """Unexpected errors that ended a thread of the workload."""

    def start(self) -> None:
        """Create the topic and start all threads. Raises what keeps the topic from being created."""
        self._create_topic()
        for number in range(1, self._plan.producers + 1):
            producer = Producer(self._bootstrap_servers, **_PRODUCER_SETTINGS, **self._clients)
            self._producers.append(producer)
            for partition in self.partitions:
                name = f"producer-{number}/{partition.partition}"
                self._start_thread(name, partial(self._produce, name, producer, partition))
        for number in range(1, self._plan.consumers + 1):
            mine = self.partitions[number - 1 :: self._plan.consumers]
            name = f"consumer-{number}"
            self._start_thread(name, partial(self._consume, name, mine))

    def stop(self) -> None:
        """Let every operation come to its end, which takes the delivery timeout at most."""
        self._stopping.set()
        deadline = time.monotonic() + DELIVERY_TIMEOUT_MS / 1_000 + 30
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        stuck = [thread.name for thread in self._threads if thread.is_alive()]
        for producer in self._producers:
            producer.close(timeout_ms=0)
        if stuck:
            raise TimeoutError(f"still waiting for the client, long after its deadline: {', '.join(stuck)}")

    # --- producing --------------------------------------------------------------------------------------------

    def _create_topic(self) -> None:
        plan = self._plan
        configs = {"min.insync.replicas": str(plan.min_insync_replicas)}
        with Admin(self._bootstrap_servers, **self._clients) as admin:
            try:
                admin.create_topic(plan.topic, plan.partitions, plan.replication_factor, configs)
            except Refusal as refusal:
                if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def _produce(self, name: str, producer: Producer, partition: TopicPartition) -> None:
        chance = Random(f"{self._seed} {name}")
        life = count(1)
        process = f"{name}#{next(life)}"
        while not self._stopping.is_set():
            values = self._take_values(str(partition), chance.randint(1, self._plan.values_per_send_max))
            if not self._send(process, producer, partition, values):
                process = f"{name}#{next(life)}"
            self._stopping.wait(chance.random() * 2 * self._plan.pause_between_sends_ms / 1_000)

    def _send(self, process: str, producer: Producer, partition: TopicPartition, values: tuple[int, ...]) -> bool:
        """False when the outcome is not known for every value."""
        key = str(partition)
        self._recorder.note(process, OperationType.INVOKE, Send(key=key, values=values))
        futures: list[Future[RecordMetadata]] = []
        try:
            for value in values:
                payload = b"%d " % value
                payload = payload.ljust(self._plan.value_bytes, b".")
                futures.append(producer.send(partition.topic, payload, partition=partition.partition))
        except _CLIENT_ERRORS as error:
            self._count(error)
        deadline = time.monotonic() + DELIVERY_TIMEOUT_MS / 1_000 + 10
        found = [self._outcome(future, deadline) for future in futures]
        found += [None] * (len(values) - len(futures))
        offsets = tuple(None if each is None or each.offset < 0 else each.offset for each in found)
        is_acknowledged = tuple(each is not None for each in found)
        self._note_end(key, offsets)
        if all(is_acknowledged):
            send = Send(key=key, values=values, offsets=offsets)
            self._recorder.note(process, OperationType.OK, send)
            return True
        # Whatever the error says, the record may have been stored by an earlier attempt: nothing here is a `fail`.
        send = Send(key=key, values=values, offsets=offsets, acknowledged=is_acknowledged)
        self._recorder.note(process, OperationType.INFO, send)
        self._stopping.wait(_PAUSE_AFTER_ERROR_S)
        return False

    def _outcome(self, future: Future[RecordMetadata], deadline: float) -> RecordMetadata | None:
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except _CLIENT_ERRORS as error:
            self._count(error)
            return None

    def _take_values(self, key: str, number: int) -> tuple[int, ...]:
        with self._guard:
            return tuple(next(self._next_value[key]) for _ in range(number))

    def _note_end(self, key: str, offsets: tuple[int | None, ...]) -> None:
        end = max((offset + 1 for offset in offsets if offset is not None), default=0)
        with self._guard:
            self._ends[key] = max(end, self._ends.get(key, 0))

    # --- consuming --------------------------------------------------------------------------------------------

    def _consume(self, name: str, partitions: list[TopicPartition]) -> None:
        positions = dict.fromkeys(partitions, 0)
        life = count(1)
        while not self._stopping.is_set():
            process = f"{name}#{next(life)}"
            with self._consumer() as consumer:
                self._assign(process, consumer, positions)
                while not self._stopping.is_set():
                    if not self._poll(process, consumer, positions):
                        self._stopping.wait(_PAUSE_AFTER_ERROR_S)
                        break

    def _consumer(self) -> Consumer:
        return Consumer(self._bootstrap_servers, **_CONSUMER_SETTINGS, **self._clients)

    def _assign(self, process: str, consumer: Consumer, positions: dict[TopicPartition, int]) -> None:
        assign = Assign(keys=tuple(str(partition) for partition in positions))
        self._recorder.note(process, OperationType.INVOKE, assign)
        consumer.assign(positions)
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        self._recorder.note(process, OperationType.OK, assign)

    def _poll(self, process: str, consumer: Consumer, positions: dict[TopicPartition, int]) -> bool:
        """False when the client raised something; then the process is not used again."""
        self._recorder.note(process, OperationType.INVOKE, Poll())
        try:
            records = consumer.poll(_POLL_MS)
        except _CLIENT_ERRORS as error:
            self._count(error)
            self._recorder.note(process, OperationType.INFO, Poll())
            return False
        reads: dict[str, list[tuple[int, int]]] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            reads.setdefault(str(partition), []).append((record.offset, _value_of(record)))
            positions[partition] = record.offset + 1
        poll = Poll(reads={key: tuple(found) for key, found in reads.items()})
        self._recorder.note(process, OperationType.OK, poll)
        return True

    # --- the drain --------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Read everything from the beginning, to the last offset that was ever known or the deadline."""
        deadline = time.monotonic() + self._plan.drain_deadline_s
        positions = dict.fromkeys(self.partitions, 0)
        self._recorder.note("drain", OperationType.INVOKE, Drain())
        ends = self._known_ends(deadline)
        life = count(1)
        while _is_behind(positions, ends) and time.monotonic() < deadline:
            process = f"drain#{next(life)}"
            with self._consumer() as consumer:
                self._assign(process, consumer, positions)
                while _is_behind(positions, ends) and time.monotonic() < deadline:
                    if not self._poll(process, consumer, positions):
                        break
        outcome = OperationType.INFO if _is_behind(positions, ends) else OperationType.OK
        self._recorder.note("drain", outcome, Drain(ends=ends))

    def _known_ends(self, deadline: float) -> dict[str, int]:
        """Behind the last acknowledged offset, or what the brokers say, whichever is further."""
        with self._consumer() as consumer:
            said = call_until_answered(lambda: consumer.end_offsets(self.partitions, timeout_ms=5_000), deadline)
        with self._guard:
            return {str(each): max(said[each], self._ends.get(str(each), 0)) for each in self.partitions}

    # --- inside -----------------------------------------------------------------------------------------------

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001  The report tells it; in a thread, it would only be printed.
                self.crashes.append(f"{name} ended by an error:\n{traceback.format_exc()}")

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _count(self, error: BaseException) -> None:
        with self._guard:
            self.errors[type(error).__name__] += 1


def _value_of(record: ConsumerRecord) -> int:
    assert record.value is not None, f"a record without a value at offset {record.offset}"
    return int(record.value.split(b" ", 1)[0])


def _is_behind(positions: dict[TopicPartition, int], ends: dict[str, int]) -> bool:
    return any(position < ends[str(partition)] for partition, position in positions.items())
