from __future__ import annotations

from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.coordinator.offsets.deletion import on_topics_deleted
from tests.unit.coordinator.offsets.building import ORDERS, ORDERS_AGAIN, places, with_commit


def test_offsets_of_deleted_topics_are_deleted_in_each_group() -> None:
    offsets = with_commit(with_commit(NO_OFFSETS, "billing", "orders", 0, 1), "audit", "orders", 1)
    offsets = with_commit(offsets, "audit", "bills", 0)
    found = list(on_topics_deleted(offsets, ["audit", "billing", "none"], {"orders": ORDERS, "returns": ORDERS_AGAIN}))
    assert [each.group for each in found] == ["audit", "billing", "none"]
    assert [places(each.records) for each in found] == [
        [("audit", "orders", 1)],
        [("billing", "orders", 0), ("billing", "orders", 1)],
        [],
    ]


def test_an_offset_of_a_topic_created_again_is_kept() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, topic_id=ORDERS)
    offsets = with_commit(offsets, "billing", "orders", 1, topic_id=ORDERS_AGAIN)
    offsets = with_commit(offsets, "billing", "orders", 2, topic_id=None)
    (found,) = on_topics_deleted(offsets, ["billing"], {"orders": ORDERS})
    assert places(found.records) == [("billing", "orders", 0), ("billing", "orders", 2)]


def test_more_deleted_topics_than_a_group_has_are_found_as_well() -> None:
    offsets = with_commit(with_commit(NO_OFFSETS, "billing", "orders", 0), "billing", "bills", 0)
    few, many = {"orders": ORDERS}, {"orders": ORDERS, "a": ORDERS, "b": ORDERS}
    for deleted in (few, many):
        (found,) = on_topics_deleted(offsets, ["billing"], deleted)
        assert places(found.records) == [("billing", "orders", 0)]
