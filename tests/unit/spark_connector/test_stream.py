from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kraft.client import TopicPartition
from spark_connector.arrow import source_schema
from spark_connector.cluster import TopicMissing
from spark_connector.data_loss import DataLoss
from spark_connector.options import stream_options
from spark_connector.stream import KraftStreamReader
from tests.support.file_cluster import ConnectedFileCluster, FileCluster


@pytest.fixture(autouse=True)
def nothing_settles_by_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KraftStreamReader, "settle_timeout_s", 0.0)
    monkeypatch.setattr(KraftStreamReader, "settle_poll_s", 0.0)


def reader(cluster: FileCluster, **options: str) -> KraftStreamReader:
    given = {"bootstrap.servers": "localhost:9094", "subscribe": "a", "startingOffsets": "earliest", **options}
    return KraftStreamReader(stream_options(given), source_schema(include_headers=False), cluster)


def at(first: int, second: int) -> dict[str, Any]:
    return {"version": 1, "topics": {"a": {"0": first, "1": second}}}


def values(stream: KraftStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """Return what the tasks of one micro-batch read, each with a pickled copy of its reader and range."""
    read: list[str] = []
    for partition in stream.partitions(start, end):
        copy, own = pickle.loads(pickle.dumps((stream, partition)))  # noqa: S301 - the bytes are our own
        read += [value.decode() for batch in copy.read(own) for value in batch["value"].to_pylist()]
    return read


def test_a_latest_start_does_not_move_when_spark_asks_again(cluster: FileCluster) -> None:
    stream = reader(cluster, startingOffsets="latest")
    assert stream.initialOffset() == at(30, 10)
    cluster.append("a", 0, ["later"])
    assert stream.initialOffset() == at(30, 10)


def test_the_first_batch_is_read_again_as_it_was_although_latest_has_moved(cluster: FileCluster) -> None:
    first_run = reader(cluster, startingOffsets="latest")
    start = first_run.initialOffset()
    cluster.append("a", 0, ["first"])
    end = first_run.latestOffset(start, ReadAllAvailable())
    cluster.append("a", 0, ["second"])
    after_a_crash = reader(cluster, startingOffsets="latest")
    assert values(after_a_crash, after_a_crash.initialOffset(), end) == ["first"]
    then = after_a_crash.latestOffset(end, ReadAllAvailable())
    assert values(after_a_crash, end, then) == ["second"]
    assert after_a_crash.latestOffset(then, ReadAllAvailable()) == then
    assert values(after_a_crash, end, end) == []


def test_an_earliest_start_is_the_first_record_that_is_still_there(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 4)
    assert reader(cluster).initialOffset() == at(4, 0)


def test_a_missing_topic_is_named_at_the_start(cluster: FileCluster) -> None:
    with pytest.raises(TopicMissing, match="'absent'"):
        reader(cluster, subscribe="absent").initialOffset()


def test_without_a_limit_a_batch_takes_what_there_is(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert stream.getDefaultReadLimit() == ReadAllAvailable()
    assert stream.latestOffset(at(0, 0), ReadAllAvailable()) == at(30, 10)


def test_the_trigger_limit_is_shared_out_over_the_partitions(cluster: FileCluster) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20")
    assert stream.getDefaultReadLimit() == ReadMaxRows(20)
    assert stream.latestOffset(at(0, 0), ReadMaxRows(20)) == at(15, 5)


def test_a_trigger_that_asks_for_everything_ignores_the_limit(cluster: FileCluster) -> None:
    assert reader(cluster, maxOffsetsPerTrigger="20").latestOffset(at(0, 0), ReadAllAvailable()) == at(30, 10)


def test_a_read_limit_that_the_source_never_asked_for_is_refused(cluster: FileCluster) -> None:
    with pytest.raises(NotImplementedError, match="ReadMinRows"):
        reader(cluster).latestOffset(at(0, 0), ReadMinRows(5))


def test_a_batch_reads_exactly_what_lies_between_its_offsets(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert values(stream, at(27, 8), at(29, 10)) == ["a0-27", "a0-28", "a1-8", "a1-9"]
    assert stream.partitions(at(3, 3), at(3, 3)) == []


def test_nothing_new_gives_the_very_offset_that_spark_started_from(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert stream.latestOffset(at(30, 10), stream.getDefaultReadLimit()) == at(30, 10)


def test_available_now_ends_at_what_was_there_when_it_began(cluster: FileCluster) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20")
    stream.prepareForTriggerAvailableNow()
    cluster.append("a", 0, ["later"] * 100)
    position, steps = at(0, 0), 0
    while (end := stream.latestOffset(position, ReadMaxRows(20))) != position:
        position, steps = end, steps + 1
    assert position == at(30, 10)
    assert steps == 2


def test_progress_shows_the_latest_offsets_and_not_only_the_batch_s(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert stream.reportLatestOffset() is None
    stream.latestOffset(at(0, 0), ReadMaxRows(20))
    assert stream.reportLatestOffset() == at(30, 10)


def test_an_added_partition_is_read_from_its_first_record(cluster: FileCluster) -> None:
    stream = reader(cluster)
    before = stream.latestOffset(at(0, 0), ReadAllAvailable())
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 2, ["new"])
    after = stream.latestOffset(before, ReadAllAvailable())
    assert values(stream, before, after) == ["new"]


def test_a_log_that_is_shorter_than_what_was_read_fails_the_query_by_name(cluster: FileCluster) -> None:
    with pytest.raises(
        DataLoss,
        match="a-0 ends at offset 30, below the query's offset 99: the log was truncated by an unclean election",
    ):
        reader(cluster).latestOffset(at(99, 0), ReadAllAvailable())


def test_a_shorter_log_is_followed_and_logged_when_losses_are_allowed(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "spark_connector"):
        end = stream.latestOffset(at(99, 0), ReadAllAvailable())
    assert end == at(30, 10)
    assert "a-0 ends at offset 30, below the query's offset 99" in caplog.text
    assert values(stream, at(99, 9), end) == ["a1-9"]


def test_a_new_leader_that_is_behind_for_a_moment_loses_nothing(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = TopicPartition("a", 0)
    answers = iter([{behind: 20, TopicPartition("a", 1): 10}, {behind: 25}, {behind: 30}])
    monkeypatch.setattr(ConnectedFileCluster, "latest_offsets", lambda self, partitions: next(answers))
    monkeypatch.setattr(KraftStreamReader, "settle_timeout_s", 10.0)
    assert reader(cluster).latestOffset(at(30, 5), ReadAllAvailable()) == at(30, 10)


def test_a_topic_deleted_under_the_query_fails_it_by_name(cluster: FileCluster) -> None:
    stream = reader(cluster)
    cluster.delete_topic("a")
    with pytest.raises(TopicMissing, match="'a'"):
        stream.latestOffset(at(0, 0), ReadAllAvailable())


def test_a_deleted_topic_is_dropped_and_read_again_if_losses_are_allowed(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    cluster.delete_topic("a")
    with caplog.at_level(logging.WARNING, "spark_connector"):
        gone = stream.latestOffset(at(30, 10), ReadAllAvailable())
        assert stream.latestOffset(gone, ReadAllAvailable()) == gone
    assert caplog.text.count("topic 'a' does not exist") == 1
    assert "a-0 does not exist any more; the query's offset there is 30" in caplog.text
    cluster.create_topic("a", partitions=1)
    cluster.append("a", 0, ["again"])
    assert values(stream, gone, stream.latestOffset(gone, ReadAllAvailable())) == ["again"]


def test_stopping_closes_the_connection(cluster: FileCluster) -> None:
    stream = reader(cluster)
    connected = stream._cluster()
    stream.stop()
    assert isinstance(connected, ConnectedFileCluster)
    assert connected.closed
