"""The sink with real Spark and real nodes: every record arrives once, whatever fails in between."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kraft.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition, partition_for_key
from kraft.testing import Cluster
from spark_connector import KraftDataSource
from tests.support.command_line import PROGRAMS
from tests.support.records import create_topic, publish
from tests.support.spark import faulty_sink
from tests.support.spark.faulty_sink import BATCH_RECORDS, FaultySource, copy
from tests.support.waiting import until

# The first test also starts Java and its Python workers, which takes a minute or two on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TIMEOUT_S = 200
PARTITIONS = 3
RECORDS = 5 * BATCH_RECORDS
UNDECIDED = ("Ongoing", "PrepareCommit", "PrepareAbort")


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    shared_spark.dataSource.register(KraftDataSource)
    shared_spark.dataSource.register(FaultySource)
    return shared_spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faults").mkdir()
    return tmp_path


def topics(cluster: Cluster, name: str) -> tuple[str, str]:
    """Create a topic with records to copy, and an empty one."""
    for topic in (f"{name}-in", f"{name}-out"):
        create_topic(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
    publish(cluster.bootstrap_servers, f"{name}-in", range(RECORDS))
    return f"{name}-in", f"{name}-out"


def ask(folder: Path, *faults: str) -> None:
    for fault in faults:
        (folder / "faults" / fault).touch()


def asked(folder: Path) -> list[str]:
    """Return the faults that have not happened."""
    return sorted(each.name for each in (folder / "faults").iterdir() if "-" in each.name)


def runs_until_done(spark: SparkSession, cluster: Cluster, names: tuple[str, str], folder: Path) -> list[str]:
    """Start the query again until it ends by itself; return why it has failed."""
    failures: list[str] = []
    while True:
        query = copy(spark, cluster.bootstrap_servers, *names, folder / "checkpoint", folder / "faults")
        try:
            assert query.awaitTermination(TIMEOUT_S), "the query did not end in time"
        except PySparkException as error:
            failures.append(str(error))
        else:
            return failures


def until_next_batch(query: StreamingQuery) -> None:
    before = len(query.recentProgress)
    until(lambda: len(query.recentProgress) > before or not query.isActive, "no batch is written")


def records_of(cluster: Cluster, topic: str) -> list[ConsumerRecord]:
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    servers = cluster.bootstrap_servers
    with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += consumer.poll(1_000)
        return found


def check_copied(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        # What lost tasks have left open was aborted, and readers wait for nothing.
        until(lambda: not admin.list_transactions(states=UNDECIDED, pattern=f".*{topic}.*"), "transactions are left")
    values = [int(record.value or b"") for record in records_of(cluster, topic)]
    assert sorted(values) == list(range(RECORDS)), "lost, duplicated or strange records"


@pytest.mark.slow
def test_a_stream_writes_each_batch_once_though_commits_and_tasks_fail(
    spark: SparkSession, cluster: Cluster, folder: Path
) -> None:
    """Without retries of tasks, each fault ends the query, which is started again from its checkpoint."""
    names = topics(cluster, "faults")
    ask(folder, "before-1", "after-2", "lost-3")
    failures = runs_until_done(spark, cluster, names, folder)
    assert asked(folder) == []
    assert len(failures) == 3
    assert "before the commit" in failures[0]
    assert "after the commit" in failures[1]
    check_copied(cluster, names[1])


@pytest.mark.slow
def test_a_driver_that_is_killed_after_the_commit_writes_its_batch_once(
    spark: SparkSession, cluster: Cluster, folder: Path
) -> None:
    """In a session that tries tasks again; what the killed one has begun is finished by another one."""
    names = topics(cluster, "killed")
    ask(folder, "lost-1", "killed-2")
    command = [sys.executable, "-m", faulty_sink.__name__, cluster.bootstrap_servers, *names]
    ended = PROGRAMS.run([*command, str(folder / "checkpoint"), str(folder / "faults")], TIMEOUT_S)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2_000:]
    assert asked(folder) == [], "the lost task was tried again, and the next batch was committed"
    assert runs_until_done(spark, cluster, names, folder) == []
    check_copied(cluster, names[1])


@pytest.mark.slow
def test_a_stream_outlives_each_node_in_turn(spark: SparkSession, cluster: Cluster, folder: Path) -> None:
    """Leaders of the topic, and the coordinator of the query's transactions, are among them."""
    names = topics(cluster, "nodes")
    query = copy(spark, cluster.bootstrap_servers, *names, folder / "checkpoint", folder / "faults")
    for node_id in (1, 2, 3):
        cluster.node(node_id).kill()
        until_next_batch(query)
        cluster.node(node_id).start()
        cluster.wait_ready()
    assert query.awaitTermination(TIMEOUT_S), "the query did not end in time"
    check_copied(cluster, names[1])


