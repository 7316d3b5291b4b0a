"""What a group commits at the target."""

from __future__ import annotations

import asyncio
from array import array

from kraft.client import OffsetAndMetadata, TopicPartition
from kraft.mirror.groups import carried
from kraft.mirror.throttle import Throttle
from kraft.mirror.translation import PartitionState, Run
from kraft.mirror.verification import without_beginning

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
STATES = {SOURCE: PartitionState(topic="orders", partition=0).advanced(10, [Run(0, 100, 10)], 1)}


def offsets_of(committed: int, already: int | None) -> dict[TopicPartition, OffsetAndMetadata]:
    there = {} if already is None else {TARGET: OffsetAndMetadata(already)}
    return carried({SOURCE: OffsetAndMetadata(committed, "text")}, there, STATES, {SOURCE: TARGET})


def test_an_offset_is_translated_with_its_text() -> None:
    assert offsets_of(4, None) == {TARGET: OffsetAndMetadata(104, "text")}


def test_a_group_never_goes_back_nor_beyond_what_is_mirrored() -> None:
    assert offsets_of(4, 104) == {}
    assert offsets_of(4, 109) == {}
    assert offsets_of(50, 104) == {TARGET: OffsetAndMetadata(110, "text")}


def test_what_is_not_mirrored_is_left_out() -> None:
    other = TopicPartition("others", 0)
    assert carried({other: OffsetAndMetadata(1)}, {}, STATES, {SOURCE: TARGET}) == {}


def test_of_a_partition_of_which_nothing_is_mirrored_a_group_commits_nothing() -> None:
    states = {SOURCE: PartitionState(topic="orders", partition=0, next_offset=3)}
    assert carried({SOURCE: OffsetAndMetadata(3)}, {}, states, {SOURCE: TARGET}) == {}


def test_a_throttle_waits_as_long_as_the_bytes_take() -> None:
    throttle = Throttle(100)
    assert throttle.wait_s(50, 10.0) == 0.5
    assert throttle.wait_s(50, 10.25) == 0.75
    assert throttle.wait_s(100, 20.0) == 1.0
    assert Throttle(0).wait_s(1_000, 1.0) == 0.0


def test_a_throttle_sends_no_more_at_once_than_a_part_of_a_second_takes() -> None:
    assert Throttle(0).burst_bytes(1_000) == 1_000
    assert [Throttle(rate).burst_bytes(1_000) for rate in (1, 600, 5_000)] == [1, 300, 1_000]


async def test_a_throttle_does_not_hold_the_end_of_a_worker() -> None:
    clock = asyncio.get_running_loop().time
    began_s, stopped = clock(), asyncio.Event()
    await Throttle(100).used(50, stopped)
    assert 0.5 <= clock() - began_s < 1
    asyncio.get_running_loop().call_later(1, stopped.set)
    await Throttle(100).used(100_000, stopped)
    assert clock() - began_s < 10, "all of it would take 1,000 s"


def test_what_the_other_end_has_deleted_at_its_beginning_is_left_out() -> None:
    whole, rest, other = array("Q", [1, 2, 3, 4]), array("Q", [3, 4]), array("Q", [9, 4])
    assert without_beginning(whole, rest) == rest
    assert without_beginning(rest, whole) == rest
    assert without_beginning(whole, other) == whole
    assert without_beginning(whole, array("Q")) == whole
