"""The process of one Spark session under load: it reads requests from its input, one JSON object a line.

`python -m benchmarks.spark_session SUBJECT`, SUBJECT in JSON, answers each with one line. A process of its own, so that
its tree is all that a subject needs: driver, JVM and Python workers. `benchmarks.spark_processes` starts it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
from msgspec import Struct
from msgspec.json import decode, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS: Final = 2
TRIGGER_ROWS: Final = 20
DEADLINE_S: Final = 240
BARE_FORMAT: Final = "bare"
"""Of the source without a cluster, `benchmarks.bare_source`."""
TRIGGERS_MAX: Final = 90
"""Spark keeps the progress of the last hundred triggers."""


class Subject(Struct, frozen=True, kw_only=True):
    """One connector on one broker."""

    name: str
    format: str
    options: dict[str, str]
    """Of readers and writers: where the broker is."""

    kafka_address: str
    """Of the same broker, for rows that a trigger is to find."""

    jars: tuple[str, ...] = ()
    conf: dict[str, str] = {}
    cores: int = 2


# --- requests and answers ----------------------------------------------------------------------------------------


class Count(Struct, frozen=True, tag=True):
    """Count the records of a topic, unmeasured: a check, and a warm-up."""

    topic: str


class Batch(Struct, frozen=True, tag=True):
    """Read a topic once with `spark.read`, all columns, into the sink `noop`."""

    topic: str


class Stream(Struct, frozen=True, tag=True):
    """Read a topic with `spark.readStream` and Trigger.AvailableNow, into the sink `noop`."""

    topic: str
    trigger_records: int


class Backlog(Struct, frozen=True, tag=True):
    """Read a topic in micro-batches of twenty rows."""

    topic: str


class Arrivals(Struct, frozen=True, tag=True):
    """Give a running stream twenty rows, wait until they are read, and again."""

    topic: str
    count: int


class FirstBatch(Struct, frozen=True, tag=True):
    """Run a stream to the end of its first micro-batch, in a session that has done nothing else."""

    topic: str


class Write(Struct, frozen=True, tag=True):
    """Write records that Spark generates, as a batch."""

    topic: str
    records: int
    value_bytes: int


Request = Count | Batch | Stream | Backlog | Arrivals | FirstBatch | Write


class Done(Struct, frozen=True, tag=True, kw_only=True):
    """A request was carried out. `triggers` are the progress durations in ms of each trigger with twenty rows."""

    seconds: float
    records: int = 0
    triggers: tuple[dict[str, int], ...] = ()


class NotSupported(Struct, frozen=True, tag=True):
    """The connector cannot do this yet."""

    why: str


class Failed(Struct, frozen=True, tag=True):
    why: str


Answer = Done | NotSupported | Failed


# --- the process -------------------------------------------------------------------------------------------------


class Session:
    """A Spark session with the connector of its subject."""

    def __init__(self, subject: Subject, scratch: Path) -> None:
        self._subject = subject
        self._scratch = scratch
        self._checkpoints = 0
        self._spark = self._started()

    def do(self, request: Request) -> Answer:
        match request:
            case Count():
                began_s = time.perf_counter()
                count = self._read(request.topic).count()
                return Done(seconds=time.perf_counter() - began_s, records=count)
            case Batch():
                return _timed(self._read(request.topic).write.format("noop").mode("overwrite").save)
            case Stream():
                options = {"maxOffsetsPerTrigger": str(request.trigger_records)}
                return _timed(lambda: self._run_available(request.topic, options))
            case FirstBatch():
                return _timed(lambda: self._run_available(request.topic, {}))
            case Backlog():
                return self._backlog(request)
            case Arrivals():
                return self._arrivals(request)
            case Write():
                return self._write(request)

    def stop(self) -> None:
        self._spark.stop()

    def _started(self) -> SparkSession:
        from pyspark.sql import SparkSession

        builder = (
            SparkSession.builder.master(f"local[{self._subject.cores}]")
            .appName("kraft-benchmark")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", str(self._scratch))
            .config("spark.sql.warehouse.dir", str(self._scratch / "warehouse"))
        )
        if self._subject.jars:
            builder = builder.config("spark.jars", ",".join(self._subject.jars))
        for key, value in self._subject.conf.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        if self._subject.format == BARE_FORMAT:
            from benchmarks.bare_source import BareSource

            spark.dataSource.register(BareSource)
        return spark

    def _read(self, topic: str) -> DataFrame:
        return self._spark.read.format(self._subject.format).options(**self._subject.options, subscribe=topic).load()

    def _stream(self, topic: str, options: dict[str, str]) -> Any:
        given = {**self._subject.options, "subscribe": topic, "startingOffsets": "earliest", **options}
        frame = self._spark.readStream.format(self._subject.format).options(**given).load()
        self._checkpoints += 1
        checkpoint = self._scratch / f"checkpoint-{self._checkpoints}"
        return frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))

    def _run_available(self, topic: str, options: dict[str, str]) -> StreamingQuery:
        query: StreamingQuery = self._stream(topic, options).trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE_S):
            query.stop()
            raise TimeoutError(f"the stream did not end within {DEADLINE_S} s")
        return query

    def _backlog(self, request: Backlog) -> Done:
        began_s = time.perf_counter()
        query = self._run_available(request.topic, {"maxOffsetsPerTrigger": str(TRIGGER_ROWS)})
        return Done(seconds=time.perf_counter() - began_s, triggers=_triggers_of(query))

    def _arrivals(self, request: Arrivals) -> Done:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._subject.kafka_address, "linger.ms": 1})
        query: StreamingQuery = self._stream(request.topic, {"startingOffsets": "latest"}).start()
        try:
            query.processAllAvailable()
            began_s = time.perf_counter()
            for _ in range(request.count):
                for number in range(TRIGGER_ROWS):
                    producer.produce(request.topic, b"x" * 100, partition=number % PARTITIONS)
                if producer.flush(DEADLINE_S):
                    raise TimeoutError(f"rows for a trigger were not acknowledged within {DEADLINE_S} s")
                query.processAllAvailable()
            seconds = time.perf_counter() - began_s
            found = _triggers_of(query)
        finally:
            query.stop()
        return Done(seconds=seconds, triggers=found)

    def _write(self, request: Write) -> Answer:
        frame = self._spark.range(0, request.records, 1, PARTITIONS).selectExpr(
            f"CAST(repeat('x', {request.value_bytes}) AS BINARY) AS value", "CAST(id % 2 AS INT) AS partition"
        )
        writer = frame.write.format(self._subject.format).options(**self._subject.options, topic=request.topic)
        try:
            return _timed(writer.mode("append").save)
        except Exception as error:
            if "not supported yet" in (why := _line(error)):
                return NotSupported(why)
            raise


def _triggers_of(query: StreamingQuery) -> tuple[dict[str, int], ...]:
    return tuple(dict(each["durationMs"]) for each in query.recentProgress if each["numInputRows"] == TRIGGER_ROWS)


def _timed(call: Callable[[], object]) -> Done:
    began_s = time.perf_counter()
    call()
    return Done(seconds=time.perf_counter() - began_s)


def _line(error: BaseException) -> str:
    """Return the line of an error that names its reason. Below a traceback of Spark's workers, it is not indented."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    traceback = next((number for number, line in enumerate(lines) if "Traceback (most recent" in line), len(lines))
    below = (line for line in lines[traceback + 1 :] if not line.startswith((" ", "\t")))
    return next(below, lines[0])


@contextmanager
def _answers() -> Iterator[Callable[[object], None]]:
    """Answers go to the standard output, and whatever Java and the workers print there goes to the errors."""
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)

        def answer(value: object) -> None:
            output.write(encode(value) + b"\n")
            output.flush()

        yield answer


def main() -> None:
    subject = decode(sys.argv[1], type=Subject)
    with _answers() as answer, TemporaryDirectory(prefix="kraft-spark-") as scratch:
        session = Session(subject, Path(scratch))
        answer(Done(seconds=0.0))
        for line in sys.stdin.buffer:
            request: Request = decode(line, type=Request)
            try:
                answer(session.do(request))
            except Exception as error:  # noqa: BLE001 (whatever failed is said to the process that waits)
                print(error, file=sys.stderr)
                answer(Failed(_line(error)))
        session.stop()


if __name__ == "__main__":
    main()
