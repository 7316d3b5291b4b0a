"""The connector inside the real Spark, over a cluster of files: everything that Spark itself does with it.

Tests that need a real cluster are in `test_spark.py`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from spark_connector import KraftDataSource
from spark_connector.cluster import Connect
from spark_connector.progress import progress_of
from tests.support.file_cluster import FileCluster

# The first test also starts Java and its Python workers, which takes a minute or two on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    return shared_spark.newSession()


@pytest.fixture
def cluster(tmp_path: Path, spark: SparkSession) -> FileCluster:
    """Topic `a`: 30 records in partition 0, 10 in partition 1."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    cluster = FileCluster(directory)
    cluster.create_topic("a", partitions=2)
    cluster.append("a", 0, [f"a0-{number}" for number in range(30)])
    cluster.append("a", 1, [f"a1-{number}" for number in range(10)])

    class FileSource(KraftDataSource):
        def connector(self) -> Connect:
            return cluster

    spark.dataSource.register(FileSource)
    return cluster


OPTIONS = {"bootstrap.servers": "localhost:9094", "subscribe": "a"}


class Batches:
    """The output of a query, by micro-batch; it can fail at one of them, as when its machine dies."""

    def __init__(self) -> None:
        self.values: dict[int, list[str]] = {}

    def write(self, frame: DataFrame, batch_id: int, *, fail_at: int | None = None) -> None:
        if batch_id == fail_at:
            raise RuntimeError("the sink is gone")
        self.values[batch_id] = sorted(row.value.decode() for row in frame.select("value").collect())

    @property
    def all(self) -> list[str]:
        return sorted(value for batch in self.values.values() for value in batch)


def start(
    spark: SparkSession, checkpoint: Path, batches: Batches, *, fail_at: int | None = None, **options: str
) -> StreamingQuery:
    """Read what is available now, in as many micro-batches as the options cause."""
    stream = spark.readStream.format("kraft").options(**{**OPTIONS, "startingOffsets": "earliest", **options}).load()
    writer = stream.writeStream.foreachBatch(partial(batches.write, fail_at=fail_at))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def run(spark: SparkSession, checkpoint: Path, batches: Batches, **options: str) -> StreamingQuery:
    query = start(spark, checkpoint, batches, fail_at=None, **options)
    assert query.awaitTermination(TIMEOUT_S), "the query did not end in time"
    return query


def expected(first: range, second: range) -> list[str]:
    return sorted([f"a0-{number}" for number in first] + [f"a1-{number}" for number in second])


@pytest.mark.slow
def test_a_batch_read_holds_every_record_with_kafkas_columns(spark: SparkSession, cluster: FileCluster) -> None:
    cluster.create_topic("typed", partitions=1)
    cluster.append("typed", 0, ["v"], key="k", timestamp_ms=1_700_000_000_123, headers=[("h", "1"), ("h", None)])
    cluster.append("typed", 0, [None])
    frame = spark.read.format("kraft").options(**{**OPTIONS, "subscribe": "typed", "includeHeaders": "true"}).load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows: list[dict[str, Any]] = [row.asDict(recursive=True) for row in frame.orderBy("offset").collect()]
    assert rows[0] == {
        "key": b"k",
        "value": b"v",
        "topic": "typed",
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1_700_000_000.123, tz=UTC).astimezone().replace(tzinfo=None),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert (rows[1]["key"], rows[1]["value"], rows[1]["headers"]) == (None, None, None)


def test_a_batch_reads_several_topics_between_given_offsets(spark: SparkSession, cluster: FileCluster) -> None:
    cluster.create_topic("b", partitions=1)
    cluster.append("b", 0, ["b0-0", "b0-1"])
    options = {
        **OPTIONS,
        "subscribe": "a,b",
        "startingOffsets": '{"a": {"0": 28, "1": -2}, "b": {"0": 1}}',
        "endingOffsets": '{"a": {"0": -1, "1": 1}, "b": {"0": -1}}',
    }
    frame = spark.read.format("kraft").options(**options).load()
    values = [row.value.decode() for row in frame.collect()]
    assert sorted(values) == ["a0-28", "a0-29", "a1-0", "b0-1"]


def test_a_query_gets_only_the_columns_of_its_schema(spark: SparkSession, cluster: FileCluster) -> None:
    frame = spark.read.format("kraft").options(**OPTIONS).schema("offset BIGINT, value BINARY").load()
    assert frame.columns == ["offset", "value"]
    assert frame.where("offset = 29").collect()[0].value == b"a0-29"


def test_json_in_values_becomes_columns(spark: SparkSession, cluster: FileCluster) -> None:
    cluster.create_topic("json", partitions=1)
    cluster.append("json", 0, ['{"carrier": "UA", "delay": 12}', "no json"])
    frame = spark.read.format("kraft").options(**{**OPTIONS, "subscribe": "json"}).load()
    flight = from_json(col("value").cast("string"), "carrier STRING, delay INT").alias("flight")
    assert [tuple(row) for row in frame.select(flight).select("flight.*").collect()] == [("UA", 12), (None, None)]


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, cluster: FileCluster) -> None:
    cluster.create_topic("empty", partitions=2)
    assert spark.read.format("kraft").options(**{**OPTIONS, "subscribe": "empty"}).load().count() == 0


