from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.client import TopicPartition
from spark_connector.limits import RecordSizes, TriggerDelay, limited, limited_bytes
from tests.support.file_cluster import FileCluster

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 62))


def test_a_partition_with_little_left_is_never_starved() -> None:
    assert limited({A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, 10) == {A0: 9, A1: 1}


def test_a_new_partition_counts_from_its_first_record() -> None:
    assert limited({A0: 50}, {A0: 100, A1: 50}, 10) == {A0: 55, A1: 5}


@given(offsets, st.dictionaries(partitions, st.integers(0, 1 << 40)), st.integers(1, 1 << 40))
def test_a_limited_batch_moves_on_and_stays_within_its_bounds(
    begin: dict[TopicPartition, int], growth: dict[TopicPartition, int], records_max: int
) -> None:
    latest = {partition: begin.get(partition, 0) + count for partition, count in growth.items()}
    end = limited(begin, latest, records_max)
    taken = {partition: end[partition] - begin.get(partition, 0) for partition in latest}
    assert all(0 <= taken[partition] <= growth[partition] for partition in latest)
    assert all(taken[partition] > 0 for partition in latest if growth[partition] > 0)
    assert sum(taken.values()) <= records_max + len(latest)


def test_bytes_are_shared_out_by_the_estimated_size_of_what_is_left() -> None:
    assert limited_bytes({A0: 0, A1: 0}, {A0: 100, A1: 100}, 1_100, {A0: 1.0, A1: 10.0}) == {A0: 100, A1: 100}
    assert limited_bytes({A0: 0, A1: 50}, {A0: 100, A1: 150}, 110, {A0: 1.0, A1: 10.0}) == {A0: 10, A1: 60}


def test_a_record_that_is_larger_than_the_limit_is_read_all_the_same() -> None:
    assert limited_bytes({A0: 0, A1: 3}, {A0: 100, A1: 3}, 10, {A0: 1_000.0}) == {A0: 1, A1: 3}


def test_sizes_are_sampled_from_what_is_read_next_and_again_after_some_time(cluster: FileCluster) -> None:
    now_s = 0.0
    sizes, connected = RecordSizes(lambda: now_s), cluster([])
    cluster.append("a", 1, ["x" * 100] * 20)
    assert sizes.of(connected, {A0: 29, A1: 10}, {A0: 30, A1: 30}) == {A0: 5.0, A1: 100.0}
    now_s = 29.0
    assert sizes.of(connected, {A0: 30, A1: 9}, {A0: 30, A1: 10}) == {A1: 100.0}
    now_s = 31.0
    assert sizes.of(connected, {A0: 30, A1: 9}, {A0: 30, A1: 10}) == {A1: 4.0}


def test_a_partition_without_a_sample_is_taken_for_the_mean_of_the_others(cluster: FileCluster) -> None:
    cluster.delete_records_before("a", 0, 30)
    sizes = RecordSizes(lambda: 0.0)
    assert sizes.of(cluster([]), {A0: 30, A1: 8}, {A0: 31, A1: 10}) == {A0: 4.0, A1: 4.0}


def test_a_trigger_waits_for_enough_records_or_long_enough() -> None:
    now_s = 100.0
    delay = TriggerDelay(10, 60.0, lambda: now_s)
    assert not delay.delays({A0: 0}, {A0: 1}), "the first trigger never waits"
    now_s = 110.0
    assert delay.delays({A0: 1}, {A0: 10})
    assert not delay.delays({A0: 1}, {A0: 8, A1: 3})
    now_s = 169.0
    assert delay.delays({A0: 8}, {A0: 9})
    now_s = 170.0
    assert not delay.delays({A0: 8}, {A0: 9})
