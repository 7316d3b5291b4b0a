from __future__ import annotations

import pytest

from kraft.rpc.message_elements import count_elements
from kraft.rpc.pb import admin_pb2, broker_pb2, groups_pb2

ENOUGH = 1_000


def test_elements_of_lists_inside_of_others_count() -> None:
    topics = [groups_pb2.CommitTopic(partitions=[groups_pb2.CommitPartition()] * count) for count in (3, 0, 4)]
    assert count_elements(groups_pb2.OffsetCommitRequest(topics=topics), ENOUGH) == 3 + 7


def test_entries_of_maps_count() -> None:
    request = groups_pb2.SyncGroupRequest(assignments={"a": b"1", "b": b"2"})
    assert count_elements(request, ENOUGH) == 2


def test_a_message_without_lists_has_no_elements() -> None:
    assert count_elements(broker_pb2.InitProducerIdRequest(), ENOUGH) == 0


@pytest.mark.parametrize("count", [ENOUGH, ENOUGH + 1, 50 * ENOUGH])
def test_the_count_ends_when_there_are_enough(count: int) -> None:
    request = admin_pb2.DeleteTopicsRequest(topics=["orders"] * count)
    assert (count_elements(request, ENOUGH) > ENOUGH) == (count > ENOUGH)
