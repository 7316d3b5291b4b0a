from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import Assignment, Assignor, Partition, Subscriber, Subscribers
from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.assignors.ranges import assign_ranges
from kraft.coordinator.assignors.uniform import assign_uniformly
from kraft.model.ids import TopicId

A, B, C, D = (TopicId(UUID(int=number)) for number in range(1, 5))
TOPICS = (A, B, C, D)

each_assignor = pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)
members = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(9)]),
    st.builds(Subscriber, topics=st.frozensets(st.sampled_from(TOPICS))),
    min_size=1,
)
like_minded = st.sets(st.sampled_from([f"m{number}" for number in range(9)]), min_size=2)


def subscribers(*member_ids: str, topics: frozenset[TopicId] = frozenset(TOPICS)) -> dict[str, Subscriber]:
    return {member_id: Subscriber(topics=topics) for member_id in member_ids}


def holding(before: Subscribers, assignment: Assignment) -> dict[str, Subscriber]:
    """Return the members with what was assigned to them."""
    return {member_id: replace(before[member_id], partitions=assignment[member_id]) for member_id in before}


def owners(assignment: Assignment) -> dict[Partition, str]:
    return {partition: member_id for member_id, partitions in assignment.items() for partition in partitions}


def moved(before: Assignment, after: Assignment) -> int:
    """Return how many partitions have another owner; those that had none do not count."""
    now = owners(after)
    return sum(now.get(partition) != owner for partition, owner in owners(before).items())


def sizes(assignment: Assignment) -> list[int]:
    return sorted(len(partitions) for partitions in assignment.values())


def check_complete(subscribers: Subscribers, partition_counts: Mapping[TopicId, int], assignment: Assignment) -> None:
    """Each partition of each subscribed topic has exactly one owner, and that one subscribes to it."""
    subscribed = {topic_id for subscriber in subscribers.values() for topic_id in subscriber.topics}
    expected = {
        (topic_id, partition): 1
        for topic_id, count in partition_counts.items()
        if topic_id in subscribed
        for partition in range(count)
    }
    assert Counter(partition for partitions in assignment.values() for partition in partitions) == expected
    assert assignment.keys() == subscribers.keys()
    for member_id, partitions in assignment.items():
        assert {topic_id for topic_id, _ in partitions} <= subscribers[member_id].topics


def test_uniform_is_the_first_choice() -> None:
    assert list(ASSIGNORS.values()) == [assign_uniformly, assign_ranges]


@each_assignor
@given(before=members, after=members, counts_before=counts, counts_after=counts)
def test_every_partition_of_a_subscribed_topic_has_one_owner_that_subscribes_to_it(
    assign: Assignor,
    before: dict[str, Subscriber],
    after: dict[str, Subscriber],
    counts_before: dict[TopicId, int],
    counts_after: dict[TopicId, int],
) -> None:
    first = assign(before, counts_before)
    check_complete(before, counts_before, first)
    rejoined = {
        member_id: replace(subscriber, partitions=first.get(member_id, frozenset()))
        for member_id, subscriber in after.items()
    }
    check_complete(after, counts_after, assign(rejoined, counts_after))


@each_assignor
@given(subscribers=members, partition_counts=counts)
def test_the_order_of_the_arguments_does_not_matter(
    assign: Assignor, subscribers: dict[str, Subscriber], partition_counts: dict[TopicId, int]
) -> None:
    again = assign(dict(reversed(subscribers.items())), dict(reversed(partition_counts.items())))
    assert again == assign(subscribers, partition_counts)


@each_assignor
def test_a_thousand_members_share_a_thousand_partitions(assign: Assignor) -> None:
    partition_counts = dict.fromkeys(TOPICS, 250)
    thousand = subscribers(*(f"m{number:04}" for number in range(1000)))
    assignment = assign(thousand, partition_counts)
    check_complete(thousand, partition_counts, assignment)
    again = assign(holding(thousand, assignment), partition_counts)
    assert again == assignment


@each_assignor
def test_members_beyond_the_number_of_partitions_get_none_and_take_over_from_those_that_leave(
    assign: Assignor,
) -> None:
    five = subscribers("m1", "m2", "m3", "m4", "m5", topics=frozenset({A}))
    assignment = assign(five, {A: 3})
    assert sizes(assignment) == [0, 0, 1, 1, 1]
    again = holding(five, assignment)
    assert assign(again, {A: 3}) == assignment, "nobody gives up a partition to a member without one"
    owner = owners(assignment)[A, 0]
    assert sizes(assign({name: each for name, each in again.items() if name != owner}, {A: 3})) == [0, 1, 1, 1]


@each_assignor
def test_a_partition_that_two_members_hold_or_that_does_not_exist_is_assigned_anew(assign: Assignor) -> None:
    wrong = frozenset({(A, 0), (A, 99), (C, 0)})
    both = {member_id: Subscriber(topics=frozenset({A}), partitions=wrong) for member_id in ("m1", "m2")}
    check_complete(both, {A: 2, B: 1}, assign(both, {A: 2, B: 1}))


# --- uniform ---------------------------------------------------------------------------------------------------------


