from __future__ import annotations

from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.coordinator.offsets.deletion import delete, delete_group, on_topics_deleted
from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP, GroupFacts
from kraft.model.errors import ErrorCode
from tests.support.offset_commands import deletions
from tests.unit.coordinator.offsets.building import ORDERS, ORDERS_AGAIN, places, replayed, with_commit


def test_deleted_offsets_are_gone_and_missing_ones_are_no_error() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, 1)
    decided = delete(offsets, "billing", SIMPLE_GROUP, [deletions("orders", 0, 7), deletions("bills", 0)])
    assert places(decided.records) == [("billing", "orders", 0)]
    assert decided.codes == (ErrorCode.NONE,) * 3
    assert list(replayed(decided.records, offsets).topics("billing")["orders"]) == [1]


def test_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    offsets = with_commit(with_commit(NO_OFFSETS, "billing", "orders", 0), "billing", "bills", 0)
    facts = GroupFacts(empty=False, subscribed_topics={"orders"})
    decided = delete(offsets, "billing", facts, [deletions("orders", 0, 7), deletions("bills", 0)])
    assert places(decided.records) == [("billing", "bills", 0)]
    refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert decided.codes == (refused, refused, ErrorCode.NONE)


def test_no_offset_is_deleted_while_the_subscription_is_not_known() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0)
    facts = GroupFacts(empty=False, subscribed_topics=None)
    decided = delete(offsets, "billing", facts, [deletions("orders", 0)])
    assert decided.records == ()
    assert decided.codes == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_a_deleted_group_has_no_offsets() -> None:
    offsets = with_commit(with_commit(NO_OFFSETS, "billing", "orders", 0, 1), "billing", "bills", 0)
    offsets = with_commit(offsets, "audit", "orders", 0)
    after = replayed(delete_group(offsets, "billing").records, offsets)
    assert list(after.groups) == ["audit"]
    assert delete_group(after, "billing").records == ()


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