def frame_of(spark: SparkSession) -> DataFrame:
    rows = [
        (str(number), str(number), f"typed-{number % 2}", number % 3 if number < 5 else None) for number in range(10)
    ]
    headers = "array(named_struct('key', 'h', 'value', CAST(value AS BINARY))) AS headers"
    schema = "key STRING, value STRING, topic STRING, partition INT"
    return spark.createDataFrame(rows, schema).selectExpr("*", headers)


@pytest.mark.slow
def test_a_frame_is_written_as_its_columns_say(spark: SparkSession, cluster: Cluster) -> None:
    for number in range(2):
        create_topic(cluster.bootstrap_servers, f"typed-{number}", partitions=PARTITIONS)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "transactionalIdPrefix": "frames"}
    frame_of(spark).write.format("kraft").options(**servers).mode("append").save()
    for guarantee in ("at-least-once", "exactly-once"):
        options = {**servers, "topic": "typed-0", "delivery.guarantee": guarantee}
        frame_of(spark).limit(1).write.format("kraft").options(**options).mode("append").save()
    for app_version in (1, 1, 2):
        for topic in ("typed-0", "typed-1"):
            options = {**servers, "topic": topic, "txnAppId": "nightly", "txnVersion": str(app_version)}
            frame_of(spark).limit(1).write.format("kraft").options(**options).mode("append").save()
    with Admin(cluster.bootstrap_servers) as admin:
        tasks = "frames-.*-[0-9a-f]{32}"
        until(lambda: not admin.list_transactions(pattern=tasks), "temporary ids are left")
    found = {number: records_of(cluster, f"typed-{number}") for number in range(2)}
    assert sorted(int(each.value or b"") for each in found[0]) == [0, 0, 0, 0, 0, 2, 4, 6, 8]
    assert sorted(int(each.value or b"") for each in found[1]) == [0, 0, 1, 3, 5, 7, 9], "each version once"
    for each in (*found[0], *found[1]):
        number = int(each.value or b"")
        expected = number % 3 if number < 5 else partition_for_key(each.key or b"", PARTITIONS)
        assert (each.key, each.partition) == (each.value, expected)
        assert each.headers == (("h", each.value),)


@pytest.mark.slow
def test_what_cannot_be_written_is_named(spark: SparkSession, cluster: Cluster) -> None:
    frame, servers = frame_of(spark), {"bootstrap.servers": cluster.bootstrap_servers}
    create_topic(cluster.bootstrap_servers, "refusals", partitions=1)

    def refusal(written: DataFrame, **options: str) -> str:
        with pytest.raises(PySparkException) as refused:
            written.write.format("kraft").options(**servers, **options).mode("append").save()
        return str(refused.value)

    assert "a topic is missing" in refusal(frame.drop("topic"))
    assert "column value has type INT" in refusal(frame.selectExpr("CAST(value AS INT) AS value"), topic="refusals")
    assert "the column topic is null" in refusal(frame.selectExpr("value", "CAST(NULL AS STRING) AS topic"))
    assert "there is no topic 'absent'" in refusal(frame.limit(1), topic="absent")
    placed = frame.selectExpr("value", "5 AS partition").limit(1)
    assert "partition 5, and topic 'refusals' has partitions 0 to 0" in refusal(placed, topic="refusals")


@pytest.mark.slow
def test_the_job_of_the_log_pipelines_page_writes_each_error_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    page = Path(__file__).parents[3].joinpath("docs/log-pipeline.md").read_text()
    shown = "lines = (" + page.partition("```python\nlines = (")[2].partition("```")[0]
    for topic in ("logs", "logs-errors"):
        create_topic(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
    levels = ("INFO", "ERROR", "WARNING")
    lines = [f'{{"level": "{levels[number % 3]}", "number": {number}}}' for number in range(60)]
    with Producer(cluster.bootstrap_servers) as producer:
        for each in ("no JSON", *lines):
            producer.send("logs", each.encode(), key=b"key")
    places = {"localhost:9094": cluster.bootstrap_servers, "/var/lib/spark/logs-errors": str(tmp_path / "checkpoint")}
    for there, here in places.items():
        assert there in shown
        shown = shown.replace(there, here)
    exec(shown, {"spark": spark})  # noqa: S102  It is our own page.
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    found = records_of(cluster, "logs-errors")
    assert sorted((each.value or b"").decode() for each in found) == sorted(lines[1::3])
    assert {each.key for each in found} == {b"key"}
