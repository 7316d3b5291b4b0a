"""`kraft brokers decommission`: where the replicas of a broker go, and the way there.

Nothing is kept of it but what the cluster itself keeps, the reassignments that are under way. So it can be broken off
at any time and called again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.model.brokers import BrokerDescription

MOVED_AT_ONCE: Final = 10
"""Partitions under way at a time: copying takes disks and network away from clients."""

POLL_S: Final = 0.5


class CannotDecommission(KraftError):
    """One line, with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's replicas as they are and as they are to be, preferred leader first."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]


def plan(
    partitions: Sequence[tuple[TopicPartition, tuple[int, ...]]], brokers: Sequence[BrokerDescription], broker_id: int
) -> list[Move]:
    """For each partition that has a replica on the broker, who takes its place.

    That is one of the brokers in service: in a rack where the partition has the fewest replicas, and of those the one
    that has the fewest replicas altogether. Raises CannotDecommission where there is none.
    """
    there = {broker.broker_id: broker for broker in brokers if _takes_replicas(broker, broker_id)}
    racks = {broker.broker_id: broker.rack for broker in brokers}
    held = Counter({each: there[each].replicas for each in there})
    moves, stuck = [], []
    for partition, replicas in partitions:
        if broker_id not in replicas:
            continue
        candidates = [each for each in there if each not in replicas]
        if not candidates:
            stuck.append(str(partition))
            continue
        in_rack = Counter(racks.get(each, "") for each in replicas if each != broker_id)
        successor = min(candidates, key=lambda each: (in_rack[racks[each]], held[each], each))
        held[successor] += 1
        target = tuple(successor if each == broker_id else each for each in replicas)
        moves.append(Move(partition=partition, replicas=replicas, target=target))
    if stuck:
        shown = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
        raise CannotDecommission(
            f"broker {broker_id} cannot be emptied: {len(there)} other brokers are in service, too few for the "
            f"replicas of {shown}; start another broker, or lower their replication factor"
        )
    return moves


def current_plan(admin: Admin, broker_id: int) -> list[Move]:
    """As `plan`, of what the cluster is like now; without what is on its way off the broker already."""
    brokers = admin.describe_brokers()
    if broker_id not in {broker.broker_id for broker in brokers}:
        admin.describe_brokers([broker_id])
    leaving = {
        partition
        for partition, ongoing in admin.list_partition_reassignments().items()
        if broker_id in ongoing.removing_replicas
    }
    partitions = [
        (TopicPartition(topic.metadata.topic, state.partition), tuple(state.replicas))
        for topic in admin.describe_topics()
        for state in topic.metadata.partitions
    ]
    return plan([each for each in partitions if each[0] not in leaving], brokers, broker_id)


def empty(admin: Admin, broker_id: int, deadline_s: float, report: Callable[[int], None]) -> int:
    """Moves everything off the broker and fences it, so that nothing new is placed there.

    `report` is told how many replicas the broker still has. Returns how many partitions were moved. Raises
    CannotDecommission, also at the deadline: what is under way then goes on.
    """
    began = time.monotonic()
    moved: set[TopicPartition] = set()
    while True:
        # Anew each time: meanwhile topics may have been created or deleted, and brokers have come or gone.
        waiting = current_plan(admin, broker_id)
        under_way = admin.describe_brokers([broker_id])[0].replicas - len(waiting)
        report(under_way + len(waiting))
        if not waiting and under_way <= 0:
            admin.fence_broker(broker_id)
            if not admin.describe_brokers([broker_id])[0].replicas:
                return len(moved)
            # A topic was created in between.
            admin.unfence_broker(broker_id)
            continue
        if begin := waiting[: max(0, MOVED_AT_ONCE - under_way)]:
            _begin(admin, begin)
            moved.update(move.partition for move in begin)
        if time.monotonic() - began > deadline_s:
            raise CannotDecommission(
                f"broker {broker_id} still has {under_way + len(waiting)} replicas after {deadline_s:g} s; what is "
                "under way goes on, and the same command takes it from there"
            )
        # Nobody tells a client when a move is over. The deadline was looked at just now.
        time.sleep(POLL_S)


def _begin(admin: Admin, moves: Sequence[Move]) -> None:
    refusals = admin.alter_partition_reassignments({move.partition: move.target for move in moves})
    for partition, refusal in refusals.items():
        if refusal is not None:
            raise CannotDecommission(f"{partition} is not moved: {refusal}")


def _takes_replicas(broker: BrokerDescription, leaving: int) -> bool:
    return broker.broker_id != leaving and not broker.fenced and not broker.in_controlled_shutdown
