"""On which brokers the replicas of new partitions go.

The brokers stand in a ring in which racks take turns. Partition after partition, the leader moves one place on; so
leaders stay even whatever the racks look like. The followers are the places behind it; each time the leader has gone
all the way round they start one place further on, so that a broker's partitions are not all backed up by the same
neighbours. Each further replica goes to the rack that holds the fewest so far: RF replicas cover min(racks, RF) racks.

Kafka places alike (AdminUtils, StripedReplicaPlacer), except that it begins at random; here the caller says where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Protocol

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId


class UsableBroker(Protocol):
    """A broker that may be given replicas."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def rack(self) -> str: ...


def place_partitions(
    *, partitions: int, replication_factor: int, brokers: Iterable[UsableBroker], start: int
) -> list[list[BrokerId]]:
    """The replicas of each partition, preferred leader first.

    `start` is the place in the ring, counted on over any number of rounds, of the first partition's leader: who passes
    the number of partitions placed before continues their pattern. Brokers without a rack share one. Raises Refusal
    INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    ring = _ring(brokers)
    if partitions < 1:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions: at least 1 is needed")
    _check_replication_factor(replication_factor, len(ring))
    return [_replicas(ring, position, replication_factor) for position in range(start, start + partitions)]


def place_more_partitions(
    *,
    existing: Sequence[Sequence[BrokerId]],
    partitions: int,
    replication_factor: int,
    brokers: Iterable[UsableBroker],
    start: int,
) -> list[list[BrokerId]]:
    """The replicas of partitions that are added to the `existing` ones, so that leaders are as even as they can be.

    In a topic whose pattern nobody changed that is where it would go on. Of places that are equally good the next one
    behind the last partition's leader is taken, or from `start` on if that one is not there. Raises Refusal as
    `place_partitions` does.
    """
    ring = _ring(brokers)
    _check_replication_factor(replication_factor, len(ring))
    leads = Counter(replicas[0] for replicas in existing)
    # The followers go on as they would: one place further on for each round that the existing leaders made.
    rounds = len(ring) * (len(existing) // len(ring))
    last_place = next((place for place, broker in enumerate(ring) if broker.broker_id == existing[-1][0]), None)
    first = start if last_place is None else last_place + 1
    places = [(first + turn) % len(ring) for turn in range(len(ring))]
    best = min(places, key=lambda place: _unevenness(ring, leads, place, partitions))
    return place_partitions(
        partitions=partitions,
        replication_factor=replication_factor,
        brokers=ring,
        start=rounds + best,
    )


def _unevenness(ring: Sequence[UsableBroker], leads: Counter[BrokerId], place: int, partitions: int) -> int:
    """Less where the leaderships of the brokers are closer to each other."""
    whole_rounds, rest = divmod(partitions, len(ring))
    after = [leads[broker.broker_id] + whole_rounds for broker in ring]
    for turn in range(rest):
        after[(place + turn) % len(ring)] += 1
    return sum(count * count for count in after)


def _check_replication_factor(replication_factor: int, brokers: int) -> None:
    if replication_factor < 1:
        problem = f"replication factor {replication_factor}: at least 1 is needed"
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if replication_factor > brokers:
        alive = "1 broker is" if brokers == 1 else f"{brokers} brokers are"
        remedy = f"start more brokers or ask for at most {brokers}" if brokers else "start brokers first"
        problem = f"replication factor {replication_factor}, but {alive} alive: {remedy}"
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def _ring(brokers: Iterable[UsableBroker]) -> list[UsableBroker]:
    """The brokers in order, one from each rack in turn."""
    racks: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack, broker.broker_id)):
        racks.setdefault(broker.rack, []).append(broker)
    turns = zip_longest(*racks.values())
    return [broker for broker in chain.from_iterable(turns) if broker is not None]


def _replicas(ring: list[UsableBroker], position: int, replication_factor: int) -> list[BrokerId]:
    round_number, leader_place = divmod(position, len(ring))
    leader = ring[leader_place]
    others = ring[leader_place + 1 :] + ring[:leader_place]
    shift = round_number % len(others) if others else 0
    candidates = others[shift:] + others[:shift]
    replicas_in_rack = {leader.rack: 1}
    replicas = [leader.broker_id]
    while len(replicas) < replication_factor:
        # The first of several equals wins, so a cluster without racks takes its followers in the ring's order.
        chosen = min(candidates, key=lambda broker: replicas_in_rack.get(broker.rack, 0))
        candidates.remove(chosen)
        replicas_in_rack[chosen.rack] = replicas_in_rack.get(chosen.rack, 0) + 1
        replicas.append(chosen.broker_id)
    return replicas
