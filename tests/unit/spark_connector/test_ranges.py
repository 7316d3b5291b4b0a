from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraft.client import ArrowChunk, TopicPartition, WantedColumns
from spark_connector import ranges
from spark_connector.cluster import Missing, ReadStalled, TruncatedWhileRead
from spark_connector.data_loss import DataLoss, LossPolicy
from spark_connector.patience import Patience
from tests.support.arrow_columns import offsets_of
from tests.support.file_cluster import CHUNK_RECORDS, ConnectedFileCluster, FileCluster

AT_ONCE = Patience(settle_s=0.0, poll_s=0.0)
COLUMNS = WantedColumns()

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))


@pytest.fixture
def cluster(tmp_path: Path) -> FileCluster:
    cluster = FileCluster(tmp_path)
    cluster.create_topic("a", partitions=1)
    cluster.append("a", 0, [f"v{number}" for number in range(20)])
    return cluster


def read_offsets(cluster: ConnectedFileCluster, start: int, end: int, losses: LossPolicy) -> list[int]:
    wanted = ranges.OffsetRange(partition=A0, start=start, end=end)
    chunks = ranges.read(cluster, wanted, losses, COLUMNS, AT_ONCE)
    return [offset for chunk in chunks for offset in offsets_of(chunk)]


def test_a_partition_added_since_is_read_from_its_first_record() -> None:
    assert ranges.plan({A0: 3}, {A0: 3, A1: 2}) == [ranges.OffsetRange(partition=A1, start=0, end=2)]


def test_a_range_survives_the_way_to_a_worker() -> None:
    wanted = ranges.OffsetRange(partition=A0, start=3, end=9)
    assert pickle.loads(pickle.dumps(wanted)) == wanted  # noqa: S301 - the bytes are our own


