from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.client import TopicPartition
from spark_connector.offsets import (
    OffsetsError,
    beginning_of_batch,
    from_checkpoint,
    from_topics,
    limited,
    to_checkpoint,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 62))


def test_the_checkpoint_form_is_sparks_with_a_version_around_it() -> None:
    assert to_checkpoint({A0: 12, B0: 3}) == {"version": 1, "topics": {"a": {"0": 12}, "b": {"0": 3}}}


@given(offsets)
def test_offsets_come_back_from_the_checkpoint_as_they_were(written: dict[TopicPartition, int]) -> None:
    assert from_checkpoint(json.loads(json.dumps(to_checkpoint(written)))) == written


def test_equal_offsets_are_written_as_equal_text_in_whatever_order_they_came() -> None:
    ten = TopicPartition("a", 10)
    forwards = {A0: 1, A1: 2, ten: 3, B0: 4}
    backwards = dict(reversed(forwards.items()))
    assert json.dumps(to_checkpoint(forwards)) == json.dumps(to_checkpoint(backwards))
    assert list(to_checkpoint(backwards)["topics"]["a"]) == ["0", "1", "10"]


def test_the_end_of_the_first_batch_says_where_it_begins() -> None:
    end = to_checkpoint({A0: 20}, began={A0: 10})
    assert from_checkpoint(end) == {A0: 20}
    assert beginning_of_batch(to_checkpoint({A0: 15}), end) == {A0: 10}


def test_a_later_batch_begins_where_spark_says() -> None:
    first = to_checkpoint({A0: 20}, began={A0: 10})
    assert beginning_of_batch(first, to_checkpoint({A0: 30})) == {A0: 20}
    assert beginning_of_batch(first, first) == {A0: 20}, "a batch for another source of the query reads nothing here"


@pytest.mark.parametrize("version", [2, "1", None])
def test_a_checkpoint_of_another_version_is_refused_with_a_way_out(version: object) -> None:
    with pytest.raises(OffsetsError, match="start it with a new checkpoint"):
        from_checkpoint({"version": version, "topics": {}})


@pytest.mark.parametrize(
    "document", [None, [], {"a": 3}, {"a": {"zero": 3}}, {"a": {"-1": 3}}, {"a": {"0": "3"}}, {"a": {"0": True}}]
)
def test_json_that_holds_no_offsets_is_refused(document: object) -> None:
    with pytest.raises(OffsetsError):
        from_topics(document)


def test_a_batch_that_fits_takes_everything() -> None:
    assert limited({A0: 5, A1: 0}, {A0: 10, A1: 5}, 10) == {A0: 10, A1: 5}


def test_the_limit_is_shared_out_by_what_is_left_in_each_partition() -> None:
    assert limited({A0: 0, A1: 100}, {A0: 300, A1: 200}, 100) == {A0: 75, A1: 125}


def test_a_partition_with_little_left_is_never_starved() -> None:
    assert limited({A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, 10) == {A0: 9, A1: 1}


def test_a_new_partition_counts_from_its_first_record() -> None:
    assert limited({A0: 50}, {A0: 100, A1: 50}, 10) == {A0: 55, A1: 5}


def test_an_end_before_the_beginning_is_kept_and_takes_no_share() -> None:
    assert limited({A0: 50, A1: 0}, {A0: 10, A1: 100}, 10) == {A0: 10, A1: 10}


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
