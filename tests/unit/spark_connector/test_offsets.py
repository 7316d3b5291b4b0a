from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.client import TopicPartition
from spark_connector.offsets import (
    OffsetsError,
    Position,
    beginning_of_batch,
    from_topics,
    partitions_from,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 62))
positions = st.builds(
    Position,
    offsets=offsets,
    topic_ids=st.dictionaries(st.sampled_from(["a", "b"]), st.uuids().map(str)),
    skipped=offsets,
    deleted_while_read=offsets,
    began=offsets,
    is_initial=st.booleans(),
    group_id=st.none() | st.just("spark-1"),
)


def test_the_checkpoint_of_another_source_is_named_with_the_way_to_move_it() -> None:
    with pytest.raises(OffsetsError, match=r"not of Kraft.*python -m spark_connector\.kafka_checkpoint OLD NEW"):
        Position.from_json({"orders": {"0": 12}})


def test_the_checkpoint_form_is_sparks_with_a_version_and_ids_around_it() -> None:
    position = Position(offsets={A0: 12, B0: 3}, topic_ids={"b": "id-b", "a": "id-a"})
    assert position.to_json() == {
        "version": 2,
        "topics": {"a": {"0": 12}, "b": {"0": 3}},
        "ids": {"a": "id-a", "b": "id-b"},
    }
    assert Position(offsets={A0: 12}, skipped={A0: 2}).to_json()["skipped"] == {"a": {"0": 2}}


@given(positions)
def test_a_position_comes_back_from_the_checkpoint_as_it_was(written: Position) -> None:
    assert Position.from_json(json.loads(json.dumps(written.to_json()))) == written


def test_the_end_of_a_batch_says_where_it_begins_if_its_start_does_not() -> None:
    end = Position(offsets={A0: 20, A1: 9}, began={A0: 10}).to_json()
    assert beginning_of_batch(Position(offsets={A0: 15, A1: 7}).to_json(), end) == {A0: 10, A1: 7}


def test_a_later_batch_begins_where_spark_says() -> None:
    first = Position(offsets={A0: 20}, began={A0: 10}).to_json()
    assert beginning_of_batch(first, Position(offsets={A0: 30}).to_json()) == {A0: 20}
    assert beginning_of_batch(first, first) == {A0: 20}, "a batch for another source of the query reads nothing here"


def test_a_checkpoint_of_version_1_is_read() -> None:
    first = {"version": 1, "topics": {"a": {"0": 20, "1": 5}}, "began": {"a": {"0": 10}}}
    later = {"version": 1, "topics": {"a": {"0": 30, "1": 5}}}
    assert Position.from_json(later) == Position(offsets={A0: 30, A1: 5})
    assert beginning_of_batch(first, later) == {A0: 20, A1: 5}
    initial = Position(offsets={A0: 25, A1: 5}, is_initial=True).to_json()
    assert beginning_of_batch(initial, first) == {A0: 10, A1: 0}, "partition 1 was new in the first batch"


@pytest.mark.parametrize("version", [3, 0, "1", True, None])
def test_a_checkpoint_of_another_version_is_refused_with_a_way_out(version: object) -> None:
    with pytest.raises(OffsetsError, match="start it with a new checkpoint"):
        Position.from_json({"version": version, "topics": {}})


NUMBERS = ["-1", "zero", "", "01", "1.0", "2147483648", "9" * 5_000, "\u0661"]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"a": 3},
        *({"a": {number: 3}} for number in NUMBERS),
        *({"a": {"0": value}} for value in ("3", True, 3.0, None, [1])),
    ],
)
def test_json_that_holds_no_offsets_is_refused_in_one_short_line(document: object) -> None:
    with pytest.raises(OffsetsError) as refused:
        from_topics(document)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "document",
    [None, {}, [0], {"a": 0}, {"a": []}, *({"a": [number]} for number in (-1, 1 << 31, 1.0, True, "0", None, [0]))],
)
def test_json_that_holds_no_partitions_is_refused_in_one_line(document: object) -> None:
    with pytest.raises(OffsetsError) as refused:
        partitions_from(document)
    assert "\n" not in str(refused.value)


def test_partitions_are_sorted_and_each_is_there_once() -> None:
    assert partitions_from({"b": [0], "a": [1, 0, 1]}) == (A0, A1, B0)
