"""`python -m benchmarks.spark`: Spark reads and writes, by the official connector and by ours.

The official connector, a jar, reads from Apache Kafka and from our Kafka listener. Ours does from our nodes, by Spark's
defaults and with Unix sockets between Spark and its Python workers. A source without a cluster shows what Spark takes
for any source in Python.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Annotated, Final, assert_never
from uuid import uuid4

import confluent_kafka
import pyspark
import typer
from rich.console import Console
from rich.progress import Progress

from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import AdminTopics, Server, node
from benchmarks.spark_processes import CannotYet, SessionFailed, SparkProcess, first_batch, spark_process
from benchmarks.spark_session import (
    BARE_FORMAT,
    DEADLINE_S,
    PARTITIONS,
    TRIGGER_ROWS,
    TRIGGERS_MAX,
    Arrivals,
    Backlog,
    Batch,
    Count,
    FirstBatch,
    Request,
    Stream,
    Subject,
    Write,
)
from tests.support.kafka.kafka_broker import kafka_processes
from tests.support.kafka.kafka_jars import fetched_kafka_jars
from tests.support.maven_jars import JarsMissing
from tests.support.spark.official_connector import official_connector, version_of

RECORDS: Final = 4_000_000
RECORDS_MAX: Final = 20_000_000
ROUNDS: Final = 3
WARM_UPS: Final = 3
"""Rounds that are not counted: the JVM compiles until about the third."""

TRIGGERS: Final = 30
MINUTES_MAX: Final = 30.0
MICRO_BATCHES: Final = 4
"""Of a stream, that many: `maxOffsetsPerTrigger` is its part of the records."""

LARGE_PART: Final = 4
"""Of records of 1 KB, that part of the number of small ones."""

SMALL_BYTES: Final = 100
LARGE_BYTES: Final = 1_000
_LOT_RECORDS: Final = 10_000


class Measure(StrEnum):
    """One row of the table for each subject."""

    BATCH_SMALL = "batch-100"
    BATCH_LARGE = "batch-1000"
    STREAM_SMALL = "stream-100"
    STREAM_LARGE = "stream-1000"
    TRIGGER = "trigger"
    ARRIVAL = "arrival"
    START = "start"
    WRITE = "write"


class Which(StrEnum):
    """A subject, as the command line names it."""

    JAR_ON_KAFKA = "jar-on-kafka"
    JAR_ON_KRAFT = "jar-on-kraft"
    KRAFT = "kraft"
    KRAFT_UNIX = "kraft-unix"
    BARE = "bare"


_OFFICIAL: Final = (Which.JAR_ON_KAFKA, Which.JAR_ON_KRAFT)

_TITLES: Final = {
    Measure.BATCH_SMALL: "batch read, 100 B",
    Measure.BATCH_LARGE: "batch read, 1 KB",
    Measure.STREAM_SMALL: "stream AvailableNow, 100 B",
    Measure.STREAM_LARGE: "stream AvailableNow, 1 KB",
    Measure.TRIGGER: f"trigger of {TRIGGER_ROWS} rows",
    Measure.ARRIVAL: "the same, rows just written",
    Measure.START: "process start to first batch",
    Measure.WRITE: "batch write, 100 B",
}
_IN_TIME: Final = (Measure.TRIGGER, Measure.ARRIVAL, Measure.START)
_WITHOUT_CLUSTER: Final = (Measure.TRIGGER, Measure.START)

_UNIX_SOCKETS: Final = {"spark.python.unix.domain.socket.enabled": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    records: int = RECORDS
    rounds: int = ROUNDS
    triggers: int = TRIGGERS
    measures: Sequence[Measure] = tuple(Measure)
    minutes_max: float = MINUTES_MAX
    """After which nothing more is measured, once every row has a figure."""

    def records_of(self, measure: Measure) -> int:
        is_large = measure in (Measure.BATCH_LARGE, Measure.STREAM_LARGE)
        return self.records // LARGE_PART if is_large else self.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement: records a second, or ms; CPU for a million records, or for one trigger or start."""

    value: float
    cpu_s: float
    broker_cpu_s: float
    detail: str = ""


