"""The connector against real nodes: it reads exactly what was produced, also while a leader dies."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kraft.client import Admin, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.command_line import kraft
from tests.support.mirrors import mirror_file, mirroring, topics_of, verified
from tests.support.records import publish_in_transactions
from tests.support.waiting import until

# The first test also starts Java and its Python workers, which takes a minute or two on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

TIMEOUT_S = 60
PARTITIONS = 3


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    """A session in which nobody has registered the source: Spark finds it."""
    return shared_spark.newSession()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


def create_topic(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        # Some tests write records that are older than the default retention.
        admin.create_topic(topic, PARTITIONS, 3, {"retention.ms": "-1"})


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    """Publish one record for each number; on return all replicas have acknowledged them."""
    with Producer(cluster.bootstrap_servers, acks="all", compression_type="lz4") as producer:
        sent = [producer.send(topic, str(number).encode(), key=str(number % 7).encode()) for number in numbers]
        producer.flush()
        for future in sent:
            future.result(TIMEOUT_S)


def stream(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    given = {"bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kraft").options(**given, **options).load()


class Numbers:
    """Collects the numbers that a query reads, by micro-batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def write(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [int(row.value) for row in frame.select("value").collect()]

    @property
    def count(self) -> int:
        return sum(len(batch) for batch in self.batches.values())

    def assert_once_each(self, numbers: Iterable[int]) -> None:
        seen = Counter(number for batch in self.batches.values() for number in batch)
        assert sorted(seen.elements()) == list(numbers), "lost, duplicated or strange records"

    def wait_for(self, count: int, query: StreamingQuery) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.count < count:
            error = query.exception()
            assert error is None, error
            assert time.monotonic() < deadline, f"{self.count} of {count} records in {TIMEOUT_S} s"
            time.sleep(0.05)


def run_available(frame: DataFrame, checkpoint: Path, numbers: Numbers) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(numbers.write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S), "the query did not end in time"
    return query


@pytest.mark.slow
def test_a_batch_read_is_what_was_produced(spark: SparkSession, cluster: Cluster) -> None:
    create_topic(cluster, "batch")
    produce(cluster, "batch", range(10_000))
    frame = spark.read.format("kraft").option("bootstrap.servers", cluster.bootstrap_servers)
    rows = frame.option("subscribe", "batch").load().collect()
    assert sorted(int(row.value) for row in rows) == list(range(10_000))
    assert all(row.topic == "batch" and int(row.key) == int(row.value) % 7 for row in rows)
    by_partition = Counter(row.partition for row in rows)
    offsets = {(row.partition, row.offset) for row in rows}
    assert offsets == {(partition, offset) for partition, count in by_partition.items() for offset in range(count)}


@pytest.mark.parametrize("pushes_filters", ["false", "true"])
def test_filters_give_the_same_rows_pushed_down_or_not(
    spark: SparkSession, cluster: Cluster, pushes_filters: str
) -> None:
    topic = f"filters-{pushes_filters}"
    create_topic(cluster, topic)
    with Producer(cluster.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            for second in range(10):
                producer.send(
                    topic, b"%d" % second, partition=partition, timestamp_ms=1_700_000_000_000 + second * 1_000
                )
        producer.flush()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushes_filters)
    try:
        frame = spark.read.format("kraft").option("bootstrap.servers", cluster.bootstrap_servers)
        found = (
            frame.option("subscribe", topic)
            .load()
            .where("partition > 0 AND offset < 8 AND timestamp >= TIMESTAMP '2023-11-14 22:13:25Z' AND value != '6'")
        )
        plan = found._jdf.queryExecution().executedPlan().toString()
        rows = sorted((row.partition, row.offset, bytes(row.value)) for row in found.collect())
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert rows == [(1, 5, b"5"), (1, 7, b"7"), (2, 5, b"5"), (2, 7, b"7")]
    filters_left = plan.partition("Filter ")[2].partition("\n")[0]
    assert ("partition" in filters_left, "timestamp" in filters_left) == (pushes_filters == "false", True), plan


def test_only_committed_records_are_read_unless_others_are_asked_for(spark: SparkSession, cluster: Cluster) -> None:
    create_topic(cluster, "transfers")
    transactions = ((range(10), True), (range(10, 20), False), (range(20, 30), True))
    publish_in_transactions(cluster.bootstrap_servers, "transfers", PARTITIONS, transactions)
    given = {"bootstrap.servers": cluster.bootstrap_servers, "subscribe": "transfers"}

    def read(**options: str) -> list[int]:
        rows = spark.read.format("kraft").options(**given, **options).schema("value BINARY").load().collect()
        return sorted(int(row.value) for row in rows)

    assert read() == [*range(10), *range(20, 30)]
    assert read(**{"kafka.isolation.level": "read_uncommitted"}) == [*range(30)]


def test_headers_nulls_and_times_arrive_as_they_were_sent(spark: SparkSession, cluster: Cluster) -> None:
    create_topic(cluster, "typed")
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send("typed", None, headers=[("h", b"1"), ("h", None)], partition=2, timestamp_ms=1_700_000_000_123)
        producer.flush()
    options = {"bootstrap.servers": cluster.bootstrap_servers, "subscribe": "typed", "includeHeaders": "true"}
    frame = spark.read.format("kraft").options(**options).load()
    [row] = frame.selectExpr("*", "unix_millis(timestamp) AS timestamp_ms").collect()
    assert (row.key, row.value, row.partition, row.offset, row.timestampType) == (None, None, 2, 0, 0)
    assert row.timestamp_ms == 1_700_000_000_123
    assert [header.asDict() for header in row.headers] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]


