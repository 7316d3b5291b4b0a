"""The benchmark of Spark, without Spark: its rows, from sessions that answer at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
import typer

from benchmarks.servers import Server
from benchmarks.spark import WARM_UPS, Measure, Plan, Runner, _key_and_value, measure_all
from benchmarks.spark_processes import CannotYet, SessionFailed, SparkProcess, Taken
from benchmarks.spark_session import Arrivals, Backlog, Batch, Count, Done, Request, Subject, Write, _line

RECORDS = 4_000


@dataclass
class AnsweringSession:
    """Takes `seconds` for everything; cannot write."""

    seconds: float
    counted: int = RECORDS
    asked: list[Request] = field(default_factory=list)

    def ask(self, request: Request) -> Taken:
        self.asked.append(request)
        match request:
            case Write():
                raise CannotYet("writing is not supported yet")
            case Backlog() | Arrivals():
                found = tuple({"triggerExecution": 100 + number, "addBatch": 40} for number in range(3))
                return Taken(done=Done(seconds=self.seconds, triggers=found), cpu_s=0.3)
            case _:
                return Taken(done=Done(seconds=self.seconds, records=self.counted), cpu_s=0.02)


class AnyTopic:
    def make(self, topic: str, partitions: int) -> None:
        """Do nothing: every topic is there."""

    def remove(self, topic: str) -> None:
        """Do nothing."""


def runner(name: str, session: AnsweringSession) -> Runner:
    subject = Subject(name=name, format=name, options={}, kafka_address="localhost:9092")
    server = Server(name=name, address="localhost:9092", pids=(), topics=AnyTopic())
    return Runner(subject=subject, server=server, session=cast(SparkProcess, session), run=name)


def test_ratios_are_beside_the_first_subject_and_above_one_is_faster() -> None:
    plan = Plan(records=RECORDS, rounds=2, triggers=3, measures=(Measure.BATCH_SMALL, Measure.TRIGGER))
    sessions = [AnsweringSession(seconds=0.004), AnsweringSession(seconds=0.002)]
    report = measure_all([runner(name, each) for name, each in zip(("jar", "own"), sessions, strict=True)], plan, "4")
    jar, own, jar_trigger, own_trigger = report.rows
    assert (jar["median"], jar["x"], own["median"], own["x"]) == (1_000_000, 1, 2_000_000, 2)
    assert (own["CPU s"], own["CPU x"]) == (5, 1)
    assert (jar_trigger["unit"], jar_trigger["median"], own_trigger["x"]) == ("ms", 101, 1)
    assert sum(isinstance(each, Batch) for each in sessions[1].asked) == WARM_UPS + 2
    assert sum(isinstance(each, Count) for each in sessions[1].asked) == 1


def test_when_the_time_is_up_each_row_has_one_figure() -> None:
    plan = Plan(records=RECORDS, rounds=9, measures=(Measure.BATCH_SMALL, Measure.TRIGGER), minutes_max=0)
    report = measure_all([runner("own", AnsweringSession(seconds=1))], plan, "4")
    assert [row["n"] for row in report.rows] == [1, 1]


def test_what_a_connector_cannot_do_yet_is_a_row_that_says_so() -> None:
    plan = Plan(records=RECORDS, rounds=1, measures=(Measure.WRITE,))
    report = measure_all([runner("own", AnsweringSession(seconds=1))], plan, "4")
    [row] = report.rows
    assert (row["median"], row["detail"]) == (None, "not yet")
    assert report.notes[-1] == "own, batch write, 100 B: writing is not supported yet"


def test_a_connector_that_loses_records_is_not_measured() -> None:
    plan = Plan(records=RECORDS, rounds=1, measures=(Measure.BATCH_SMALL,))
    with pytest.raises(SessionFailed, match="own read 3,999 of 4,000 records"):
        measure_all([runner("own", AnsweringSession(seconds=1, counted=3_999))], plan, "4")


def test_the_reason_of_an_error_is_below_the_traceback_of_a_worker() -> None:
    error = "[STREAM_FAILED] ended: Traceback (most recent call last):\n  File x\n    y()\nOSError: no disk\n\tat org.y"
    assert _line(RuntimeError(error)) == "OSError: no disk"
    assert _line(RuntimeError("one\ntwo")) == "one"
    assert _line(RuntimeError()) == "RuntimeError"


def test_a_setting_has_a_key_and_a_value() -> None:
    assert _key_and_value("spark.driver.memory=2g") == ("spark.driver.memory", "2g")
    with pytest.raises(typer.BadParameter, match="KEY=VALUE"):
        _key_and_value("spark.driver.memory")
