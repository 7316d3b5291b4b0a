from __future__ import annotations

from pathlib import Path

import pytest

from kraft.client import TopicPartition
from spark_connector.bounds import Bound, ExplicitOffsets, FirstAt, refuse_end_before_start, resolve
from spark_connector.given import OptionError
from spark_connector.offsets import Offsets
from tests.support.file_cluster import ConnectedFileCluster, FileCluster

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def cluster(tmp_path: Path) -> ConnectedFileCluster:
    """Topic `a`: offsets 2 to 4 in partition 0, 0 to 0 in partition 1; record n is of second n."""
    files = FileCluster(tmp_path)
    files.create_topic("a", partitions=2)
    for number in range(5):
        files.append("a", 0, ["v"], timestamp_ms=1000 * number)
    files.append("a", 1, ["v"], timestamp_ms=0)
    files.delete_records_before("a", 0, 2)
    return files([])


def explicit(offsets: Offsets, option: str = "startingOffsets") -> ExplicitOffsets:
    return ExplicitOffsets(option=option, offsets=offsets)


def first_at(timestamps_ms: int | Offsets, *, else_latest: bool = False) -> FirstAt:
    return FirstAt(option="startingOffsetsByTimestamp", timestamps_ms=timestamps_ms, else_latest=else_latest)


def test_explicit_offsets_stand_and_their_edges_are_looked_up(cluster: ConnectedFileCluster) -> None:
    assert resolve(cluster, explicit({A0: 4, A1: -2}), [A0, A1]) == {A0: 4, A1: 0}
    assert resolve(cluster, explicit({A0: -1, A1: -2}), [A0, A1]) == {A0: 5, A1: 0}


def test_a_time_becomes_the_first_record_that_is_not_older(cluster: ConnectedFileCluster) -> None:
    assert resolve(cluster, first_at({A0: 2_500, A1: 0}), [A0, A1]) == {A0: 3, A1: 0}
    assert resolve(cluster, first_at(0), [A0, A1]) == {A0: 2, A1: 0}


def test_a_partition_with_older_records_only_is_an_error_or_starts_at_its_end(cluster: ConnectedFileCluster) -> None:
    with pytest.raises(
        OptionError,
        match="option startingOffsetsByTimestamp: a-1 has no record at or after 1; "
        "startingOffsetsByTimestampStrategy=latest starts at its end",
    ):
        resolve(cluster, first_at(1), [A0, A1])
    assert resolve(cluster, first_at(4_001, else_latest=True), [A0, A1]) == {A0: 5, A1: 1}


@pytest.mark.parametrize("bound", [explicit({A0: 4}, "endingOffsets"), first_at({A0: 4})])
def test_a_partition_without_an_offset_or_a_time_is_named(cluster: ConnectedFileCluster, bound: Bound) -> None:
    with pytest.raises(OptionError, match="has nothing for a-1: give one for every partition"):
        resolve(cluster, bound, [A0, A1])


def test_an_explicit_offset_of_a_partition_that_is_not_read_is_named(cluster: ConnectedFileCluster) -> None:
    surplus = {TopicPartition("b", number): 0 for number in range(7)}
    with pytest.raises(OptionError, match=r"names b-0, b-1, b-2, b-3, b-4 and 2 more: the query does not read that"):
        resolve(cluster, explicit({A0: 0, A1: 0, **surplus}), [A0, A1])


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (explicit({A0: 5, A1: 0}), explicit({A0: 4, A1: 0}, "endingOffsets")),
        (first_at({A0: 5}), first_at({A0: 4})),
        (first_at(5), first_at(4)),
    ],
)
def test_an_end_before_the_start_is_refused(start: Bound, end: Bound) -> None:
    with pytest.raises(OptionError, match="before"):
        refuse_end_before_start(start, end)
