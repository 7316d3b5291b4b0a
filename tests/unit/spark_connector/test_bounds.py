from __future__ import annotations

from pathlib import Path

import pytest

from kraft.client import TopicPartition
from spark_connector.bounds import partitions_of, resolve
from spark_connector.cluster import TopicMissing
from spark_connector.options import Edge, OptionError
from tests.support.file_cluster import ConnectedFileCluster, FileCluster

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def cluster(tmp_path: Path) -> ConnectedFileCluster:
    """Topic `a`: offsets 2 to 4 in partition 0, 0 to 0 in partition 1."""
    files = FileCluster(tmp_path)
    files.create_topic("a", partitions=2)
    files.append("a", 0, ["v"] * 5)
    files.append("a", 1, ["v"])
    files.delete_records_before("a", 0, 2)
    return files([])


def test_partitions_come_in_the_order_of_topics_and_numbers(cluster: ConnectedFileCluster) -> None:
    assert partitions_of(cluster, ["a"]) == [A0, A1]


def test_a_missing_topic_is_named(cluster: ConnectedFileCluster) -> None:
    with pytest.raises(TopicMissing, match="topic 'absent' does not exist"):
        partitions_of(cluster, ["a", "absent"])


def test_an_edge_is_looked_up_in_every_partition(cluster: ConnectedFileCluster) -> None:
    assert resolve(cluster, "startingOffsets", Edge.EARLIEST, [A0, A1]) == {A0: 2, A1: 0}
    assert resolve(cluster, "startingOffsets", Edge.LATEST, [A0, A1]) == {A0: 5, A1: 1}


def test_explicit_offsets_stand_and_their_edges_are_looked_up(cluster: ConnectedFileCluster) -> None:
    assert resolve(cluster, "startingOffsets", {A0: 4, A1: -2}, [A0, A1]) == {A0: 4, A1: 0}
    assert resolve(cluster, "startingOffsets", {A0: -1, A1: -2}, [A0, A1]) == {A0: 5, A1: 0}


def test_a_partition_without_an_explicit_offset_is_named(cluster: ConnectedFileCluster) -> None:
    with pytest.raises(OptionError, match="option endingOffsets has no offset for a-1: give one for every partition"):
        resolve(cluster, "endingOffsets", {A0: 4}, [A0, A1])


def test_an_explicit_offset_of_a_partition_that_is_not_read_is_named(cluster: ConnectedFileCluster) -> None:
    surplus = {TopicPartition("b", number): 0 for number in range(7)}
    with pytest.raises(OptionError, match=r"has offsets for b-0, b-1, b-2, b-3, b-4 and 2 more, which"):
        resolve(cluster, "startingOffsets", {A0: 0, A1: 0, **surplus}, [A0, A1])
