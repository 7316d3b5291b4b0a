from __future__ import annotations

from itertools import permutations

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.group import ConsumerGroup, ConsumerGroupMember, MemberState, ResolvedRegex
from tests.unit.coordinator.consumer.coordinator import GROUP, compacted, partitions, replayed

MEMBER = ConsumerGroupMember(
    member_id="m1",
    instance_id="i1",
    rack_id="r1",
    client_id="c1",
    client_host="h1",
    topics=frozenset({"a", "b"}),
    topic_regex="a.*",
    rebalance_timeout_ms=9,
    server_assignor="range",
    epoch=7,
    previous_epoch=6,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned=partitions("a", 0, 2) | partitions("b", 1),
    pending_revocation=partitions("a", 1),
    assignment_epochs=dict.fromkeys(partitions("a", 0, 1, 2), 5) | dict.fromkeys(partitions("b", 1), 7),
)

ALL = [
    records.group_epoch(GROUP, 8, 99),
    records.assignment_epoch(GROUP, 7, 1_000),
    records.member_metadata(GROUP, MEMBER),
    records.current_assignment(GROUP, MEMBER),
    records.target_assignment(GROUP, "m1", partitions("a", 3)),
    records.resolved_regex(GROUP, "a.*", ResolvedRegex(topics=frozenset({"a"}), version=3, timestamp_ms=4)),
]


def test_a_group_is_what_its_records_say_in_whatever_order_they_come() -> None:
    group = replayed(ALL)
    assert group is not None
    assert (group.epoch, group.metadata_hash, group.assignment_epoch) == (8, 99, 7)
    assert group.members == {"m1": MEMBER}
    assert group.targets == {"m1": partitions("a", 3)}
    assert group.regexes["a.*"].topics == {"a"}
    assert group.owners == dict.fromkeys(MEMBER.owned, "m1")
    assert group.instances == {"i1": "m1"}
    assert group.topic_counts == {"a": 2, "b": 1}, "a is in the subscription and matches the expression"
    for order in permutations(ALL):
        assert replayed(list(order)) == group


def test_records_that_delete_what_is_not_there_are_skipped() -> None:
    gone = list(records.without_member(GROUP, "m1"))
    assert replayed([*gone, records.without_regex(GROUP, "a.*")]) is None
    group = replayed([ALL[0], *gone, records.without_regex(GROUP, "a.*")])
    assert group == ConsumerGroup(group_id=GROUP, epoch=8, metadata_hash=99)


def test_a_member_without_its_current_assignment_owns_nothing() -> None:
    [tombstone, *_] = records.without_member(GROUP, "m1")
    group = replayed([*ALL, tombstone])
    assert group is not None
    assert group.owners == {}
    assert group.members["m1"].assigned == NO_PARTITIONS


def test_nothing_is_left_of_a_group_that_was_deleted() -> None:
    group = replayed(ALL)
    assert group is not None
    log = [*ALL, *records.without_group(group)]
    assert replayed(log) is None
    assert replayed(compacted(log)) is None
    assert all(record.value is None for record in compacted(log))
