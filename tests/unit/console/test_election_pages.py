"""Which partitions the page of elections shows."""

from __future__ import annotations

from kraft.console.asking import Wanted
from kraft.console.pages.elections import leaders_of
from kraft.wire.schema.metadata import MetadataResponsePartition


def partition(number: int, leader: int, *, offline: tuple[int, ...] = ()) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=leader,
        replica_nodes=(1, 2),
        isr_nodes=(1, 2),
        offline_replicas=offline,
    )


def test_only_partitions_that_another_than_the_preferred_leader_leads_are_rows() -> None:
    topics = {"orders": (partition(0, 1), partition(1, 2), partition(2, -1), partition(3, 1, offline=(1,)))}
    found = leaders_of(topics, Wanted())
    assert found.partitions == 4
    assert [each.name for each in found.not_preferred.rows] == ["orders-1"]
    assert [each.partition for each in found.without_leader] == [2, 3]
    assert [each.can_lead for each in (*found.not_preferred.rows, *found.without_leader)] == [True, True, False]


def test_partitions_are_found_by_their_names() -> None:
    topics = {"orders": (partition(0, 2), partition(1, 2)), "payments": (partition(0, 2),)}
    found = leaders_of(topics, Wanted(search="orders-1")).not_preferred
    assert ([each.name for each in found.rows], found.found, found.total) == (["orders-1"], 1, 3)
