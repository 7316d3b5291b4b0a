from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kraft.client.sans_io.group.assignors import COOPERATIVE, Assignments, assign
from kraft.client.sans_io.group.consumer_protocol import MemberSubscription
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import tp

COUNTS = {"orders": 3, "returns": 2}


def subscriptions(*topics: str, members: str = "ab") -> dict[str, MemberSubscription]:
    return {member: MemberSubscription(topics=frozenset(topics)) for member in members}


def owning(*partitions: TopicPartition, generation: int = 1) -> MemberSubscription:
    return MemberSubscription(topics=frozenset({"orders"}), owned=frozenset(partitions), generation=generation)


def orders(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(tp("orders", partition) for partition in partitions)


def returns(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(tp("returns", partition) for partition in partitions)


def test_range_gives_runs_of_each_topic_to_members_in_order() -> None:
    assert assign("range", subscriptions("orders", "returns"), {}, COUNTS) == {
        "a": orders(0, 1) | returns(0),
        "b": orders(2) | returns(1),
    }


def test_roundrobin_deals_out_the_partitions_of_all_topics() -> None:
    assert assign("roundrobin", subscriptions("orders", "returns"), {}, COUNTS) == {
        "a": orders(0, 2) | returns(1),
        "b": orders(1) | returns(0),
    }


def test_roundrobin_passes_over_members_that_do_not_subscribe() -> None:
    members = {**subscriptions("orders", members="a"), **subscriptions("orders", "returns", members="b")}
    assert assign("roundrobin", members, {}, COUNTS) == {"a": orders(0, 2), "b": orders(1) | returns(0, 1)}


@pytest.mark.parametrize("assignor", ["range", "roundrobin", COOPERATIVE])
def test_members_beyond_the_number_of_partitions_get_none(assignor: str) -> None:
    assigned = assign(assignor, subscriptions("orders", members="abcde"), {}, COUNTS)
    assert sorted(map(len, assigned.values())) == [0, 0, 1, 1, 1]
    assert union(assigned) == orders(0, 1, 2)


def test_members_with_instance_ids_come_first_in_their_order() -> None:
    for assignor in ("range", "roundrobin"):
        assigned = assign(assignor, subscriptions("orders"), {"a": None, "b": "i"}, {"orders": 1})
        assert assigned == {"a": frozenset(), "b": orders(0)}


def test_topics_that_do_not_exist_are_not_assigned() -> None:
    for assignor in ("range", "roundrobin", COOPERATIVE):
        assert assign(assignor, subscriptions("missing"), {}, COUNTS) == {"a": frozenset(), "b": frozenset()}


def test_what_another_member_owns_is_given_up_before_it_is_assigned() -> None:
    first = {"a": owning(*orders(0, 1, 2)), "b": owning()}
    assigned = assign(COOPERATIVE, first, {}, COUNTS)
    assert (len(assigned["a"]), assigned["b"]) == (2, frozenset())
    free = orders(0, 1, 2) - assigned["a"]
    second = {"a": owning(*assigned["a"], generation=2), "b": owning(generation=2)}
    assert assign(COOPERATIVE, second, {}, COUNTS) == {"a": assigned["a"], "b": free}


def test_of_two_claims_the_later_generation_counts() -> None:
    members = {"a": owning(*orders(0, 1), generation=1), "b": owning(*orders(0), generation=2)}
    assert tp("orders", 0) in assign(COOPERATIVE, members, {}, COUNTS)["b"]


def test_two_claims_of_one_generation_do_not_count() -> None:
    members = {"a": owning(*orders(0), generation=1), "b": owning(*orders(0), generation=1)}
    assert union(assign(COOPERATIVE, members, {}, COUNTS)) == orders(0, 1, 2)


def union(assigned: Assignments) -> frozenset[TopicPartition]:
    partitions = [each for owned in assigned.values() for each in owned]
    assert len(set(partitions)) == len(partitions), "a partition has two owners"
    return frozenset(partitions)


_members = some.dictionaries(
    some.sampled_from("abcdef"),
    some.builds(
        MemberSubscription,
        topics=some.frozensets(some.sampled_from(["orders", "returns", "missing"])),
        owned=some.frozensets(some.builds(TopicPartition, some.sampled_from(["orders", "old"]), some.integers(0, 5))),
        generation=some.integers(-1, 3),
    ),
    min_size=1,
)


@given(_members, some.sampled_from(["range", "roundrobin", COOPERATIVE]))
def test_every_partition_that_is_subscribed_to_is_assigned_in_the_end(
    members: dict[str, MemberSubscription], assignor: str
) -> None:
    """A cooperative assignor may need another rebalance, in which members own what they got in the one before."""
    expected = frozenset(
        tp(topic, partition)
        for topic in COUNTS.keys() & {topic for each in members.values() for topic in each.topics}
        for partition in range(COUNTS[topic])
    )
    assigned = assign(assignor, members, {}, COUNTS)
    assert union(assigned) <= expected
    for generation in (4, 5):
        members = {
            member: MemberSubscription(topics=members[member].topics, owned=owned, generation=generation)
            for member, owned in assigned.items()
        }
        assigned = assign(assignor, members, {}, COUNTS)
    assert union(assigned) == expected
    assert all(each.topic in members[member].topics for member, owned in assigned.items() for each in owned)