@dataclass(slots=True)
class Figures:
    """Measurements of one row, one for each round that counts; or why there are none."""

    taken: list[Figure] = field(default_factory=list)
    cannot: str | None = None

    def value(self) -> float:
        return median(each.value for each in self.taken)

    def cpu_s(self) -> float:
        return median(each.cpu_s for each in self.taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One connector on one broker, with the session that stays for the whole run."""

    subject: Subject
    server: Server
    session: SparkProcess
    run: str
    """Names topics of this run."""

    measures: Sequence[Measure] = tuple(Measure)

    def measure(self, measure: Measure, plan: Plan, number: int) -> Figure:
        """Raises CannotYet and SessionFailed."""
        records = plan.records_of(measure)
        match measure:
            case Measure.BATCH_SMALL | Measure.BATCH_LARGE:
                return self._rate(Batch(topic=_read_topic(measure)), records)
            case Measure.STREAM_SMALL | Measure.STREAM_LARGE:
                per_trigger = max(1, records // MICRO_BATCHES)
                return self._rate(Stream(topic=_read_topic(measure), trigger_records=per_trigger), records)
            case Measure.WRITE:
                topic = self._new_topic("write", number)
                return self._rate(Write(topic=topic, records=records, value_bytes=SMALL_BYTES), records)
            case Measure.TRIGGER:
                return self._trigger(Backlog(topic="backlog"))
            case Measure.ARRIVAL:
                return self._trigger(Arrivals(topic=self._new_topic("arrival", number), count=plan.triggers))
            case Measure.START:
                return self._start(FirstBatch(topic="first"))
        assert_never(measure)

    def check(self, measure: Measure, plan: Plan) -> None:
        """Read once everything that a measure reads, which also warms the session up. Raises SessionFailed."""
        records = plan.records_of(measure)
        counted = self.session.ask(Count(topic=_read_topic(measure))).done.records
        if counted != records:
            raise SessionFailed(f"{self.subject.name} read {counted:,} of {records:,} records")

    def _rate(self, request: Request, records: int) -> Figure:
        before_s = self.server.cpu_s()
        taken = self.session.ask(request)
        millions = records / 1e6
        return Figure(
            value=records / taken.done.seconds,
            cpu_s=taken.cpu_s / millions,
            broker_cpu_s=(self.server.cpu_s() - before_s) / millions,
        )

    def _trigger(self, request: Backlog | Arrivals) -> Figure:
        before_s = self.server.cpu_s()
        taken = self.session.ask(request)
        found = taken.done.triggers
        if not found:
            raise SessionFailed(f"{self.subject.name}: no trigger had {TRIGGER_ROWS} rows")
        parts = ("addBatch", "walCommit", "commitOffsets", "latestOffset")
        return Figure(
            value=median(each["triggerExecution"] for each in found),
            cpu_s=taken.cpu_s / len(found),
            broker_cpu_s=(self.server.cpu_s() - before_s) / len(found),
            detail=", ".join(f"{part} {median(each.get(part, 0) for each in found):.0f}" for part in parts),
        )

    def _start(self, request: FirstBatch) -> Figure:
        before_s = self.server.cpu_s()
        seconds, taken = first_batch(self.subject, request)
        return Figure(
            value=seconds * 1_000,
            cpu_s=taken.cpu_s,
            broker_cpu_s=self.server.cpu_s() - before_s,
            detail=f"session {(seconds - taken.done.seconds) * 1_000:.0f}, batch {taken.done.seconds * 1_000:.0f}",
        )

    def _new_topic(self, kind: str, number: int) -> str:
        topic = f"{kind}-{self.run}-{number}"
        self.server.topics.make(topic, PARTITIONS)
        return topic


def _read_topic(measure: Measure) -> str:
    return f"read-{LARGE_BYTES if measure in (Measure.BATCH_LARGE, Measure.STREAM_LARGE) else SMALL_BYTES}"


# --- the run -----------------------------------------------------------------------------------------------------


def measure_all(runners: Sequence[Runner], plan: Plan, jar: str) -> Report:
    rows_of = {measure: [each for each in runners if measure in each.measures] for measure in plan.measures}
    figures = {(measure, each.subject.name): Figures() for measure, those in rows_of.items() for each in those}
    rounds = WARM_UPS + plan.rounds
    steps, ends_s = rounds * len(figures), time.monotonic() + 60 * plan.minutes_max
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("warming up", total=steps)
        for number in range(rounds):
            for measure, those in rows_of.items():
                if number > WARM_UPS and time.monotonic() > ends_s:
                    break
                # Who is first differs, so that none always follows the same other one.
                for runner in (*those[number % len(those) :], *those[: number % len(those)]):
                    progress.update(task, description=f"round {number + 1} of {rounds}: {_TITLES[measure]}")
                    into = figures[measure, runner.subject.name]
                    _measure_once(runner, measure, plan, number, into)
                    progress.advance(task)
    first = runners[0].subject.name
    rows = [
        _row(measure, runner, figures[measure, runner.subject.name], figures[measure, first])
        for measure, those in rows_of.items()
        for runner in those
    ]
    refused = {
        f"{runner.subject.name}, {_TITLES[measure]}: {figures[measure, runner.subject.name].cannot}"
        for measure, those in rows_of.items()
        for runner in those
        if figures[measure, runner.subject.name].cannot
    }
    return Report(
        title=f"Spark {pyspark.__version__}, {runners[0].subject.cores} task slots, {PARTITIONS} partitions, one node",
        durability="page cache: what is written counts, nothing is synced before it is acknowledged",
        rows=rows,
        notes=[*_notes(plan, jar, first), *sorted(refused)],
    )


def _measure_once(runner: Runner, measure: Measure, plan: Plan, number: int, into: Figures) -> None:
    """Measure one figure. The first rounds only warm up, and the very first checks that everything is read."""
    if number < WARM_UPS and measure is Measure.START:
        # Each start has a session of its own.
        return
    if number == 0 and measure not in (Measure.TRIGGER, Measure.ARRIVAL, Measure.WRITE):
        runner.check(measure, plan)
    try:
        figure = runner.measure(measure, plan, number)
    except CannotYet as cannot:
        into.cannot = str(cannot)
        return
    if number >= WARM_UPS:
        into.taken.append(figure)


def _row(measure: Measure, runner: Runner, own: Figures, first: Figures) -> dict[str, Cell]:
    in_time = measure in _IN_TIME
    row: dict[str, Cell] = {
        "measure": _TITLES[measure],
        "subject": runner.subject.name,
        "unit": "ms" if in_time else "records/s",
    }
    if not own.taken:
        return (
            row
            | dict.fromkeys(("median", "least", "most", "n", "x", "CPU s", "CPU x", "broker CPU s"), None)
            | {"detail": "not yet" if own.cannot else ""}
        )
    values = [each.value for each in own.taken]
    speed = own.value() / first.value() if first.taken else None
    return row | {
        "median": round(own.value()),
        "least": round(min(values)),
        "most": round(max(values)),
        "n": len(values),
        "x": None if speed is None else 1 / speed if in_time else speed,
        "CPU s": own.cpu_s(),
        "CPU x": own.cpu_s() / first.cpu_s() if first.taken else None,
        "broker CPU s": median(each.broker_cpu_s for each in own.taken),
        "detail": own.taken[len(values) // 2].detail,
    }


def _notes(plan: Plan, jar: str, first: str) -> list[str]:
    small, large = plan.records, plan.records_of(Measure.BATCH_LARGE)
    return [
        f"Medians of n rounds, the subjects in turns, after {WARM_UPS} that are not counted; all share the cores.",
        f"{small:,} records of 100 B, {large:,} of 1 KB, values only; all columns are read.",
        f"stream: in {MICRO_BATCHES} micro-batches, by maxOffsetsPerTrigger.",
        f"x: speed beside {first}, above 1 is faster. CPU x: CPU beside it, below 1 is less.",
        "CPU s: of driver, JVM and Python workers, a million records; in rows in ms, one trigger or start.",
        f"trigger: triggerExecution of progress, {plan.triggers} a round, of a topic that has more rows.",
        "Unix sockets: with spark.python.unix.domain.socket.enabled=true, which Spark has since 4.1.",
        "bare source: rows made by the tasks, without a cluster: the least that a source in Python takes.",
        "rows just written: at the end of the log, where the jar's consumer waits for its own fetch, 500 ms.",
        f"jar: spark-sql-kafka-0-10 {jar}; Kafka has 1 GiB of heap and its own start script's options.",
    ]


# --- subjects ----------------------------------------------------------------------------------------------------


@contextmanager
def _kafka() -> Iterator[Server]:
    with kafka_processes(fetched_kafka_jars(), {}, measured=True) as [only]:
        yield Server(name="kafka", address=only.address, pids=(only.pid,), topics=AdminTopics(only.address))


def _fill(server: Server, plan: Plan, progress: Progress) -> None:
    """Create the topics that are read."""
    producer = confluent_kafka.Producer({"bootstrap.servers": server.address, "linger.ms": 5, "acks": 1})
    topics = {("first", SMALL_BYTES): TRIGGER_ROWS, ("backlog", SMALL_BYTES): TRIGGER_ROWS * plan.triggers}
    if {Measure.BATCH_SMALL, Measure.STREAM_SMALL} & set(plan.measures):
        topics[_read_topic(Measure.BATCH_SMALL), SMALL_BYTES] = plan.records
    if {Measure.BATCH_LARGE, Measure.STREAM_LARGE} & set(plan.measures):
        topics[_read_topic(Measure.BATCH_LARGE), LARGE_BYTES] = plan.records_of(Measure.BATCH_LARGE)
    for (topic, value_bytes), records in topics.items():
        task = progress.add_task(f"{topic} on {server.name}", total=records)
        server.topics.make(topic, PARTITIONS)
        value, sent = b"x" * value_bytes, [0] * PARTITIONS
        lot_max = min(_LOT_RECORDS, max(1, records // 20))
        while (left := records - sum(sent)) > 0:
            lot, partition = min(lot_max, left), sent.index(min(sent))
            taken = producer.produce_batch(topic, [{"value": value}] * lot, partition=partition)
            sent[partition] += taken
            # Full: until some are acknowledged.
            producer.poll(0 if taken == lot else 0.01)
            progress.update(task, completed=sum(sent))
        if producer.flush(DEADLINE_S):
            raise SessionFailed(f"{server.name} did not acknowledge all records of {topic}")


@contextmanager
def _runners(which: Sequence[Which], plan: Plan, cores: int, conf: Mapping[str, str]) -> Iterator[list[Runner]]:
    jars = tuple(map(str, official_connector())) if set(which) & set(_OFFICIAL) else ()
    run = uuid4().hex[:6]
    with ExitStack() as running:
        servers: dict[bool, Server] = {}
        if Which.JAR_ON_KAFKA in which:
            servers[True] = running.enter_context(_kafka())
        if set(which) - {Which.JAR_ON_KAFKA}:
            servers[False] = running.enter_context(node())
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for server in servers.values():
                _fill(server, plan, progress)
        runners = []
        for each in which:
            server = servers[each is Which.JAR_ON_KAFKA]
            subject = _subject(each, server, jars, cores, conf, plan)
            session = running.enter_context(spark_process(subject))
            measures = _WITHOUT_CLUSTER if each is Which.BARE else tuple(Measure)
            runners.append(
                Runner(subject=subject, server=server, session=session, run=f"{run}-{each}", measures=measures)
            )
        yield runners


def _subject(
    which: Which, server: Server, jars: tuple[str, ...], cores: int, conf: Mapping[str, str], plan: Plan
) -> Subject:
    ours = {"bootstrap.servers": server.grpc_address or ""}
    settings = dict(conf)
    match which:
        case Which.JAR_ON_KAFKA | Which.JAR_ON_KRAFT:
            name, source, options = f"jar on {server.name}", "kafka", {"kafka.bootstrap.servers": server.address}
        case Which.KRAFT:
            name, source, options = "kraft", "kraft", ours
        case Which.KRAFT_UNIX:
            name, source, options = "kraft, Unix sockets", "kraft", ours
            settings = _UNIX_SOCKETS | settings
        case Which.BARE:
            name, source, options = "bare source", BARE_FORMAT, {"triggers": str(plan.triggers)}
        case _:
            assert_never(which)
    return Subject(
        name=name,
        format=source,
        options=options,
        kafka_address=server.address,
        jars=jars if which in _OFFICIAL else (),
        conf=settings,
        cores=cores,
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[
        int, typer.Option(min=1_000, max=RECORDS_MAX, help="Of 100 B, in each topic; a quarter of 1 KB.")
    ] = RECORDS,
    rounds: Annotated[int, typer.Option(min=1, max=20, help=f"After {WARM_UPS} that are not counted.")] = ROUNDS,
    triggers: Annotated[int, typer.Option(min=1, max=TRIGGERS_MAX, help="In each round.")] = TRIGGERS,
    cores: Annotated[int, typer.Option(min=1, max=16, help="Task slots of each session.")] = PARTITIONS,
    only: Annotated[list[Measure] | None, typer.Option(help="Measure this; may be repeated.")] = None,
    subject: Annotated[list[Which] | None, typer.Option(help="Measure this; may be repeated.")] = None,
    minutes: Annotated[float, typer.Option(min=0, help="Begin no further measure after this, once each has one.")] = (
        MINUTES_MAX
    ),
    conf: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for each session; may be repeated.")] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Batch reads, streams, small triggers, the start and writes of Spark: rate, CPU, and ratios."""
    plan = Plan(
        records=records,
        rounds=rounds,
        triggers=triggers,
        measures=tuple(dict.fromkeys(only or Measure)),
        minutes_max=minutes,
    )
    given = dict(_key_and_value(text) for text in conf or ())
    which = [each for each in Which if each in (subject or Which)]
    try:
        with _runners(which, plan, cores, given) as runners:
            jars = official_connector() if set(which) & set(_OFFICIAL) else []
            print_report(measure_all(runners, plan, version_of(jars) if jars else "not measured"), output)
    except (JarsMissing, SessionFailed) as failed:
        raise SystemExit(f"spark: {failed}") from None


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{text!r}: KEY=VALUE, as in spark.driver.memory=2g")
    return key, value


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.spark")
