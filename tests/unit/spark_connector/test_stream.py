from __future__ import annotations

import dataclasses
import logging
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from kraft.client import TopicPartition
from spark_connector import subscription
from spark_connector.arrow import source_schema
from spark_connector.cluster import Topic, TopicMissing
from spark_connector.data_loss import DataLoss
from spark_connector.offsets import Offsets
from spark_connector.options import stream_options
from spark_connector.patience import Patience
from spark_connector.stream import KraftStreamReader
from tests.support.file_cluster import ConnectedFileCluster, FileCluster

AT_ONCE = Patience(settle_s=0.0, poll_s=0.0, topics_age_s=0.0)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def reader(cluster: FileCluster, patience: Patience = AT_ONCE, /, **options: str) -> KraftStreamReader:
    given = {"bootstrap.servers": "localhost:9094", "subscribe": "a", "startingOffsets": "earliest", **options}
    if "subscribePattern" in given or "assign" in given:
        del given["subscribe"]
    parsed = dataclasses.replace(stream_options(given), patience=patience)
    return KraftStreamReader(parsed, source_schema(include_headers=False), cluster)


def at(first: int, second: int) -> dict[str, Any]:
    """A position of version 1, which has no topic ids."""
    return {"version": 1, "topics": {"a": {"0": first, "1": second}}}


def topics(document: dict[str, Any] | None) -> dict[str, dict[str, int]]:
    assert document is not None
    found: dict[str, dict[str, int]] = document["topics"]
    return found


def end_of(stream: KraftStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def values(stream: KraftStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """Return what the tasks of one micro-batch read, each with a pickled copy of its reader and range."""
    read: list[str] = []
    for partition in stream.partitions(start, end):
        copy, own = pickle.loads(pickle.dumps((stream, partition)))  # noqa: S301 - the bytes are our own
        read += [value.decode() for batch in copy.read(own) for value in batch["value"].to_pylist()]
    return read


def test_a_latest_start_does_not_move_when_spark_asks_again(cluster: FileCluster) -> None:
    stream = reader(cluster, startingOffsets="latest")
    assert topics(stream.initialOffset()) == {"a": {"0": 30, "1": 10}}
    cluster.append("a", 0, ["later"])
    assert topics(stream.initialOffset()) == {"a": {"0": 30, "1": 10}}


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


def test_an_earliest_start_is_the_first_record_that_is_still_there(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 4)
    assert topics(reader(cluster).initialOffset()) == {"a": {"0": 4, "1": 0}}


def test_a_missing_topic_is_named_at_the_start(cluster: FileCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "MISSING_TOPIC_GRACE_S", 0.0)
    with pytest.raises(TopicMissing, match="'absent'"):
        reader(cluster, subscribe="absent").initialOffset()


# --- limits ---------------------------------------------------------------------------------------------------


def test_without_a_limit_a_batch_takes_what_there_is(cluster: FileCluster) -> None:
    stream = reader(cluster)
    assert stream.getDefaultReadLimit() == ReadAllAvailable()
    assert topics(end_of(stream, at(0, 0))) == {"a": {"0": 30, "1": 10}}


def test_the_trigger_limit_is_shared_out_over_the_partitions(cluster: FileCluster) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20")
    assert stream.getDefaultReadLimit() == ReadMaxRows(20)
    assert topics(stream.latestOffset(at(0, 0), ReadMaxRows(20))) == {"a": {"0": 15, "1": 5}}


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


def test_available_now_does_not_wait_for_the_fewest_records(cluster: FileCluster) -> None:
    stream = reader(cluster, minOffsetsPerTrigger="5")
    stream.prepareForTriggerAvailableNow()
    first = end_of(stream, at(27, 10))
    assert topics(first) == {"a": {"0": 30, "1": 10}}
    assert end_of(stream, first) == first


def test_a_trigger_that_asks_for_everything_ignores_the_limits(cluster: FileCluster) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20", maxBytesPerTrigger="1")
    assert topics(stream.latestOffset(at(0, 0), ReadAllAvailable())) == {"a": {"0": 30, "1": 10}}


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


def test_nothing_new_gives_the_very_offset_that_spark_started_from(cluster: FileCluster) -> None:
    assert end_of(reader(cluster), at(30, 10)) == at(30, 10)


def test_available_now_ends_at_what_was_there_when_it_began(cluster: FileCluster) -> None:
    stream = reader(cluster, maxOffsetsPerTrigger="20")
    stream.prepareForTriggerAvailableNow()
    cluster.append("a", 0, ["later"] * 100)
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 2, ["later"])
    position, steps = at(0, 0), 0
    while (end := stream.latestOffset(position, ReadMaxRows(20))) != position:
        position, steps = end, steps + 1
    assert topics(position) == {"a": {"0": 30, "1": 10}}
    assert steps == 2


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


def test_an_added_partition_is_read_from_its_first_record(cluster: FileCluster) -> None:
    stream = reader(cluster)
    before = end_of(stream, at(0, 0))
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 2, ["new"])
    after = end_of(stream, before)
    assert values(stream, before, after) == ["new"]
    assert end_of(stream, after) == after


