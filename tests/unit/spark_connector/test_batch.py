from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import InputPartition

from spark_connector.arrow import source_schema
from spark_connector.batch import KraftBatchReader
from spark_connector.cluster import TopicMissing
from spark_connector.options import batch_options
from tests.support.file_cluster import FileCluster


def reader(cluster: FileCluster, **options: str) -> KraftBatchReader:
    given = {"bootstrap.servers": "localhost:9094", "subscribe": "a", **options}
    return KraftBatchReader(batch_options(given), source_schema(include_headers=False), cluster)


def values(planned: KraftBatchReader) -> list[str]:
    """Return what the tasks read, each with a pickled copy of its reader and range."""
    read: list[str] = []
    for partition in planned.partitions():
        copy, own = pickle.loads(pickle.dumps((planned, partition)))  # noqa: S301 - the bytes are our own
        read += [value.decode() for batch in copy.read(own) for value in batch["value"].to_pylist()]
    return read


def test_everything_is_read_by_default(cluster: FileCluster) -> None:
    everything = [f"a0-{number}" for number in range(30)] + [f"a1-{number}" for number in range(10)]
    assert values(reader(cluster)) == everything


def test_explicit_offsets_bound_the_read(cluster: FileCluster) -> None:
    bounded = reader(cluster, startingOffsets='{"a": {"0": 28, "1": -2}}', endingOffsets='{"a": {"0": -1, "1": 2}}')
    assert values(bounded) == ["a0-28", "a0-29", "a1-0", "a1-1"]


def test_an_empty_topic_plans_nothing_and_sparks_stand_in_task_reads_nothing(cluster: FileCluster) -> None:
    cluster.create_topic("empty", partitions=1)
    empty = reader(cluster, subscribe="empty")
    assert empty.partitions() == []
    assert list(empty.read(InputPartition(None))) == []


def test_a_missing_topic_is_named(cluster: FileCluster) -> None:
    with pytest.raises(TopicMissing, match="'absent'"):
        reader(cluster, subscribe="a,absent").partitions()
