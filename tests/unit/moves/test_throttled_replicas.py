"""Which replicas a throttle slows down: by example as kafka-reassign-partitions.sh computes it, and by search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.model.ids import TopicPartition
from kraft.model.throttled_replicas import FOLLOWER_REPLICAS, LEADER_REPLICAS, REPLICA_LISTS
from kraft.moves.throttled_replicas import (
    EVERY_REPLICA,
    PartitionMove,
    brokers_of,
    entries_of,
    is_throttled,
    missing_entries,
    moves_of,
    partitions_naming,
    removal,
    throttled_replicas,
)
from kraft.wire.schema.list_partition_reassignments import OngoingPartitionReassignment

BROKERS = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["orders", "payments"]), st.integers(0, 11))
SITUATIONS = st.dictionaries(PARTITIONS, st.tuples(BROKERS, BROKERS, st.none() | BROKERS), min_size=1, max_size=8)
"""By partition: where it is, where it shall be, and where an unfinished move brings it."""


def orders(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def move(sources: set[int], destinations: set[int]) -> PartitionMove:
    return PartitionMove(sources=frozenset(sources), destinations=frozenset(destinations))


def ongoing(before: list[int], target: list[int]) -> OngoingPartitionReassignment:
    """Return the reassignment as the controller lists it."""
    removing = [each for each in before if each not in target]
    return OngoingPartitionReassignment(
        partition_index=0,
        replicas=(*target, *removing),
        adding_replicas=tuple(each for each in target if each not in before),
        removing_replicas=tuple(removing),
    )


def test_the_replicas_that_are_there_send_slowly_and_those_that_come_fetch_slowly() -> None:
    moves = moves_of({orders(0): [1, 4, 2], orders(10): [3, 2]}, {orders(0): [1, 2, 3], orders(10): [3, 2]}, {})
    assert moves == {orders(0): move({1, 2, 3}, {4}), orders(10): move({3, 2}, set())}
    assert throttled_replicas(moves) == {
        "orders": {LEADER_REPLICAS: ["0:1", "0:2", "0:3", "10:2", "10:3"], FOLLOWER_REPLICAS: ["0:4"]}
    }
    assert brokers_of(moves) == [1, 2, 3, 4]


def test_a_partition_that_moves_already_comes_from_where_it_was_before() -> None:
    payments = TopicPartition("payments", 2)
    under_way = {orders(0): ongoing([1, 2], [3, 2]), payments: ongoing([1], [2])}
    # Broker 3 is listed among the replicas, and has not got all records yet.
    moves = moves_of({orders(0): [4, 3]}, {orders(0): [3, 2, 1]}, under_way)
    assert moves == {orders(0): move({1, 2}, {3, 4}), payments: move({1}, {2})}


@given(SITUATIONS)
def test_what_moves_is_throttled_at_both_ends_and_nothing_else_is(
    situations: dict[TopicPartition, tuple[list[int], list[int], list[int] | None]],
) -> None:
    under_way = {each: ongoing(at, to) for each, (at, _, to) in situations.items() if to is not None}
    current = {
        each: list(under_way[each].replicas) if each in under_way else at for each, (at, _, _) in situations.items()
    }
    wanted = {each: target for each, (_, target, _) in situations.items()}
    moves = moves_of(wanted, current, under_way)
    lists = throttled_replicas(moves)
    for each, (at, target, _) in situations.items():
        senders = {entry for entry in lists[each.topic][LEADER_REPLICAS] if entry.startswith(f"{each.partition}:")}
        assert senders == {f"{each.partition}:{broker}" for broker in at}
        fetchers = {entry for entry in lists[each.topic][FOLLOWER_REPLICAS] if entry.startswith(f"{each.partition}:")}
        assert fetchers == {f"{each.partition}:{broker}" for broker in set(target) - set(at)}
        assert set(at) | set(target) <= set(brokers_of(moves))
    assert all(len(entries) == len(set(entries)) for of in lists.values() for entries in of.values())


@given(SITUATIONS, SITUATIONS)
def test_one_reassignment_verified_leaves_the_entries_of_another(
    mine: dict[TopicPartition, tuple[list[int], list[int], None]],
    theirs: dict[TopicPartition, tuple[list[int], list[int], None]],
) -> None:
    def lists(situations: dict[TopicPartition, tuple[list[int], list[int], None]]) -> dict[str, dict[str, list[str]]]:
        wanted = {each: target for each, (_, target, _) in situations.items()}
        return throttled_replicas(moves_of(wanted, {each: at for each, (at, _, _) in situations.items()}, {}))

    theirs = {each: situation for each, situation in theirs.items() if each not in mine}
    configs: dict[str, dict[str, str]] = {"orders": {}, "payments": {}}
    for throttled in (lists(theirs), lists(mine), lists(mine)):
        for topic, wanted in throttled.items():
            for key, entries in missing_entries(wanted, configs[topic]).items():
                configs[topic][key] = ",".join([*entries_of(configs[topic].get(key, "")), *entries])
    plan = removal(configs, set(mine))
    alone = {
        topic: {key: entries for key, entries in of.items() if entries} for topic, of in sorted(lists(theirs).items())
    }
    assert plan.kept == {topic: of for topic, of in alone.items() if of}
    for topic, of in lists(mine).items():
        assert {key: sorted(entries) for key, entries in plan.removed.get(topic, {}).items()} == {
            key: sorted(entries) for key, entries in of.items() if entries
        }
    assert not any(is_throttled(each, plan.kept) for each in mine)


def test_all_replicas_and_what_cannot_be_read_are_an_operators_and_stay() -> None:
    configs = {"orders": {LEADER_REPLICAS: EVERY_REPLICA, FOLLOWER_REPLICAS: "0:1, none,01:2"}, "plain": {"a": "0:1"}}
    plan = removal(configs, {orders(0), orders(1), orders(2)})
    assert plan.removed == {"orders": {FOLLOWER_REPLICAS: ["0:1", "01:2"]}}
    assert plan.kept == {"orders": {LEADER_REPLICAS: ["*"], FOLLOWER_REPLICAS: ["none"]}}
    assert is_throttled(orders(7), plan.kept)
    wanted = {key: ["0:1", "0:3"] for key in REPLICA_LISTS}
    assert missing_entries(wanted, configs["orders"]) == {FOLLOWER_REPLICAS: ["0:3"]}


def test_partitions_that_list_a_broker_are_found() -> None:
    configs = {"orders": {LEADER_REPLICAS: "0:1,1:11,2:3", FOLLOWER_REPLICAS: "3:1,*"}, "plain": {LEADER_REPLICAS: ""}}
    assert partitions_naming(1, configs) == {orders(0), orders(3)}