def test_records_of_an_added_partition_that_were_deleted_are_a_loss(cluster: FileCluster) -> None:
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 2, ["new"] * 9)
    cluster.delete_records_before("a", 2, 4)
    with pytest.raises(DataLoss, match="offsets 0 to 3 of a-2 were deleted before they were read"):
        end_of(reader(cluster), at(30, 10))


def test_a_topic_that_a_pattern_matches_later_is_read_from_its_earliest_record(cluster: FileCluster) -> None:
    stream = reader(cluster, subscribePattern="a|b.*")
    before = end_of(stream, stream.initialOffset())
    cluster.create_topic("b2", partitions=1)
    cluster.append("b2", 0, ["old", "new"])
    cluster.delete_records_before("b2", 0, 1)
    after = end_of(stream, before)
    assert values(stream, before, after) == ["new"]
    assert "skipped" not in after, "what was deleted before the query read the topic is no loss"
    assert values(reader(cluster, subscribePattern="a|b.*"), before, after) == ["new"], "and again after a crash"


def test_only_assigned_partitions_are_read(cluster: FileCluster) -> None:
    stream = reader(cluster, assign='{"a": [1]}')
    start = stream.initialOffset()
    assert values(stream, start, end_of(stream, start)) == [f"a1-{number}" for number in range(10)]


def test_a_topic_deleted_under_the_query_fails_it_by_name(cluster: FileCluster) -> None:
    cluster.delete_topic("a")
    with pytest.raises(DataLoss, match=r"topic 'a' does not exist any more; .* failOnDataLoss=false"):
        end_of(reader(cluster), at(0, 0))


