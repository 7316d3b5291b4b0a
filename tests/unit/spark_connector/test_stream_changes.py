"""Streams whose topics and partitions come and go, and whose records are lost."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kraft.client import TopicPartition
from spark_connector.cluster import Topic
from spark_connector.data_loss import DataLoss
from spark_connector.patience import Patience
from tests.support.file_cluster import ConnectedFileCluster, FileCluster
from tests.unit.spark_connector.stream_reading import A0, A1, at, end_of, reader, topics, values


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
    stream = reader(cluster, Patience(settle_s=0.05, poll_s=0.01, topics_age_s=0.0), failOnDataLoss="false")
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


def test_a_start_above_the_end_of_a_log_is_called_one(cluster: FileCluster) -> None:
    stream = reader(cluster, startingOffsets='{"a": {"0": 99, "1": 0}}')
    with pytest.raises(DataLoss, match="a-0 ends at offset 30, below offset 99, its start"):
        end_of(stream, stream.initialOffset())


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


def test_a_topic_that_is_missing_while_another_one_is_read_is_still_known_by_its_id(cluster: FileCluster) -> None:
    cluster.create_topic("b", partitions=1)
    cluster.append("b", 0, ["old"] * 3)
    stream = reader(cluster, failOnDataLoss="false", subscribe="a,b")
    before = end_of(stream, stream.initialOffset())
    cluster.delete_topic("b")
    cluster.append("a", 0, ["meanwhile"])
    without = end_of(stream, before)
    assert without["ids"]["b"] == before["ids"]["b"]
    cluster.create_topic("b", partitions=1)
    cluster.append("b", 0, ["new"] * 5)
    assert values(stream, without, end_of(stream, without)) == ["new"] * 5


def test_a_log_that_lacks_one_record_that_was_read_fails_the_query(cluster: FileCluster) -> None:
    with pytest.raises(DataLoss, match="a-0 ends at offset 30, below the query's offset 31"):
        end_of(reader(cluster), at(31, 10))


def test_an_idle_stream_notices_at_once_that_a_log_is_shorter(cluster: FileCluster) -> None:
    stream = reader(cluster, Patience(settle_s=0.0, poll_s=0.0, topics_age_s=3_600.0))
    end = end_of(stream, at(30, 10) | {"version": 2, "topics": {"a": {"0": 29, "1": 10}}})
    assert end_of(stream, end) == end
    cluster.truncate("a", 0, 20)
    with pytest.raises(DataLoss, match="a-0 ends at offset 20, below the query's offset 30"):
        end_of(stream, end)


def test_a_shorter_log_does_not_wait_for_the_fewest_records_so_that_it_is_reported_once(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(cluster, failOnDataLoss="false", minOffsetsPerTrigger="100")
    before = end_of(stream, stream.initialOffset())
    cluster.truncate("a", 0, 20)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        after = end_of(stream, before)
        assert end_of(stream, after) == after
    assert topics(after) == {"a": {"0": 20, "1": 10}}
    assert caplog.text.count("below the query's offset 30") == 1


def test_available_now_never_goes_back_behind_what_was_read(cluster: FileCluster) -> None:
    stream = reader(cluster)
    before = end_of(stream, stream.initialOffset())
    whole = cluster.directory / "a" / "0.jsonl"
    text = whole.read_text()
    cluster.truncate("a", 0, 20)
    stream = reader(cluster)
    stream.prepareForTriggerAvailableNow()
    whole.write_text(text)
    assert end_of(stream, before) == before, "a leader whose high watermark was behind answered"


def test_what_was_deleted_while_it_was_read_is_counted_for_each_partition_also_without_new_records(
    cluster: FileCluster,
) -> None:
    stream = reader(cluster, failOnDataLoss="false")
    first = end_of(stream, at(0, 0))
    stream.partitions(at(0, 0), first)
    cluster.delete_records_before("a", 1, 4)
    cluster.append("a", 0, ["new"])
    assert end_of(stream, first)["deletedWhileRead"] == {"a": {"1": 4}}


def test_a_query_that_fails_on_losses_counts_none(cluster: FileCluster) -> None:
    stream = reader(cluster)
    first = end_of(stream, at(0, 0))
    stream.partitions(at(0, 0), first)
    cluster.delete_records_before("a", 0, 4)
    cluster.append("a", 0, ["new"])
    assert "deletedWhileRead" not in end_of(stream, first)


def test_what_only_a_task_of_the_checkpoint_has_lost_gets_into_the_progress(cluster: FileCluster) -> None:
    planned = end_of(reader(cluster), at(0, 0))
    cluster.delete_records_before("a", 0, 30)
    stream = reader(cluster, failOnDataLoss="false")
    stream.partitions(at(0, 0), planned)
    assert end_of(stream, planned)["skipped"] == {"a": {"0": 30}}


def test_a_partition_that_was_missing_in_the_first_batch_begins_there_again_after_a_crash(cluster: FileCluster) -> None:
    hidden = cluster.directory / "a" / "1.jsonl"
    stream = reader(cluster, failOnDataLoss="false", startingOffsets="latest")
    start = stream.initialOffset()
    hidden.rename(hidden.with_suffix(".hidden"))
    end = end_of(stream, start)
    assert values(stream, start, end) == []
    again = reader(cluster, failOnDataLoss="false", startingOffsets="latest")
    begun_again = again.initialOffset()
    hidden.with_suffix(".hidden").rename(hidden)
    assert values(again, begun_again, end) == []


def test_an_empty_topic_that_was_created_again_is_reported_once(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("e", partitions=1)
    stream = reader(cluster, failOnDataLoss="false", subscribe="e")
    before = end_of(stream, stream.initialOffset())
    cluster.delete_topic("e")
    cluster.create_topic("e", partitions=1)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        after = end_of(stream, before)
        assert end_of(stream, after) == after
    assert after["ids"] != before["ids"]
    assert caplog.text.count("was deleted and created again") == 1