def test_lost_records_are_skipped_counted_and_logged_when_that_is_allowed(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.delete_records_before("a", 0, 8)
    losses = LossPolicy(fail=False)
    with caplog.at_level(logging.WARNING, "spark_connector"):
        assert read_offsets(cluster([]), 3, 17, losses) == list(range(8, 17))
    assert losses.skipped_records == 5
    assert "offsets 3 to 7 of a-0 were deleted" in caplog.text
    assert "5 records skipped so far" in caplog.text


def test_records_deleted_while_a_range_is_read_are_counted_from_where_reading_stood(cluster: FileCluster) -> None:
    losses = LossPolicy(fail=False)
    wanted = ranges.OffsetRange(partition=A0, start=0, end=20)
    chunks = ranges.read(cluster([]), wanted, losses, COLUMNS, AT_ONCE)
    first = next(chunks)
    cluster.delete_records_before("a", 0, 12)
    rest = [offset for chunk in chunks for offset in offsets_of(chunk)]
    assert offsets_of(first) == list(range(CHUNK_RECORDS))
    assert rest == list(range(12, 20))
    assert losses.skipped_records == 12 - CHUNK_RECORDS


def test_a_range_that_was_deleted_whole_ends(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 20)
    losses = LossPolicy(fail=False)
    assert read_offsets(cluster([]), 3, 17, losses) == []
    assert losses.skipped_records == 14


def test_a_log_that_ends_before_the_range_does_is_a_loss_too(cluster: FileCluster) -> None:
    cluster.truncate("a", 0, 10)
    with pytest.raises(DataLoss, match="a-0 ends at offset 10, offsets 10 to 16 are lost"):
        read_offsets(cluster([]), 3, 17, LossPolicy(fail=True))
    losses = LossPolicy(fail=False)
    assert read_offsets(cluster([]), 3, 17, losses) == list(range(3, 10))
    assert losses.skipped_records == 7


class TruncatingCluster(ConnectedFileCluster):
    """After the first chunk, its log is another from offset 4 on."""

    truncations = 1

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        for chunk in super().read(partition, start, end, wanted):
            yield chunk
            if self.truncations:
                self.truncations -= 1
                raise TruncatedWhileRead(f"{partition}: the log was truncated to offset 4")


def test_a_log_that_is_truncated_while_it_is_read_fails_the_query_by_name(cluster: FileCluster) -> None:
    with pytest.raises(DataLoss, match="a-0: the log was truncated to offset 4; to continue all the same"):
        read_offsets(TruncatingCluster(cluster.directory), 0, 20, LossPolicy(fail=True))


def test_a_log_that_is_truncated_while_it_is_read_is_read_on_when_that_is_allowed(
    cluster: FileCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "spark_connector"):
        found = read_offsets(TruncatingCluster(cluster.directory), 0, 20, LossPolicy(fail=False))
    assert found == list(range(20))
    assert "truncated to offset 4" in caplog.text


def test_a_log_that_is_shorter_after_a_truncation_ends_the_range(cluster: FileCluster) -> None:
    losses = LossPolicy(fail=False)
    truncating = TruncatingCluster(cluster.directory)
    wanted = ranges.OffsetRange(partition=A0, start=0, end=20)
    chunks = ranges.read(truncating, wanted, losses, COLUMNS, AT_ONCE)
    next(chunks)
    cluster.truncate("a", 0, 5)
    assert list(chunks) == []
    assert losses.skipped_records == 20 - CHUNK_RECORDS


class GrowingCluster(ConnectedFileCluster):
    """Answers the first look-ups of the latest offset as a new leader does whose high watermark is behind."""

    behind = 2

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found = super().latest_offsets(partitions)
        if self.behind:
            self.behind -= 1
            return {partition: offset - 5 for partition, offset in found.items()}
        return found


def test_an_end_that_is_behind_for_a_moment_is_no_loss(cluster: FileCluster) -> None:
    connected = GrowingCluster(cluster.directory)
    planned = [ranges.OffsetRange(partition=A0, start=18, end=20)]
    patience = Patience(settle_s=10.0, poll_s=0.0)
    assert ranges.existing(connected, planned, LossPolicy(fail=True), patience) == planned
    assert connected.behind == 0


class SilentCluster(ConnectedFileCluster):
    """Has all records, but sends none."""

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        yield from super().read(partition, start, start, wanted)
        raise ReadStalled(f"{partition}: nothing from offset {start} on")


def test_records_that_exist_and_do_not_come_are_an_error_after_the_poll_timeout(cluster: FileCluster) -> None:
    wanted = ranges.OffsetRange(partition=A0, start=0, end=20)
    silent, patience = SilentCluster(cluster.directory), Patience(read_s=0.0)
    with pytest.raises(ranges.ReadTimedOut, match=r"nothing from offset 0 on; kafkaConsumer\.pollTimeoutMs gives"):
        list(ranges.read(silent, wanted, LossPolicy(fail=False), COLUMNS, patience))


def test_a_topic_that_is_deleted_before_its_range_is_read_is_a_loss(cluster: FileCluster) -> None:
    connected = cluster([])
    cluster.delete_topic("a")
    with pytest.raises(DataLoss, match="a-0 does not exist: offsets 3 to 16 of a-0 are lost"):
        read_offsets(connected, 3, 17, LossPolicy(fail=True))
    losses = LossPolicy(fail=False)
    assert read_offsets(connected, 3, 17, losses) == []
    assert losses.take() == {A0: 14}


class YoungCluster(ConnectedFileCluster):
    """Does not know the partition at first."""

    ignorance = 3

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        if self.ignorance:
            self.ignorance -= 1
            raise Missing(f"{partition} does not exist")
        yield from super().read(partition, start, end, wanted)


def test_a_partition_that_is_not_known_for_a_moment_is_waited_for(cluster: FileCluster) -> None:
    wanted = ranges.OffsetRange(partition=A0, start=0, end=20)
    patience = Patience(settle_s=60.0, poll_s=0.0)
    chunks = ranges.read(YoungCluster(cluster.directory), wanted, LossPolicy(fail=True), COLUMNS, patience)
    assert [offset for chunk in chunks for offset in offsets_of(chunk)] == list(range(20))


class ForgetfulCluster(ConnectedFileCluster):
    """After the first chunk, it does not know the partition for a moment."""

    has_forgotten = False

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        for chunk in super().read(partition, start, end, wanted):
            yield chunk
            if not self.has_forgotten:
                self.has_forgotten = True
                raise Missing(f"{partition} does not exist")


def test_the_time_that_spark_takes_for_a_chunk_is_no_time_without_records(
    cluster: FileCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(ranges, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=lambda _: None))
    losses = LossPolicy(fail=False)
    wanted = ranges.OffsetRange(partition=A0, start=0, end=20)
    found = []
    for chunk in ranges.read(ForgetfulCluster(cluster.directory), wanted, losses, COLUMNS, Patience(settle_s=60.0)):
        found += offsets_of(chunk)
        now_s += 3_600.0
    assert (found, losses.skipped_records) == (list(range(20)), 0)


def test_what_exists_of_planned_ranges_is_kept_and_the_rest_counted(cluster: FileCluster) -> None:
    cluster.create_topic("a", partitions=3)
    cluster.append("a", 1, ["v"] * 10)
    cluster.delete_records_before("a", 0, 8)
    planned = [
        ranges.OffsetRange(partition=A0, start=3, end=25),
        ranges.OffsetRange(partition=A1, start=3, end=10),
        ranges.OffsetRange(partition=A2, start=0, end=4),
    ]
    losses = LossPolicy(fail=False)
    assert ranges.existing(cluster([]), planned, losses, AT_ONCE) == [
        ranges.OffsetRange(partition=A0, start=8, end=20),
        ranges.OffsetRange(partition=A1, start=3, end=10),
    ]
    assert losses.take() == {A0: 10, A2: 4}
    assert ranges.existing(cluster([]), [], losses, AT_ONCE) == []