@pytest.mark.slow
def test_a_stream_goes_on_from_its_checkpoint_in_bounded_batches(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    create_topic(cluster, "stream")
    produce(cluster, "stream", range(5_000))
    first, second = Numbers(), Numbers()
    run_available(stream(spark, cluster, "stream", maxOffsetsPerTrigger="2000"), tmp_path / "checkpoint", first)
    assert len(first.batches) >= 3
    assert max(len(batch) for batch in first.batches.values()) <= 2_000 + PARTITIONS
    first.assert_once_each(range(5_000))
    produce(cluster, "stream", range(5_000, 8_000))
    run_available(stream(spark, cluster, "stream"), tmp_path / "checkpoint", second)
    second.assert_once_each(range(5_000, 8_000))


@pytest.mark.slow
def test_a_stream_batch_jobs_and_a_mirror_read_one_topic_at_once_each_for_itself(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """The stream and the mirror follow the topic while batch jobs come and go; nobody takes a record from another."""
    create_topic(cluster, "shared")
    produce(cluster, "shared", range(1_000))
    with Cluster(nodes=1) as elsewhere, mirrored(cluster, elsewhere, "shared", tmp_path) as file:
        numbers = Numbers()
        frame = stream(spark, cluster, "shared", **{"kafka.group.id": "stream"})
        query = frame.writeStream.foreachBatch(numbers.write).option("checkpointLocation", str(tmp_path / "at")).start()
        try:
            numbers.wait_for(1_000, query)
            until(lambda: copied(file) == 1_000, lambda: copied(file))
            options = {"bootstrap.servers": cluster.bootstrap_servers, "subscribe": "shared"}
            rows = spark.read.format("kraft").options(**options).load().collect()
            job = kraft(cluster, "consume", "shared", "--group", "job", "--from-beginning", "--max-messages", "1000")
            produce(cluster, "shared", range(1_000, 1_500))
            numbers.wait_for(1_500, query)
            until(lambda: copied(file) == 1_500, lambda: copied(file))
            query.processAllAvailable()
        finally:
            query.stop()
        (verdict,) = {(each["missing"], each["twice"], each["in_order"]) for each in verified(file)}
    numbers.assert_once_each(range(1_500))
    assert sorted(int(row.value) for row in rows) == sorted(map(int, job.split())) == list(range(1_000))
    assert verdict == (0, 0, True)
    described = json.loads(kraft(cluster, "groups", "describe", "stream", "job", "--output", "json"))
    lags = {each["group"]: sum(one["lag"] for one in each["partitions"]) for each in described}
    assert lags == {"stream": 0, "job": 500}


@contextmanager
def mirrored(source: Cluster, target: Cluster, topic: str, directory: Path) -> Iterator[Path]:
    """Mirror the topic beside the block; yield the mirror's file."""
    clusters = {"A.bootstrap.servers": source.bootstrap_servers, "B.bootstrap.servers": target.bootstrap_servers}
    file = mirror_file(directory / "mirror.properties", clusters, {"A->B": {"topics": topic}})
    with mirroring(file, "one"):
        yield file


def copied(file: Path) -> int:
    """Return how many records the mirror has copied of the only topic."""
    return sum(int(each["records"]) for each in topics_of(file).values())


@pytest.mark.slow
def test_a_running_stream_outlives_the_leader_it_reads_from(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster, "orders")
        produce(cluster, "orders", range(800))
        numbers = Numbers()
        frame = stream(spark, cluster, "orders", maxOffsetsPerTrigger="400")
        writer = frame.writeStream.foreachBatch(numbers.write)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            numbers.wait_for(400, query)
            killed = cluster.node(leader_of(cluster, TopicPartition("orders", 0)))
            killed.kill()
            produce(cluster, "orders", range(800, 1_600))
            numbers.wait_for(1_600, query)
            killed.start()
            produce(cluster, "orders", range(1_600, 2_000))
            numbers.wait_for(2_000, query)
        finally:
            query.stop()
        numbers.assert_once_each(range(2_000))


@pytest.mark.slow
def test_a_running_stream_reads_added_partitions_shows_its_lag_and_counts_what_it_skipped(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    create_topic(cluster, "growing")
    produce(cluster, "growing", range(300))
    options = {
        "kafka.group.id": "warehouse",
        "kafka.fetch.max.bytes": "1000000",
        "minOffsetsPerTrigger": "1",
        "minPartitions": "6",
        "failOnDataLoss": "false",
    }
    numbers = Numbers()
    writer = stream(spark, cluster, "growing", **options).writeStream.foreachBatch(numbers.write)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        numbers.wait_for(300, query)
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_partitions("growing", PARTITIONS + 2)
        append(cluster, "growing", PARTITIONS, range(300, 350))
        append(cluster, "growing", PARTITIONS + 1, range(350, 400))
        numbers.wait_for(400, query)
        # A micro-batch that was not committed would be read again, when some of its records are deleted.
        query.processAllAvailable()
    finally:
        query.stop()
    numbers.assert_once_each(range(400))

    append(cluster, "growing", PARTITIONS, range(400, 430))
    with Admin(cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("growing", PARTITIONS): 50 + 20})
    frame = stream(spark, cluster, "growing", **options, maxBytesPerTrigger="1000000")
    query = run_available(frame, tmp_path / "checkpoint", numbers)
    numbers.assert_once_each([*range(400), *range(420, 430)])
    ends = [each["sources"][0]["endOffset"] for each in query.recentProgress]
    assert json.loads(ends[-1])["skipped"] == {"growing": {str(PARTITIONS): 20}}
    shown = json.loads(kraft(cluster, "groups", "describe", "warehouse", "--output", "json"))
    assert {each["partition"]: each["lag"] for each in shown[0]["partitions"]} == dict.fromkeys(
        range(PARTITIONS + 2), 0
    )


def append(cluster: Cluster, topic: str, partition: int, numbers: range) -> None:
    with Producer(cluster.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(topic, str(number).encode(), partition=partition)
        producer.flush()


def leader_of(cluster: Cluster, partition: TopicPartition) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        [described] = admin.describe_topics([partition.topic])
    return next(each.leader_id for each in described.metadata.partitions if each.partition_index == partition.partition)


def test_a_missing_topic_is_named(spark: SparkSession, cluster: Cluster) -> None:
    frame = spark.read.format("kraft").option("bootstrap.servers", cluster.bootstrap_servers)
    with pytest.raises(PySparkException, match="topic 'absent' does not exist"):
        frame.option("subscribe", "absent").load().count()


@pytest.mark.slow
def test_an_unreachable_cluster_is_named_by_its_addresses_within_seconds(spark: SparkSession) -> None:
    # Port 1 is reserved and nobody listens there.
    frame = spark.read.format("kraft").option("bootstrap.servers", "127.0.0.1:1,localhost:1")
    with pytest.raises(PySparkException) as refused:
        frame.option("subscribe", "orders").load().count()
    assert "no broker answered within 10 s" in str(refused.value)
    assert "127.0.0.1:1" in str(refused.value)
    assert "localhost:1" in str(refused.value)
