"""`python -m tests.soak.official_connector_runs`: Spark's own connector, unchanged, on our Kafka listener.

It writes and reads in batches and as streams, with the options that choose what is read, in transactions too, while a
leader is killed. Everything is read again with our own connector, which has to find the same. At the end a query with
state moves over to our connector, with its checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import typer
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from spark_connector.kafka_checkpoint import move_checkpoint
from tests.soak.fault_runs import Seed, chosen, judged, say
from tests.support.maven_jars import JarsMissing
from tests.support.records import publish_in_transactions
from tests.support.spark.official_connector import official_connector, version_of
from tests.support.waiting import until

NODES: Final = 3
PARTITIONS: Final = 3
RECORDS: Final = 3_000
DEADLINE_S: Final = 120
_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


class Run:
    """One cluster, one session with both connectors, and what they do."""

    def __init__(self, cluster: Cluster, spark: SparkSession, directory: Path, seed: int) -> None:
        self._cluster = cluster
        self._spark = spark
        self._directory = directory
        self._chance = Random(seed)
        self._places = {
            "kafka": {"kafka.bootstrap.servers": cluster.kafka_bootstrap_servers},
            "kraft": {"bootstrap.servers": cluster.bootstrap_servers},
        }

    # --- batches ---

    def written_records_are_read_by_both(self) -> None:
        """The sink's columns arrive: keys, nulls, headers and partitions."""
        self._create("written")
        frame = self._spark.range(RECORDS).selectExpr(
            "CAST(id % 7 AS STRING) AS key",
            "IF(id % 10 = 0, NULL, CAST(id AS STRING)) AS value",
            f"CAST(id % {PARTITIONS} AS INT) AS partition",
            "ARRAY(NAMED_STRUCT('key', 'id', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
        )
        frame.write.format("kafka").options(**self._places["kafka"], topic="written").save()
        rows = self._same_in_both("written", includeHeaders="true")
        numbers = sorted(int(row.headers[0].value) for row in rows)
        assert numbers == list(range(RECORDS)), f"{len(numbers)} of {RECORDS} records written"
        assert all((row.value is None) == (int(row.headers[0].value) % 10 == 0) for row in rows)
        assert all(int(row.headers[0].value) % PARTITIONS == row.partition for row in rows)

    def options_choose_what_is_read(self) -> None:
        """Offsets, timestamps, patterns and assignments mean the same as on Kafka."""
        first, second = 1_700_000_000_000, 1_700_000_060_000
        self._create("timed")
        with Producer(self._cluster.bootstrap_servers) as producer:
            for number in range(60):
                at_ms = first if number < 30 else second
                producer.send("timed", str(number).encode(), partition=number % PARTITIONS, timestamp_ms=at_ms)
            producer.flush()
        for options, expected in (
            ({"startingOffsets": '{"timed":{"0":5,"1":-2,"2":-2}}', "endingOffsets": _ends(-1, 4, 0)}, 15 + 4),
            ({"startingTimestamp": str(first + 1)}, 30),
            ({"startingOffsetsByTimestamp": _ends(first + 1, first, second)}, 10 + 20 + 10),
            ({"endingTimestamp": str(second)}, 30),
            ({"startingTimestamp": str(second + 1), "startingOffsetsByTimestampStrategy": "latest"}, 0),
            ({"minPartitions": "10"}, 60),
        ):
            count = self._read("kafka", "timed", **options).count()
            assert count == expected, f"{options}: {count} records, not {expected}"
        for subscription, expected in (
            ({"subscribePattern": "ti.*d"}, 60),
            ({"assign": '{"timed":[1,2]}'}, 40),
        ):
            frame = self._spark.read.format("kafka").options(**self._places["kafka"], **subscription).load()
            assert frame.count() == expected, f"{subscription}: not {expected} records"

    def aborted_transactions_are_not_read(self) -> None:
        self._create("transfers")
        transactions = [(range(30), is_committed) for is_committed in (True, False, True)]
        publish_in_transactions(self._cluster.bootstrap_servers, "transfers", PARTITIONS, transactions)
        uncommitted = self._read("kafka", "transfers").count()
        assert uncommitted == 90, f"{uncommitted} of 90 records read with Spark's default"
        rows = self._same_in_both("transfers", **{"kafka.isolation.level": "read_committed"})
        assert len(rows) == 60, f"{len(rows)} of 60 committed records"

    def a_missing_topic_is_an_error(self) -> None:
        with pytest.raises(Py4JJavaError, match="UnknownTopicOrPartition"):
            self._read("kafka", "absent").count()

    # --- streams ---

    def a_stream_goes_on_from_its_checkpoint(self) -> None:
        """Its micro-batches are bounded, and nothing is read twice."""
        self._create("stream")
        seen = Seen()
        for begin in (0, RECORDS):
            self._write("stream", begin, RECORDS)
            writer = self._stream("kafka", "stream", maxOffsetsPerTrigger="700").writeStream.foreachBatch(seen.add)
            self._finish(writer.option("checkpointLocation", self._checkpoint("stream")))
        seen.assert_once_each(2 * RECORDS)
        assert max(seen.sizes) <= 700 + PARTITIONS, f"a micro-batch of {max(seen.sizes)} records"

    def a_stream_is_written_by_the_sink_while_a_leader_is_killed(self) -> None:
        """At least once, as Spark's sink promises, and in fact all of it."""
        for topic in ("copied", "copies"):
            self._create(topic)
        self._write("copied", 0, RECORDS)
        writer = self._stream("kafka", "copied", maxOffsetsPerTrigger="500").select("key", "value").writeStream
        query = (
            writer.format("kafka")
            .options(**self._places["kafka"], topic="copies", checkpointLocation=self._checkpoint("copies"))
            .start()
        )
        try:
            self._wait(query, "copies", 1)
            killed = self._cluster.node(self._chance.randrange(1, NODES + 1))
            killed.kill()
            self._write("copied", RECORDS, RECORDS)
            self._wait(query, "copies", 2 * RECORDS)
            killed.start()
        finally:
            query.stop()
        self._cluster.wait_ready(DEADLINE_S)
        copies = Counter(int(row.value) for row in self._read("kraft", "copies").collect())
        assert set(copies) == set(range(2 * RECORDS)), "lost records"
        say(f"  node {killed.node_id} killed; {copies.total() - len(copies)} records written more than once")

    def a_query_with_state_moves_over(self) -> None:
        """Counts go on, with the checkpoint that our connector got."""
        self._create("counted")
        totals: dict[str, int] = {}

        def keep(frame: DataFrame, batch_id: int) -> None:
            totals.update({row.key: row["count"] for row in frame.collect()})

        for connector in ("kafka", "kraft"):
            self._write("counted", 0, RECORDS)
            counts = self._stream(connector, "counted").selectExpr("CAST(key AS STRING) AS key").groupBy("key").count()
            writer = counts.writeStream.outputMode("update").foreachBatch(keep)
            self._finish(writer.option("checkpointLocation", self._checkpoint(connector)))
            if connector == "kafka":
                move_checkpoint(Path(self._checkpoint("kafka")), Path(self._checkpoint("kraft")))
        expected = Counter(str(number % 7) for number in range(RECORDS))
        assert totals == {key: 2 * count for key, count in expected.items()}, f"counts after the move: {totals}"

    # --- within ---

    def _create(self, topic: str) -> None:
        with Admin(self._cluster.bootstrap_servers) as admin:
            admin.create_topic(topic, PARTITIONS, NODES, {"retention.ms": "-1"})

    def _write(self, topic: str, begin: int, count: int) -> None:
        frame = self._spark.range(begin, begin + count).selectExpr(
            "CAST(id % 7 AS STRING) AS key", "CAST(id AS STRING) AS value"
        )
        frame.write.format("kafka").options(**self._places["kafka"], topic=topic).save()

    def _read(self, connector: str, topic: str, **options: str) -> DataFrame:
        return self._spark.read.format(connector).options(**self._places[connector], subscribe=topic, **options).load()

    def _stream(self, connector: str, topic: str, **options: str) -> DataFrame:
        given = {**self._places[connector], "subscribe": topic, "startingOffsets": "earliest", **options}
        return self._spark.readStream.format(connector).options(**given).load()

    def _same_in_both(self, topic: str, **options: str) -> list[Row]:
        found = {}
        for connector in self._places:
            frame = self._read(connector, topic, **options)
            columns = [column for column in _COLUMNS if column in frame.columns]
            found[connector] = frame.select(columns).orderBy("partition", "offset").collect()
        different = next((pair for pair in zip(*found.values(), strict=False) if pair[0] != pair[1]), None)
        lengths = {connector: len(rows) for connector, rows in found.items()}
        assert found["kafka"] == found["kraft"], f"{topic}: {lengths}, first difference: {different}"
        return found["kafka"]

    def _checkpoint(self, name: str) -> str:
        return str(self._directory / f"checkpoint-{name}")

    @staticmethod
    def _finish(writer: Any) -> None:
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE_S):
            query.stop()
            raise TimeoutError(f"a stream did not end within {DEADLINE_S} s")

    def _wait(self, query: StreamingQuery, topic: str, count: int) -> None:
        def is_there() -> bool:
            failed = query.exception()
            assert failed is None, failed
            return self._read("kraft", topic).count() >= count

        until(is_there, f"fewer than {count} records in {topic}", DEADLINE_S)


