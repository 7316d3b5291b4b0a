"""The load of transactions: producers that write small lots of records, each lot a transaction or none.

`python -m benchmarks.transaction_load librdkafka|kraft.client ...` prints one JSON object. All producers are in this
process, each in a thread of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from threading import Barrier
from typing import Annotated, Final, Protocol
from uuid import uuid4

import confluent_kafka
import typer

from benchmarks.kafka_load import DEADLINE_S, VALUE_BYTES, Latencies, run_load
from kraft.client import Delivery
from kraft.client import Producer as KraftProducer

LOT_RECORDS: Final = 100
PARTITIONS: Final = 6
WARM_UP_LOTS: Final = 20
"""Lots of each producer that are not counted, before the others."""

MODULE: Final = "benchmarks.transaction_load"

_VALUE: Final = b"x" * VALUE_BYTES
_PER_PARTITION: Final = tuple(len(range(number, LOT_RECORDS, PARTITIONS)) for number in range(PARTITIONS))


class Client(StrEnum):
    """Client that generates the load."""

    LIBRDKAFKA = "librdkafka"
    KRAFT = "kraft.client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Lots that all producers together wrote."""

    lots: int
    seconds: float
    flush: Latencies
    """From the first record of a lot to the acknowledgement of its last one."""

    commit: Latencies | None
    """The call that commits, after the flush; None without transactions."""

    @property
    def lots_per_s(self) -> float:
        return self.lots / self.seconds


def write(client: Client, servers: str, topic: str, producers: int, lots: int, *, is_transactional: bool) -> Written:
    """Write `lots` with each of the producers, idempotent and with acks=all, after some that are not counted."""
    ends = "transactions" if is_transactional else "none"
    records = producers * lots * LOT_RECORDS
    said = run_load(MODULE, client, servers, topic, str(producers), str(lots), ends, records=records)
    commit = said["commit"]
    return Written(
        lots=said["lots"],
        seconds=said["seconds"],
        flush=Latencies(**said["flush"]),
        commit=None if commit is None else Latencies(**commit),
    )


# --- the process -------------------------------------------------------------------------------------------------


class LotProducer(Protocol):
    """A producer of either client."""

    def begin(self) -> None: ...
    def send(self, partition: int, records: int) -> None: ...
    def flush(self) -> None:
        """Wait until everything sent is acknowledged. Raises SystemExit if it is not."""

    def commit(self) -> None: ...


class Librdkafka:
    def __init__(self, servers: str, topic: str, transactional_id: str | None) -> None:
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        self._topic = topic
        self._failures: list[object] = []
        self._message = {
            "value": _VALUE,
            "callback": lambda error, _: self._failures.append(error) if error is not None else None,
        }
        self._producer = confluent_kafka.Producer(settings)
        if transactional_id is not None:
            self._producer.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, records: int) -> None:
        self._producer.produce_batch(self._topic, [self._message] * records, partition=partition)

    def flush(self) -> None:
        if self._producer.flush(DEADLINE_S) or self._failures:
            raise SystemExit(f"not every record was acknowledged: {self._failures[:1]}")

    def commit(self) -> None:
        self._producer.commit_transaction(DEADLINE_S)


class KraftClient:
    def __init__(self, servers: str, topic: str, transactional_id: str | None) -> None:
        self._topic = topic
        self._sent: list[Future[Delivery]] = []
        self._producer = KraftProducer(servers, transactional_id=transactional_id)
        if transactional_id is not None:
            self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, records: int) -> None:
        self._sent.append(self._producer.produce_many(self._topic, [_VALUE] * records, partition=partition))

    def flush(self) -> None:
        if not self._producer.flush(DEADLINE_S * 1_000):
            raise SystemExit("not every record was acknowledged")
        for sent in self._sent:
            sent.result()
        self._sent.clear()

    def commit(self) -> None:
        self._producer.commit_transaction()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """What one producer took, in seconds: for all lots, and for each."""

    began_s: float
    ended_s: float
    flushes: Sequence[float]
    commits: Sequence[float]


def _write_lots(producer: LotProducer, lots: int, start: Barrier, *, is_transactional: bool) -> _Times:
    flushes, commits, began_s = list[float](), list[float](), 0.0
    for number in range(WARM_UP_LOTS + lots):
        if number == WARM_UP_LOTS:
            start.wait(DEADLINE_S)
            flushes.clear()
            commits.clear()
            began_s = time.perf_counter()
        if is_transactional:
            producer.begin()
        sent_s = time.perf_counter()
        for partition, records in enumerate(_PER_PARTITION):
            producer.send(partition, records)
        producer.flush()
        flushed_s = time.perf_counter()
        flushes.append(flushed_s - sent_s)
        if is_transactional:
            producer.commit()
            commits.append(time.perf_counter() - flushed_s)
    return _Times(began_s=began_s, ended_s=time.perf_counter(), flushes=flushes, commits=commits)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Ends(StrEnum):
    TRANSACTIONS = "transactions"
    NONE = "none"


@app.command()
def write_here(
    client: Annotated[Client, typer.Argument()],
    servers: Annotated[str, typer.Argument()],
    topic: Annotated[str, typer.Argument()],
    producers: Annotated[int, typer.Argument(min=1)],
    lots: Annotated[int, typer.Argument(min=1)],
    ends: Annotated[Ends, typer.Argument()],
) -> None:
    is_transactional, start = ends is Ends.TRANSACTIONS, Barrier(producers)
    ids = [f"benchmark-{uuid4()}" if is_transactional else None for _ in range(producers)]
    kind = Librdkafka if client is Client.LIBRDKAFKA else KraftClient

    def write_one(transactional_id: str | None) -> _Times:
        try:
            producer = kind(servers, topic, transactional_id)
            return _write_lots(producer, lots, start, is_transactional=is_transactional)
        except BaseException:
            # The others would wait for it.
            start.abort()
            raise

    with ThreadPoolExecutor(producers) as threads:
        times = list(threads.map(write_one, ids))
    written = Written(
        lots=producers * lots,
        seconds=max(each.ended_s for each in times) - min(each.began_s for each in times),
        flush=Latencies.of(flush for each in times for flush in each.flushes),
        commit=Latencies.of(commit for each in times for commit in each.commits) if is_transactional else None,
    )
    print(json.dumps(asdict(written)))


if __name__ == "__main__":
    app(prog_name=f"python -m {MODULE}")