@given(first=like_minded, second=like_minded, counts_before=counts, counts_after=counts)
def test_members_with_the_same_subscription_differ_by_at_most_one_and_nothing_moves_that_need_not(
    first: set[str], second: set[str], counts_before: dict[TopicId, int], counts_after: dict[TopicId, int]
) -> None:
    before = assign_uniformly(subscribers(*first), counts_before)
    after_join = {
        member_id: Subscriber(topics=frozenset(TOPICS), partitions=before.get(member_id, frozenset()))
        for member_id in second
    }
    after = assign_uniformly(after_join, counts_after)
    assert max(sizes(after)) - min(sizes(after)) <= 1
    # What a member held and could keep: as many as it may have, and of those with one more as many as there may be.
    each, with_one_more = divmod(sum(counts_after.values()), len(second))
    held = [
        sum(partition < counts_after.get(topic_id, 0) for topic_id, partition in subscriber.partitions)
        for subscriber in after_join.values()
    ]
    could_stay = sum(min(count, each) for count in held) + min(with_one_more, sum(count > each for count in held))
    stayed = sum(len(after[member_id] & subscriber.partitions) for member_id, subscriber in after_join.items())
    assert stayed == could_stay


def test_a_joining_member_gets_its_share_and_nothing_else_moves() -> None:
    two = subscribers("m1", "m2")
    before = assign_uniformly(two, {A: 6, B: 6})
    three = holding(two, before) | subscribers("m3")
    after = assign_uniformly(three, {A: 6, B: 6})
    assert sizes(after) == [4, 4, 4]
    assert moved(before, after) == 4


def test_only_the_partitions_of_a_leaving_member_move() -> None:
    three = subscribers("m1", "m2", "m3")
    before = assign_uniformly(three, {A: 6, B: 6})
    two = holding(three, before)
    del two["m2"]
    after = assign_uniformly(two, {A: 6, B: 6})
    assert sizes(after) == [6, 6]
    assert moved(before, after) == len(before["m2"]) == 4


def test_an_unbalanced_pair_of_subscriptions_is_evened_out_as_far_as_they_allow() -> None:
    members = subscribers("m1", topics=frozenset({A})) | subscribers("m2", topics=frozenset({A, B}))
    assignment = assign_uniformly(members, {A: 4, B: 2})
    assert sizes(assignment) == [3, 3]
    assert assignment["m1"] <= {(A, partition) for partition in range(4)}


def test_a_member_that_alone_subscribes_to_a_large_topic_gets_nothing_of_the_others() -> None:
    members = subscribers("m1", "m2", topics=frozenset({A})) | subscribers("m3", topics=frozenset({A, B}))
    assignment = assign_uniformly(members, {A: 4, B: 10})
    assert [len(assignment[member_id]) for member_id in ("m1", "m2", "m3")] == [2, 2, 10]


@given(subscribers=members, partition_counts=counts)
def test_nothing_moves_while_nothing_changes(
    subscribers: dict[str, Subscriber], partition_counts: dict[TopicId, int]
) -> None:
    assignment = assign_uniformly(subscribers, partition_counts)
    assert assign_uniformly(holding(subscribers, assignment), partition_counts) == assignment


# --- range -----------------------------------------------------------------------------------------------------------


def test_each_member_gets_a_run_of_each_topic_and_the_first_ones_get_one_more() -> None:
    assignment = assign_ranges(subscribers("m1", "m2", topics=frozenset({A, B})), {A: 3, B: 3})
    assert assignment["m1"] == {(A, 0), (A, 1), (B, 0), (B, 1)}
    assert assignment["m2"] == {(A, 2), (B, 2)}


@given(subscribers=members, partitions=st.integers(1, 12))
def test_topics_with_equally_many_partitions_and_the_same_subscribers_are_split_alike(
    subscribers: dict[str, Subscriber], partitions: int
) -> None:
    assignment = assign_ranges(subscribers, {A: partitions, B: partitions})
    both = {
        member_id
        for member_id, subscriber in subscribers.items()
        if (A in subscriber.topics) == (B in subscriber.topics)
    }
    if both == subscribers.keys():
        for assigned in assignment.values():
            assert {number for topic, number in assigned if topic == A} == {
                number for topic, number in assigned if topic == B
            }


def test_members_without_a_partition_are_in_the_assignment() -> None:
    assert assign_ranges(subscribers("m1", "m2", topics=frozenset({A})), {A: 1}) == {"m1": {(A, 0)}, "m2": set()}


def test_static_members_come_first_and_keep_their_place_under_another_member_id() -> None:
    topics = frozenset({A})
    members = {
        "m1": Subscriber(topics=topics),
        "m2": Subscriber(topics=topics, instance_id="i2"),
        "m3": Subscriber(topics=topics, instance_id="i1"),
    }
    assignment = assign_ranges(members, {A: 3})
    assert assignment == {"m3": {(A, 0)}, "m2": {(A, 1)}, "m1": {(A, 2)}}
    members["a9"] = members.pop("m2")
    assert assign_ranges(members, {A: 3})["a9"] == assignment["m2"]
