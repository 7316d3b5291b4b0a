"""`python -m tests.soak.spark_sink_runs`: a Spark query copies a topic while tasks, commits and nodes fail."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event
from typing import Final

import typer
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kraft.client import Admin, Consumer, TopicPartition
from kraft.testing import Cluster
from spark_connector import KraftDataSource
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.support.records import create_topic, publish
from tests.support.spark.faulty_sink import FaultySource, copy
from tests.support.spark.spark_session import spark_session
from tests.support.waiting import until

NODES: Final = 3
PARTITIONS: Final = 4
BATCH_RECORDS: Final = 2_000
_SOURCE, _TARGET = "copied-from", "copied-to"
_FAULTS: Final = ("lost", "lost", "before", "after")
_RUN_S_MAX: Final = 300
_UNDECIDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class SinkRun(Struct, frozen=True, kw_only=True):
    kills: int
    faults: int
    starts: int
    """How often the query was started: once, and after each fault that ended it."""


def run(*, batches: int, seed: int) -> SinkRun:
    """Copy so many batches. Raises AssertionError unless each record arrives once, and no transaction is left."""
    chance = Random(seed)
    with TemporaryDirectory() as directory, Cluster(nodes=NODES) as cluster:
        for topic in (_SOURCE, _TARGET):
            create_topic(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
        publish(cluster.bootstrap_servers, _SOURCE, range(batches * BATCH_RECORDS))
        faults = Path(directory) / "faults"
        faults.mkdir()
        asked = {f"{chance.choice(_FAULTS)}-{batch}" for batch in range(batches) if chance.random() < 0.5}
        for fault in asked:
            (faults / fault).touch()
        with spark_session("local[2,3]") as spark, _killed_nodes(cluster, chance) as kills:
            spark.dataSource.register(KraftDataSource)
            spark.dataSource.register(FaultySource)
            starts = _copy_all(spark, cluster, Path(directory) / "checkpoint", faults)
        _check(cluster, batches * BATCH_RECORDS)
        return SinkRun(kills=len(kills), faults=len(asked) - len(list(faults.iterdir())), starts=starts)


def _copy_all(spark: SparkSession, cluster: Cluster, checkpoint: Path, faults: Path) -> int:
    starts = 0
    while True:
        starts += 1
        query = copy(spark, cluster.bootstrap_servers, _SOURCE, _TARGET, checkpoint, faults, BATCH_RECORDS)
        try:
            assert query.awaitTermination(_RUN_S_MAX), "the query did not end in time"
        except PySparkException as error:
            say(f"start {starts} ended: {str(error).strip().splitlines()[0][:160]}")
        else:
            return starts


@contextmanager
def _killed_nodes(cluster: Cluster, chance: Random) -> Iterator[list[int]]:
    """Kill one node after the other, each for some seconds, until the block ends. The value is whom."""
    ended, kills = Event(), list[int]()

    def kill() -> None:
        while not ended.wait(chance.uniform(1, 4)):
            kills.append(chance.randint(1, NODES))
            cluster.node(kills[-1]).kill()
            ended.wait(chance.uniform(0.5, 3))
            cluster.node(kills[-1]).start()
            cluster.wait_ready()

    with ThreadPoolExecutor() as threads:
        killing = threads.submit(kill)
        try:
            yield kills
        finally:
            ended.set()
            killing.result()


def _check(cluster: Cluster, records: int) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        until(lambda: not admin.list_transactions(states=_UNDECIDED), "transactions are left")
    partitions = [TopicPartition(_TARGET, number) for number in range(PARTITIONS)]
    found: list[int] = []
    with Consumer(cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        ends = consumer.end_offsets(partitions)
        for each in partitions:
            for part in consumer.read_columns(each, 0, ends[each]):
                found += [int(value or b"") for value in part.columns.values]
    lost, twice = records - len(set(found)), len(found) - len(set(found))
    assert sorted(found) == list(range(records)), f"{lost} records are lost, and {twice} are there more than once"


@app.command()
def main(times: Times = 30, seed: Seed = None) -> None:
    """Copy this many batches, about half of them with a fault, while nodes are killed."""
    number = chosen(seed)
    with judged():
        ended = run(batches=times, seed=number)
    print(f"{times} batches of {BATCH_RECORDS} records by Spark, seed {number}: each record once")
    print(
        f"{ended.kills} kills of nodes, {ended.faults} faults of tasks and commits, {ended.starts} starts of the query"
    )


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.spark_sink_runs")