def test_a_stream_reads_in_micro_batches_of_the_given_size(
    spark: SparkSession, cluster: FileCluster, tmp_path: Path
) -> None:
    batches = Batches()
    query = run(spark, tmp_path / "checkpoint", batches, maxOffsetsPerTrigger="20")
    assert {batch_id: len(values) for batch_id, values in batches.values.items()} == {0: 20, 1: 20}
    assert batches.all == expected(range(30), range(10))
    [first], [last] = (progress_of(each) for each in query.recentProgress[:2])
    assert (first.records, first.total_lag) == (20, 20)
    assert (last.records, last.total_lag) == (20, 0)


@pytest.mark.slow
def test_a_restarted_query_goes_on_where_it_stopped(spark: SparkSession, cluster: FileCluster, tmp_path: Path) -> None:
    first, second = Batches(), Batches()
    run(spark, tmp_path / "checkpoint", first)
    cluster.append("a", 0, ["a0-30", "a0-31"])
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 2, ["a2-0"])
    run(spark, tmp_path / "checkpoint", second)
    assert first.all == expected(range(30), range(10))
    assert second.all == ["a0-30", "a0-31", "a2-0"]


@pytest.mark.slow
def test_a_batch_that_failed_is_read_again_record_for_record(
    spark: SparkSession, cluster: FileCluster, tmp_path: Path
) -> None:
    batches = Batches()
    query = start(spark, tmp_path / "checkpoint", batches, fail_at=1, maxOffsetsPerTrigger="8")
    with pytest.raises(PySparkException, match="the sink is gone"):
        query.awaitTermination(TIMEOUT_S)
    assert sorted(batches.values) == [0]
    cluster.append("a", 0, ["a0-30"])
    run(spark, tmp_path / "checkpoint", batches, maxOffsetsPerTrigger="40")
    assert {batch_id: len(values) for batch_id, values in batches.values.items()} == {0: 8, 1: 8, 2: 25}
    assert batches.all == expected(range(31), range(10))


@pytest.mark.slow
def test_a_latest_start_stays_where_it_was_when_the_first_batch_fails(
    spark: SparkSession, cluster: FileCluster, tmp_path: Path
) -> None:
    checkpoint, batches = tmp_path / "checkpoint", Batches()
    with pytest.raises(PySparkException, match="the sink is gone"):
        start(spark, checkpoint, batches, fail_at=0, startingOffsets="latest").awaitTermination(TIMEOUT_S)
    cluster.append("a", 0, ["meanwhile"])
    run(spark, checkpoint, batches, startingOffsets="latest")
    assert batches.values == {0: [], 1: ["meanwhile"]}


def test_a_stream_that_runs_on_sees_what_arrives(spark: SparkSession, cluster: FileCluster, tmp_path: Path) -> None:
    batches = Batches()
    stream = spark.readStream.format("kraft").options(**OPTIONS).load()
    writer = stream.writeStream.foreachBatch(batches.write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        query.processAllAvailable()
        assert batches.all == [], "a stream begins with what arrives from now on"
        cluster.append("a", 1, ["a1-10"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert batches.all == ["a1-10"]


@pytest.mark.slow
def test_deleted_records_end_the_query_with_their_offsets(
    spark: SparkSession, cluster: FileCluster, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(PySparkException, match="the sink is gone"):
        start(spark, checkpoint, Batches(), fail_at=0).awaitTermination(TIMEOUT_S)
    cluster.delete_records_before("a", 0, 5)
    with pytest.raises(PySparkException, match="offsets 0 to 4 of a-0 were deleted before they were read"):
        start(spark, checkpoint, Batches()).awaitTermination(TIMEOUT_S)
    batches = Batches()
    query = run(spark, checkpoint, batches, failOnDataLoss="false")
    assert batches.all == expected(range(5, 30), range(10))
    progress = query.lastProgress
    assert progress is not None
    [source] = progress["sources"]
    assert json.loads(source["endOffset"])["skipped"] == {"a": {"0": 5}}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"subscribe": "absent"}, "topic 'absent' does not exist"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "option kafka.auto.offset.reset is not supported: startingOffsets says",
        ),
        ({"maxOffsetPerTrigger": "9"}, "did you mean maxOffsetsPerTrigger?"),
    ],
)
def test_a_wrong_option_reaches_the_user_by_name(
    spark: SparkSession, cluster: FileCluster, options: dict[str, str], line: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.read.format("kraft").options(**{**OPTIONS, **options}).load().count()
    assert line in str(refused.value)


def test_a_stream_that_is_refused_says_why_in_its_last_error(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("kraft").options(**OPTIONS).schema("value STRING").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException) as refused:
        writer.start().awaitTermination(TIMEOUT_S)
    assert "column 'value' is binary in the kraft source, not string: cast it in the query" in str(refused.value)
    assert "UnboundLocalError" not in str(refused.value)
