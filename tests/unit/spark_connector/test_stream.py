from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMinRows

from spark_connector.data_loss import DataLoss
from spark_connector.patience import Patience
from tests.support.file_cluster import ConnectedFileCluster, FileCluster
from tests.unit.spark_connector.stream_reading import A0, A1, at, end_of, reader, topics, values


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"a": {"0": 0, "1": 0}}'},
        {"startingTimestamp": "0"},
        {"startingOffsetsByTimestamp": '{"a": {"0": 0, "1": 0}}', "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_an_empty_first_batch_stays_empty_whatever_the_next_run_starts_with(
    cluster: FileCluster, options: dict[str, str]
) -> None:
    first_run = reader(cluster, startingOffsets="latest")
    end = end_of(first_run, first_run.initialOffset())
    assert first_run.partitions(first_run.initialOffset(), end) == []
    assert end_of(first_run, end) == end
    cluster.append("a", 0, ["new"])
    other_run = reader(cluster, **options)
    assert values(other_run, other_run.initialOffset(), end) == []
    assert values(other_run, end, end_of(other_run, end)) == ["new"]


# --- limits ---------------------------------------------------------------------------------------------------


def test_the_trigger_limit_may_be_one_of_bytes(cluster: FileCluster) -> None:
    cluster.create_topic("large", partitions=1)
    cluster.append("large", 0, ["x" * 100] * 30)
    stream = reader(cluster, subscribe="large", maxBytesPerTrigger="1000")
    assert stream.getDefaultReadLimit() == ReadMaxBytes(1000)
    start = {"version": 1, "topics": {"large": {"0": 5}}}
    assert topics(end_of(stream, start)) == {"large": {"0": 15}}
    assert topics(end_of(reader(cluster, maxBytesPerTrigger="1000000"), at(0, 0))) == {"a": {"0": 30, "1": 10}}


def test_a_trigger_waits_for_the_fewest_records_but_not_the_first_one(cluster: FileCluster) -> None:
    stream = reader(cluster, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="30")
    first = end_of(stream, at(28, 10))
    assert topics(first) == {"a": {"0": 30, "1": 10}}
    cluster.append("a", 0, ["new"] * 4)
    assert end_of(stream, first) == first
    cluster.append("a", 1, ["new"])
    assert topics(end_of(stream, first)) == {"a": {"0": 34, "1": 11}}
    assert reader(cluster, minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)


def test_a_read_limit_that_the_source_never_asked_for_is_refused(cluster: FileCluster) -> None:
    with pytest.raises(NotImplementedError, match="ReadMinRows"):
        reader(cluster).latestOffset(at(0, 0), ReadMinRows(5))


def test_a_batch_reads_exactly_what_lies_between_its_offsets(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert values(stream, at(27, 8), at(29, 10)) == ["a0-27", "a0-28", "a1-8", "a1-9"]
    assert stream.partitions(at(3, 3), at(3, 3)) == []


def test_a_batch_is_split_into_the_tasks_that_were_asked_for(cluster: FileCluster) -> None:
    stream = reader(cluster, minPartitions="4", maxRecordsPerPartition="16")
    assert len(stream.partitions(at(0, 0), at(30, 10))) == 5
    assert len(values(stream, at(0, 0), at(30, 10))) == 40


def test_available_now_reads_a_topic_that_the_broker_did_not_know_at_first(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = reader(cluster)
    with monkeypatch.context() as young:
        young.setattr(ConnectedFileCluster, "topics", lambda self, names: {})
        stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = end_of(stream, start)
    assert len(values(stream, start, end)) == 40
    cluster.append("a", 0, ["later"])
    assert end_of(stream, end) == end


def test_progress_shows_the_latest_offsets_and_not_only_the_batch_s(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert stream.reportLatestOffset() is None
    stream.latestOffset(at(0, 0), ReadAllAvailable())
    assert topics(stream.reportLatestOffset()) == {"a": {"0": 30, "1": 10}}


# --- topics and partitions that come and go --------------------------------------------------------------------


def test_an_idle_stream_looks_up_offsets_only_until_it_is_time_to_look_for_new_partitions(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def noted(name: str) -> Callable[[ConnectedFileCluster, Any], Any]:
        call = getattr(ConnectedFileCluster, name)

        def note(self: ConnectedFileCluster, of: Any) -> Any:
            calls.append(name)
            return call(self, of)

        return note

    for name in ("topics", "latest_offsets", "earliest_offsets"):
        monkeypatch.setattr(ConnectedFileCluster, name, noted(name))
    stream = reader(cluster, Patience(settle_s=0.0, topics_age_s=3_600.0))
    before = end_of(stream, at(0, 0))
    assert calls == ["topics", "latest_offsets", "earliest_offsets"]
    calls.clear()
    assert end_of(stream, before) == before
    assert calls == ["latest_offsets"]
    cluster.append("a", 0, ["new"])
    assert topics(end_of(stream, before)) == {"a": {"0": 31, "1": 10}}
    cluster.delete_topic("a")
    with pytest.raises(DataLoss, match="topic 'a' does not exist any more"):
        end_of(stream, before)


# --- the consumer group ---------------------------------------------------------------------------------------


def test_progress_is_shown_in_the_group_that_was_named(cluster: FileCluster) -> None:
    stream = reader(cluster, **{"kafka.group.id": "billing", "maxOffsetsPerTrigger": "20"})
    first = end_of(stream, stream.initialOffset())
    stream.stop()
    assert cluster.committed("billing") == {A0: 0, A1: 0}
    again = reader(cluster, **{"kafka.group.id": "billing", "maxOffsetsPerTrigger": "20"})
    second = end_of(again, first)
    again.commit(first)
    again.stop()
    assert cluster.committed("billing") == {A0: 15, A1: 5}
    last = reader(cluster, **{"kafka.group.id": "billing"})
    assert end_of(last, second) == second, "AvailableNow ends with this, and without a commit"
    last.stop()
    assert cluster.committed("billing") == {A0: 30, A1: 10}


def test_a_group_with_a_prefix_is_generated_once_for_a_query(cluster: FileCluster) -> None:
    stream = reader(cluster, groupIdPrefix="billing")
    first = end_of(stream, stream.initialOffset())
    assert first["group"].startswith("billing-")
    cluster.append("a", 0, ["new"])
    again = reader(cluster, groupIdPrefix="billing")
    assert end_of(again, first)["group"] == first["group"]
    again.stop()
    stream.stop()
    assert cluster.committed(first["group"]) in ({A0: 0, A1: 0}, {A0: 30, A1: 10})


def test_another_prefix_gives_a_query_another_group(cluster: FileCluster) -> None:
    stream = reader(cluster, groupIdPrefix="billing")
    first = end_of(stream, stream.initialOffset())
    cluster.append("a", 0, ["new"])
    again = reader(cluster, groupIdPrefix="invoices")
    assert end_of(again, first)["group"].startswith("invoices-")
    again.stop()
    stream.stop()


def test_stopping_closes_the_connection(cluster: FileCluster) -> None:
    stream = reader(cluster)
    connected = stream._cluster()
    stream.stop()
    assert isinstance(connected, ConnectedFileCluster)
    assert connected.closed