class Seen:
    """Numbers that a stream passed on, and the sizes of its micro-batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._numbers: Counter[int] = Counter()

    def add(self, frame: DataFrame, batch_id: int) -> None:
        numbers = [int(row.value) for row in frame.select("value").collect()]
        self.sizes.append(len(numbers))
        self._numbers.update(numbers)

    def assert_once_each(self, count: int) -> None:
        wrong = {number: times for number, times in self._numbers.items() if times != 1}
        assert not wrong, f"read more than once: {len(wrong)}"
        assert len(self._numbers) == count, f"{len(self._numbers)} of {count} records read"


def _ends(*offsets: int) -> str:
    return '{"timed":{' + ",".join(f'"{partition}":{offset}' for partition, offset in enumerate(offsets)) + "}}"


@contextmanager
def session(directory: Path) -> Iterator[SparkSession]:
    """A session with the official connector, which finds ours by itself."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ",".join(map(str, official_connector()))
    builder = SparkSession.builder.master("local[2]").appName("official-connector")
    for key, value in {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def main(seed: Seed = None) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    began_s = time.monotonic()
    with judged(JarsMissing), TemporaryDirectory(prefix="official-connector-") as path:
        directory = Path(path)
        with Cluster(NODES) as cluster, session(directory) as spark:
            run = Run(cluster, spark, directory, number)
            steps: tuple[Callable[[], None], ...] = (
                run.written_records_are_read_by_both,
                run.options_choose_what_is_read,
                run.aborted_transactions_are_not_read,
                run.a_missing_topic_is_an_error,
                run.a_stream_goes_on_from_its_checkpoint,
                run.a_stream_is_written_by_the_sink_while_a_leader_is_killed,
                run.a_query_with_state_moves_over,
            )
            for step in steps:
                step()
                say(step.__name__.replace("_", " "))
        version = version_of(official_connector())
    print(f"spark-sql-kafka-0-10 {version} on {NODES} nodes: {len(steps)} steps, {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    typer.run(main)
