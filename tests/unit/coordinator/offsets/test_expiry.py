from __future__ import annotations

import pytest

from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS, CommittedOffsets
from kraft.coordinator.offsets.expiry import Expired, expired
from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP, GroupFacts
from tests.unit.coordinator.offsets.building import places, replayed, with_commit

RETENTION_MS = 100
MEMBERS = GroupFacts(empty=False, subscribed_topics={"orders"})


def expired_at(offsets: CommittedOffsets, now_ms: int, facts: GroupFacts = SIMPLE_GROUP) -> Expired:
    (found,) = expired(offsets, [("billing", facts)], now_ms=now_ms, retention_ms=RETENTION_MS)
    return found


def expired_places(offsets: CommittedOffsets, now_ms: int, facts: GroupFacts = SIMPLE_GROUP) -> list[tuple[str, int]]:
    return [place[1:] for place in places(expired_at(offsets, now_ms, facts).tombstones.records)]


def test_a_commit_renews_the_retention() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, now_ms=1000)
    offsets = with_commit(offsets, "billing", "orders", 0, now_ms=1050)
    assert expired_places(offsets, 1149) == []
    assert expired_places(offsets, 1150) == [("orders", 0)]


def test_all_offsets_of_an_empty_classic_group_expire_together_after_the_last_member_left() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, now_ms=100)
    offsets = with_commit(offsets, "billing", "orders", 1, now_ms=980)
    empty = GroupFacts(empty=True, empty_since_ms=1000)
    assert expired_places(offsets, 1099, empty) == [], "old commits are kept as long as the group was in use"
    assert expired_places(offsets, 1100, empty) == [("orders", 0), ("orders", 1)]


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, now_ms=1000)
    offsets = with_commit(offsets, "billing", "bills", 0, now_ms=1000)
    assert expired_places(offsets, 9999, MEMBERS) == [("bills", 0)]


def test_nothing_expires_while_the_subscription_is_not_known() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, now_ms=1000)
    assert expired_places(offsets, 9999, GroupFacts(empty=True, subscribed_topics=None)) == []


def test_nothing_expires_in_a_group_whose_state_forbids_it() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "bills", 0, now_ms=1000)
    offsets = with_commit(offsets, "billing", "bills", 1, now_ms=1000, retention_time_ms=1)
    assert expired_places(offsets, 9999, GroupFacts(empty=False, offsets_expire=False)) == []


@pytest.mark.parametrize("facts", [SIMPLE_GROUP, GroupFacts(empty=True, empty_since_ms=0), MEMBERS])
@pytest.mark.parametrize("retention_time_ms", [5, 5000])
def test_an_expire_timestamp_of_the_offset_replaces_the_retention_of_the_group(
    facts: GroupFacts, retention_time_ms: int
) -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "bills", 0, now_ms=1000, retention_time_ms=retention_time_ms)
    assert expired_places(offsets, 1000 + retention_time_ms - 1, facts) == []
    assert expired_places(offsets, 1000 + retention_time_ms, facts) == [("bills", 0)]


def test_an_expire_timestamp_does_not_expire_an_offset_of_a_subscribed_topic() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", 0, now_ms=1000, retention_time_ms=1)
    assert expired_places(offsets, 9999, MEMBERS) == []


def test_a_group_with_one_offset_left_is_not_removable() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "bills", 0, now_ms=1000)
    offsets = with_commit(offsets, "billing", "bills", 1, now_ms=1001)
    assert not expired_at(offsets, 1100).group_removable


def test_a_very_large_group_expires_in_several_parts_and_is_removable_with_the_last() -> None:
    offsets = with_commit(NO_OFFSETS, "billing", "orders", *range(8000), now_ms=1000)
    parts = []
    while offsets.groups:
        part = expired_at(offsets, 1100)
        parts.append((part.tombstones.more, part.group_removable))
        assert part.tombstones.records
        offsets = replayed(part.tombstones.records, offsets)
    assert parts == [(True, False)] * (len(parts) - 1) + [(False, True)]
    assert len(parts) > 1
