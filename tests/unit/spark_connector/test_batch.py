from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping

import pytest
from pyspark.sql.datasource import InputPartition

from spark_connector import subscription
from spark_connector.arrow import source_schema
from spark_connector.batch import KraftBatchReader
from spark_connector.cluster import TopicMissing
from spark_connector.data_loss import DataLoss
from spark_connector.options import batch_options
from spark_connector.patience import Patience
from tests.support.file_cluster import FileCluster


def needs_topic(options: Mapping[str, str]) -> bool:
    return not {"subscribePattern", "assign"} & set(options)


def reader(cluster: FileCluster, **options: str) -> KraftBatchReader:
    given = {"bootstrap.servers": "localhost:9094", **({"subscribe": "a"} if needs_topic(options) else {}), **options}
    parsed = dataclasses.replace(batch_options(given), patience=Patience(settle_s=0.0))
    return KraftBatchReader(parsed, source_schema(include_headers=False), cluster)


def values(planned: KraftBatchReader) -> list[str]:
    """Return what the tasks read, each with a pickled copy of its reader and range."""
    read: list[str] = []
    for partition in planned.partitions():
        copy, own = pickle.loads(pickle.dumps((planned, partition)))  # noqa: S301 - the bytes are our own
        read += [value.decode() for batch in copy.read(own) for value in batch["value"].to_pylist()]
    return read


def test_explicit_offsets_bound_the_read(cluster: FileCluster) -> None:
    bounded = reader(cluster, startingOffsets='{"a": {"0": 28, "1": -2}}', endingOffsets='{"a": {"0": -1, "1": 2}}')
    assert values(bounded) == ["a0-28", "a0-29", "a1-0", "a1-1"]


def test_a_start_above_the_end_of_the_log_is_a_loss(cluster: FileCluster) -> None:
    start = '{"a": {"0": 31, "1": 10}}'
    with pytest.raises(DataLoss, match="a-0 ends at offset 30, below offset 31, its start"):
        values(reader(cluster, startingOffsets=start))
    assert values(reader(cluster, startingOffsets=start, failOnDataLoss="false")) == []
    assert values(reader(cluster, startingOffsets='{"a": {"0": 30, "1": 10}}')) == [], "the end itself is none"


def test_an_empty_topic_plans_nothing_and_sparks_stand_in_task_reads_nothing(cluster: FileCluster) -> None:
    cluster.create_topic("empty", partitions=1)
    empty = reader(cluster, subscribe="empty")
    assert empty.partitions() == []
    assert list(empty.read(InputPartition(None))) == []


def test_times_bound_the_read(cluster: FileCluster) -> None:
    cluster.create_topic("t", partitions=1)
    for second in range(5):
        cluster.append("t", 0, [f"t-{second}"], timestamp_ms=1000 * second)
    bounded = reader(cluster, subscribe="t", startingTimestamp="1000", endingTimestamp="2500")
    assert values(bounded) == ["t-1", "t-2"]
    assert values(reader(cluster, subscribe="t", endingTimestamp="99000")) == [f"t-{second}" for second in range(5)]


def test_an_end_above_the_end_of_the_log_is_answered_by_the_policy(cluster: FileCluster) -> None:
    ends = {"endingOffsets": '{"a": {"0": 31, "1": 10}}', "startingOffsets": '{"a": {"0": 29, "1": 9}}'}
    with pytest.raises(DataLoss, match="a-0 ends at offset 30, offsets 30 to 30 are lost"):
        reader(cluster, **ends).partitions()
    assert values(reader(cluster, **ends, failOnDataLoss="false")) == ["a0-29", "a1-9"]


def test_a_start_below_the_start_of_the_log_is_answered_by_the_policy(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 28)
    given = {"startingOffsets": '{"a": {"0": 3, "1": 9}}'}
    with pytest.raises(DataLoss, match="offsets 3 to 27 of a-0 were deleted before they were read"):
        reader(cluster, **given).partitions()
    assert values(reader(cluster, **given, failOnDataLoss="false")) == ["a0-28", "a0-29", "a1-9"]


def test_topics_of_a_pattern_and_assigned_partitions_are_read(cluster: FileCluster) -> None:
    assert len(values(reader(cluster, subscribePattern="a"))) == 40
    assert len(values(reader(cluster, assign='{"a": [1]}'))) == 10
    assert values(reader(cluster, subscribePattern="z")) == []


def test_large_partitions_are_split_into_tasks(cluster: FileCluster) -> None:
    assert len(reader(cluster, minPartitions="8").partitions()) == 8
    assert len(reader(cluster, maxRecordsPerPartition="10").partitions()) == 4


def test_a_missing_topic_is_named(cluster: FileCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "MISSING_TOPIC_GRACE_S", 0.0)
    with pytest.raises(TopicMissing, match="'absent'"):
        reader(cluster, subscribe="a,absent").partitions()
