"""Replicas that a throttle slows down while partitions move, and entries that may go afterwards. Source: KIP-73."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.model.ids import TopicPartition
from kraft.model.throttled_replicas import FOLLOWER_REPLICAS, LEADER_REPLICAS, REPLICA_LISTS
from kraft.moves.assignments import Assignment

if TYPE_CHECKING:
    from kraft.client import OngoingPartitionReassignment

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
REPLICATION_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
"""Broker configs, in bytes per second, for the replicas that the topics list."""

EVERY_REPLICA: Final = "*"
"""Entry for all replicas of a topic. No command writes it, so an operator did."""

ReplicaLists = Mapping[str, list[str]]
"""Entries by the key of the list."""


class PartitionMove(Struct, frozen=True, kw_only=True):
    """Brokers that hold a partition before it moves, and those that get a new replica."""

    sources: frozenset[int]
    destinations: frozenset[int]


class Removal(Struct, frozen=True, kw_only=True):
    """Entries to remove and entries to keep, by topic; a topic or list without any is left out."""

    removed: dict[str, dict[str, list[str]]]
    kept: dict[str, dict[str, list[str]]]


def moves_of(
    wanted: Assignment, current: Assignment, under_way: Mapping[TopicPartition, OngoingPartitionReassignment]
) -> dict[TopicPartition, PartitionMove]:
    """Return the wanted moves and those under way.

    A partition that moves already comes from where it was before, and not from the replicas that are being added.
    """
    moves = {}
    for partition, ongoing in under_way.items():
        adding = frozenset(ongoing.adding_replicas)
        moves[partition] = PartitionMove(sources=frozenset(ongoing.replicas) - adding, destinations=adding)
    for partition, replicas in wanted.items():
        before = moves.get(partition)
        sources = frozenset(current[partition]) if before is None else before.sources
        moves[partition] = PartitionMove(sources=sources, destinations=frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, PartitionMove]) -> dict[str, dict[str, list[str]]]:
    """Return the entries of each topic's lists: leaders among the sources send slowly, destinations fetch slowly."""
    found: dict[str, dict[str, list[str]]] = {}
    for partition in sorted(moves):
        lists = found.setdefault(partition.topic, {key: [] for key in REPLICA_LISTS})
        move = moves[partition]
        for key, brokers in ((LEADER_REPLICAS, move.sources), (FOLLOWER_REPLICAS, move.destinations)):
            lists[key] += [f"{partition.partition}:{broker}" for broker in sorted(brokers)]
    return found


def brokers_of(moves: Mapping[TopicPartition, PartitionMove]) -> list[int]:
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


def missing_entries(wanted: ReplicaLists, configs: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the wanted entries that a topic with these configs does not have, by the key of the list."""
    found = {}
    for key, entries in wanted.items():
        present = set(entries_of(configs.get(key, "")))
        if EVERY_REPLICA not in present and (missing := [each for each in entries if each not in present]):
            found[key] = missing
    return found


def removal(configs: Mapping[str, Mapping[str, str]], over: Collection[TopicPartition]) -> Removal:
    """Return which entries go when the moves of these partitions are over, given the configs of topics."""
    removed: dict[str, dict[str, list[str]]] = {}
    kept: dict[str, dict[str, list[str]]] = {}
    for topic in sorted(configs):
        for key in REPLICA_LISTS:
            for entry in entries_of(configs[topic].get(key, "")):
                number = entry.partition(":")[0]
                is_over = number.isascii() and number.isdigit() and TopicPartition(topic, int(number)) in over
                (removed if is_over else kept).setdefault(topic, {}).setdefault(key, []).append(entry)
    return Removal(removed=removed, kept=kept)


def entries_of(value: str) -> list[str]:
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def is_throttled(partition: TopicPartition, lists: Mapping[str, ReplicaLists]) -> bool:
    """Whether a list of the topic names a replica of the partition."""
    numbers = {entry.partition(":")[0] for entries in lists.get(partition.topic, {}).values() for entry in entries}
    return bool(numbers & {EVERY_REPLICA, str(partition.partition)})


def partitions_naming(broker: int, configs: Mapping[str, Mapping[str, str]]) -> set[TopicPartition]:
    """Return the partitions of whose replicas the one on this broker is listed."""
    found = set()
    for topic, of_topic in configs.items():
        for key in REPLICA_LISTS:
            for entry in entries_of(of_topic.get(key, "")):
                number, _, broker_text = entry.partition(":")
                if broker_text == str(broker) and number.isascii() and number.isdigit():
                    found.add(TopicPartition(topic, int(number)))
    return found
