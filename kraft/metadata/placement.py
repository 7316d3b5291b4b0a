"""Placement of the replicas of new partitions on brokers.

The brokers form a ring in which racks alternate. From each partition to the next, the leader moves one place on, so
leaders stay even whatever the racks are. The followers take the places after the leader; with each full round of the
leader they start one place further on, so that a broker's partitions do not all have the same followers. Each further
replica goes to the rack with the fewest replicas so far: RF replicas cover min(racks, RF) racks. No machine gets two
replicas of a partition (see `machines`).

Only brokers in service lead. Fenced ones, which may come back, get followers: of the brokers that serve the spread over
racks equally well, those in service are taken first, and in the order of a partition's replicas they come first, too.

Kafka places in the same way (AdminUtils, StripedReplicaPlacer), but begins at random; here the caller gives the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Protocol

from kraft.metadata.machines import is_machine, machines_of, named
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId


class UsableBroker(Protocol):
    """A broker that may get replicas; `active` if it is in service, and may lead."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def active(self) -> bool: ...

    @property
    def rack(self) -> str: ...


def place_partitions(
    *, partitions: int, replication_factor: int, brokers: Iterable[UsableBroker], start: int
) -> list[list[BrokerId]]:
    """Return the replicas of each partition, preferred leader first.

    `start` is the place of the first partition's leader in the ring, counted over any number of rounds: the number of
    partitions placed before continues their pattern. Brokers without a rack share one. Raises Refusal
    INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    everyone = _ring(brokers)
    if partitions < 1:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"the partition count is {partitions}: it must be at least 1")
    _check_replication_factor(replication_factor, everyone)
    ring, fenced = _in_service(everyone), [broker for broker in everyone if not broker.active]
    return [_replicas(ring, fenced, position, replication_factor) for position in range(start, start + partitions)]


def place_more_partitions(
    *,
    existing: Sequence[Sequence[BrokerId]],
    partitions: int,
    replication_factor: int,
    brokers: Iterable[UsableBroker],
    start: int,
) -> list[list[BrokerId]]:
    """Return the replicas of partitions that are added to the `existing` ones, with leaders as even as possible.

    A topic whose partitions were never moved continues its pattern. Among equally good places, the next one after the
    last partition's leader is used, or the next one from `start` if that broker is not in the ring. Raises Refusal as
    `place_partitions` does.
    """
    everyone = _ring(brokers)
    _check_replication_factor(replication_factor, everyone)
    ring = _in_service(everyone)
    leads = Counter(replicas[0] for replicas in existing)
    # The followers continue their pattern: one place further on for each round of the existing leaders.
    rounds = len(ring) * (len(existing) // len(ring))
    last_place = next((place for place, broker in enumerate(ring) if broker.broker_id == existing[-1][0]), None)
    first = start if last_place is None else last_place + 1
    places = [(first + turn) % len(ring) for turn in range(len(ring))]
    best = min(places, key=lambda place: _unevenness(ring, leads, place, partitions))
    return place_partitions(
        partitions=partitions,
        replication_factor=replication_factor,
        brokers=everyone,
        start=rounds + best,
    )


def _unevenness(ring: Sequence[UsableBroker], leads: Counter[BrokerId], place: int, partitions: int) -> int:
    """Return a measure that is lower the more evenly the leaderships are spread over the brokers."""
    whole_rounds, rest = divmod(partitions, len(ring))
    after = [leads[broker.broker_id] + whole_rounds for broker in ring]
    for turn in range(rest):
        after[(place + turn) % len(ring)] += 1
    return sum(count * count for count in after)


def _check_replication_factor(replication_factor: int, brokers: Sequence[UsableBroker]) -> None:
    """Raise Refusal if there are not as many brokers, each on a machine of its own, or none of them is in service."""
    count, machines, in_service = len(brokers), machines_of(brokers), len(_in_service(brokers))
    if replication_factor < 1:
        problem = f"the replication factor is {replication_factor}: it must be at least 1"
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    state = "in service" if in_service == count else f"registered, {in_service} of them in service"
    if replication_factor > len(machines) and len(machines) < count:
        with_brokers = "1 machine has" if len(machines) == 1 else f"{len(machines)} machines have"
        problem = (
            f"the replication factor is {replication_factor}, but {with_brokers} brokers {state} "
            f"({named(machines)}), and no machine gets two replicas of a partition: start brokers on more machines or "
            f"ask for at most {len(machines)}"
        )
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if replication_factor > count or not in_service:
        brokers_are = "1 broker is" if count == 1 else f"{count} brokers are"
        remedy = f"start more brokers or ask for at most {count}" if in_service else "start brokers first"
        problem = f"the replication factor is {replication_factor}, but {brokers_are} {state}: {remedy}"
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def _in_service(brokers: Iterable[UsableBroker]) -> list[UsableBroker]:
    return [broker for broker in brokers if broker.active]


def _ring(brokers: Iterable[UsableBroker]) -> list[UsableBroker]:
    """Return the brokers in the order of the ring, one from each rack in turn."""
    racks: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack, broker.broker_id)):
        racks.setdefault(broker.rack, []).append(broker)
    turns = zip_longest(*racks.values())
    return [broker for broker in chain.from_iterable(turns) if broker is not None]


def _replicas(
    ring: list[UsableBroker], fenced: list[UsableBroker], position: int, replication_factor: int
) -> list[BrokerId]:
    """Return the replicas of one partition: its leader from the ring of those in service, those in service first."""
    round_number, leader_place = divmod(position, len(ring))
    leader = ring[leader_place]
    others = ring[leader_place + 1 :] + ring[:leader_place]
    shift = round_number % len(others) if others else 0
    turn = position % len(fenced) if fenced else 0
    in_turn = [*others[shift:], *others[:shift], *fenced[turn:], *fenced[:turn]]
    candidates = _elsewhere(in_turn, leader)
    replicas_in_rack = {leader.rack: 1}
    replicas = [leader]
    while len(replicas) < replication_factor:
        # `min` returns the first of several equals: one in service, and without racks the next one of the ring.
        chosen = min(candidates, key=lambda broker: replicas_in_rack.get(broker.rack, 0))
        candidates = _elsewhere(candidates, chosen)
        replicas_in_rack[chosen.rack] = replicas_in_rack.get(chosen.rack, 0) + 1
        replicas.append(chosen)
    return [broker.broker_id for broker in sorted(replicas, key=lambda broker: not broker.active)]


def _elsewhere(brokers: Iterable[UsableBroker], chosen: UsableBroker) -> list[UsableBroker]:
    """Return the brokers without the chosen one and those on its machine."""
    if is_machine(chosen.rack):
        return [broker for broker in brokers if broker.rack != chosen.rack]
    return [broker for broker in brokers if broker is not chosen]