def test_a_topic_that_is_deleted_while_a_batch_is_planned_is_seen_to_be_missing(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    earliest = ConnectedFileCluster.earliest_offsets

    def delete_first(self: ConnectedFileCluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        cluster.delete_topic("a")
        return earliest(self, partitions)

    monkeypatch.setattr(ConnectedFileCluster, "earliest_offsets", delete_first)
    assert end_of(reader(cluster, failOnDataLoss="false"), at(3, 4)) == at(3, 4)


def test_an_assigned_partition_that_is_gone_fails_the_query_by_name(cluster: FileCluster) -> None:
    cluster.delete_topic("a")
    with pytest.raises(DataLoss, match="a-1 does not exist any more; the query's offset there is 7"):
        end_of(reader(cluster, assign='{"a": [1]}'), at(0, 7))


def test_a_deleted_topic_keeps_its_offsets_and_is_waited_for_once(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    stream = reader(cluster, Patience(settle_s=0.05, poll_s=0.01), failOnDataLoss="false")
    before = end_of(stream, at(0, 0))
    cluster.delete_topic("a")
    with caplog.at_level(logging.WARNING, "spark_connector"):
        assert end_of(stream, before) == before
        assert slept, "it may be a broker whose metadata is behind"
        slept.clear()
        assert end_of(stream, before) == before
        assert not slept
    assert caplog.text.count("topic 'a' does not exist any more (") == 1
    assert caplog.text.count("a-0 does not exist any more; the query's offset there is 30") == 1


def test_a_partition_that_is_missing_in_one_answer_is_waited_for_and_never_read_again(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = ConnectedFileCluster.topics
    answers = iter([False, False])

    def behind(self: ConnectedFileCluster, names: Sequence[str] | None) -> dict[str, Topic]:
        found = everything(self, names)
        if next(answers, True):
            return found
        return {name: dataclasses.replace(topic, partitions=(0,)) for name, topic in found.items()}

    monkeypatch.setattr(ConnectedFileCluster, "topics", behind)
    stream = reader(cluster, Patience(settle_s=10.0, poll_s=0.0))
    assert topics(end_of(stream, at(0, 5))) == {"a": {"0": 30, "1": 10}}


def test_a_partition_that_is_missing_for_long_continues_where_it_was(cluster: FileCluster) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    hidden = cluster.directory / "a" / "1.jsonl"
    before = end_of(stream, at(0, 0))
    hidden.rename(hidden.with_suffix(".hidden"))
    cluster.append("a", 0, ["new"])
    without = end_of(stream, before)
    assert topics(without) == {"a": {"0": 31, "1": 10}}
    hidden.with_suffix(".hidden").rename(hidden)
    cluster.append("a", 1, ["after"])
    assert values(stream, without, end_of(stream, without)) == ["after"]


# --- losses ---------------------------------------------------------------------------------------------------


def test_deleted_records_are_found_when_a_batch_is_planned(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 5)
    with pytest.raises(DataLoss, match="offsets 2 to 4 of a-0 were deleted before they were read"):
        end_of(reader(cluster), at(2, 0))


def test_what_was_skipped_is_counted_in_the_querys_progress(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 5)
    stream = reader(cluster, failOnDataLoss="false", maxOffsetsPerTrigger="10")
    first = end_of(stream, at(2, 10))
    assert first["skipped"] == {"a": {"0": 3}}
    assert values(stream, at(2, 10), first) == [f"a0-{number}" for number in range(5, 15)]
    cluster.delete_records_before("a", 0, 20)
    second = end_of(stream, first)
    assert second["skipped"] == {"a": {"0": 8}}
    assert values(reader(cluster, failOnDataLoss="false"), first, second) == [f"a0-{each}" for each in range(20, 30)]
    assert end_of(stream, second) == second


def test_what_was_deleted_while_a_batch_was_read_is_counted_apart(cluster: FileCluster) -> None:
    stream = reader(cluster, failOnDataLoss="false", maxOffsetsPerTrigger="10")
    first = end_of(stream, at(0, 10))
    stream.partitions(at(0, 10), first)
    cluster.delete_records_before("a", 0, 4)
    second = end_of(stream, first)
    assert second["deletedWhileRead"] == {"a": {"0": 4}}
    assert "skipped" not in second
    stream.partitions(first, second)
    assert end_of(stream, second)["deletedWhileRead"] == {"a": {"0": 4}}


def test_a_batch_of_the_checkpoint_is_compared_with_what_is_left_of_it(cluster: FileCluster) -> None:
    planned = end_of(reader(cluster), at(0, 0))
    cluster.delete_records_before("a", 0, 5)
    cluster.truncate("a", 1, 7)
    with pytest.raises(DataLoss, match="offsets 0 to 4 of a-0 were deleted before they were read"):
        reader(cluster).partitions(at(0, 0), planned)
    stream = reader(cluster, failOnDataLoss="false")
    assert len(values(stream, at(0, 0), planned)) == 25 + 7
    counted = end_of(stream, planned)
    assert counted["skipped"] == {"a": {"0": 5, "1": 3}}
    assert end_of(stream, counted) == counted


def test_a_log_that_is_shorter_than_what_was_read_fails_the_query_by_name(cluster: FileCluster) -> None:
    with pytest.raises(
        DataLoss,
        match="a-0 ends at offset 30, below the query's offset 99: the log was truncated by an unclean election",
    ):
        end_of(reader(cluster), at(99, 0))


def test_a_shorter_log_is_followed_and_logged_when_losses_are_allowed(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "spark_connector"):
        end = end_of(stream, at(99, 9))
    assert topics(end) == {"a": {"0": 30, "1": 10}}
    assert "a-0 ends at offset 30, below the query's offset 99" in caplog.text
    assert values(stream, at(99, 9), end) == ["a1-9"]


def test_a_new_leader_that_is_behind_for_a_moment_loses_nothing(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([{A0: 20, A1: 10}, {A0: 25, A1: 10}, {A0: 30, A1: 10}])
    monkeypatch.setattr(ConnectedFileCluster, "latest_offsets", lambda self, partitions: next(answers))
    stream = reader(cluster, Patience(settle_s=10.0, poll_s=0.0))
    assert topics(end_of(stream, at(30, 5))) == {"a": {"0": 30, "1": 10}}


@pytest.mark.parametrize("records", [3, 50])
def test_a_topic_that_was_created_again_is_noticed_and_what_was_skipped_counted(
    cluster: FileCluster, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    start = reader(cluster).initialOffset()
    stream = reader(cluster, failOnDataLoss="false", maxOffsetsPerTrigger="20")
    before = end_of(stream, start)
    cluster.delete_topic("a")
    assert end_of(stream, before) == before
    cluster.create_topic("a", partitions=1)
    cluster.append("a", 0, [f"again-{number}" for number in range(records)])
    cluster.delete_records_before("a", 0, 1)
    with pytest.raises(DataLoss, match="topic 'a' was deleted and created again"):
        end_of(reader(cluster), before)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        after = stream.latestOffset(before, ReadAllAvailable())
    assert topics(after) == {"a": {"0": records}}
    assert "offsets 15 to 29 of a-0 were deleted with the topic" in caplog.text
    assert after["skipped"] == {"a": {"0": 15 + 1, "1": 5}}
    again = reader(cluster, failOnDataLoss="false")
    for one in (stream, again):
        assert values(one, before, after) == [f"again-{number}" for number in range(1, records)]
    assert end_of(stream, after) == after


def test_a_topic_that_was_created_again_is_reported_once_however_little_it_has(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(cluster, failOnDataLoss="false", minOffsetsPerTrigger="100")
    before = end_of(stream, stream.initialOffset())
    cluster.delete_topic("a")
    cluster.create_topic("a", partitions=2)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        after = end_of(stream, before)
        assert end_of(stream, after) == after
    assert topics(after) == {"a": {"0": 0, "1": 0}}
    assert caplog.text.count("was deleted and created again") == 1


def test_a_batch_of_a_topic_that_was_created_again_reads_nothing_of_the_new_one(cluster: FileCluster) -> None:
    start = reader(cluster).initialOffset()
    planned = end_of(reader(cluster), start)
    cluster.delete_topic("a")
    cluster.create_topic("a", partitions=2)
    cluster.append("a", 0, ["other"] * 100)
    with pytest.raises(DataLoss, match="a-0 is of a topic that was deleted and created again: offsets 0 to 29"):
        reader(cluster).partitions(start, planned)
    stream = reader(cluster, failOnDataLoss="false")
    assert values(stream, start, planned) == []
    after = end_of(stream, planned)
    assert after["skipped"] == {"a": {"0": 30, "1": 10}}
    assert values(stream, planned, after) == ["other"] * 100


def test_available_now_leaves_a_topic_that_was_created_again_to_the_next_run(cluster: FileCluster) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    start = stream.initialOffset()
    before = end_of(stream, start)
    stream.prepareForTriggerAvailableNow()
    cluster.delete_topic("a")
    cluster.create_topic("a", partitions=2)
    cluster.append("a", 0, ["new"])
    assert end_of(stream, before) == before
    assert values(reader(cluster), before, end_of(reader(cluster, failOnDataLoss="false"), before)) == ["new"]


def test_a_checkpoint_of_version_1_continues_as_one_with_topic_ids(cluster: FileCluster) -> None:
    stream = reader(cluster)
    end = end_of(stream, at(28, 10))
    assert values(stream, at(28, 10), end) == ["a0-28", "a0-29"]
    assert end["version"] == 2
    assert end["ids"] == {"a": (cluster.directory / "a" / "topic-id").read_text()}


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


def test_a_group_that_cannot_be_committed_to_does_not_disturb_the_query(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: ConnectedFileCluster, group_id: str, offsets: Offsets) -> None:
        raise OSError("no coordinator")

    monkeypatch.setattr(ConnectedFileCluster, "commit_offsets", refuse)
    stream = reader(cluster, **{"kafka.group.id": "billing"})
    assert topics(end_of(stream, at(0, 0))) == {"a": {"0": 30, "1": 10}}
    stream.stop()


def test_stopping_closes_the_connection(cluster: FileCluster) -> None:
    stream = reader(cluster)
    connected = stream._cluster()
    stream.stop()
    assert isinstance(connected, ConnectedFileCluster)
    assert connected.closed
