"""`kraft brokers decommission`: move every replica off a broker.

The only state is the cluster's own, the ongoing reassignments. So the command can be interrupted at any time and run
again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.cli.printing import say
from kraft.cli.topics.throttled_replicas import moves_of, partitions_naming
from kraft.cli.topics.throttles import configs_of_topics, limit_moves, remove_throttles, report_removed
from kraft.metadata.machines import machine_of, machines_of, named
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.model.brokers import BrokerDescription

MOVED_AT_ONCE: Final = 10
"""Partitions moving at a time: copies take disk and network bandwidth from clients."""

POLL_S: Final = 0.5


class CannotDecommission(KraftError):
    """The broker cannot be emptied; one line, with the remedy."""


class ReplicaMovePlan(Struct, frozen=True, kw_only=True):
    """Current and target replicas of a partition, preferred leader first."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]


def plan(
    partitions: Sequence[tuple[TopicPartition, tuple[int, ...]]], brokers: Sequence[BrokerDescription], broker_id: int
) -> list[ReplicaMovePlan]:
    """Return a move for each partition that has a replica on the broker.

    The successor is a broker in service: in a rack where the partition has the fewest replicas, and among those the
    broker with the fewest replicas in total. It is never on a machine that has another replica. Raises
    CannotDecommission if there is none.
    """
    available = {broker.broker_id: broker for broker in brokers if _takes_replicas(broker, broker_id)}
    racks = {broker.broker_id: broker.rack for broker in brokers}
    machines = {broker.broker_id: machine_of(broker) for broker in brokers}
    held = Counter({each: available[each].replicas for each in available})
    moves, stuck = [], []
    for partition, replicas in partitions:
        if broker_id not in replicas:
            continue
        taken = {machines[each] for each in replicas if each != broker_id and each in machines}
        candidates = [each for each in available if each not in replicas and machines[each] not in taken]
        if not candidates:
            stuck.append(str(partition))
            continue
        in_rack = Counter(racks.get(each, "") for each in replicas if each != broker_id)
        successor = min(candidates, key=lambda each: (in_rack[racks[each]], held[each], each))
        held[successor] += 1
        target = tuple(successor if each == broker_id else each for each in replicas)
        moves.append(ReplicaMovePlan(partition=partition, replicas=replicas, target=target))
    if stuck:
        shown = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
        raise CannotDecommission(
            f"broker {broker_id} cannot be emptied: {_counted(available)} too few for the replicas of {shown}: start "
            "another broker, or reassign these partitions to fewer replicas"
        )
    return moves


def _counted(available: Mapping[int, BrokerDescription]) -> str:
    """Return what there is for replicas: brokers in service, and machines if they are fewer."""
    machines = machines_of(available.values())
    on_machines = (
        f" on {counted(len(machines), 'machine')} ({named(machines)})" if len(machines) < len(available) else ""
    )
    return f"the {len(available)} other brokers in service{on_machines} are"


def current_plan(admin: Admin, broker_id: int) -> list[ReplicaMovePlan]:
    """Return the plan for the cluster as it is now, without partitions that are already leaving the broker."""
    brokers = admin.describe_brokers()
    if broker_id not in {broker.broker_id for broker in brokers}:
        admin.describe_brokers([broker_id])
    leaving = {
        partition
        for partition, ongoing in admin.list_partition_reassignments().items()
        if broker_id in ongoing.removing_replicas
    }
    partitions = [
        (TopicPartition(topic.topic, state.partition_index), state.replica_nodes)
        for topic in admin.describe_topics()
        for state in topic.metadata.partitions
    ]
    return plan([each for each in partitions if each[0] not in leaving], brokers, broker_id)


def empty(
    admin: Admin,
    broker_id: int,
    deadline_s: float,
    report: Callable[[int], None],
    bytes_per_second: int | None = None,
) -> int:
    """Move every replica off the broker and fence it, so that no new one is placed there.

    `report` is called with the number of replicas that are left. `bytes_per_second` throttles the moves, also those
    that an earlier run began. Returns the number of partitions moved. Raises CannotDecommission, also at the deadline;
    moves that have begun continue, throttled as they are.
    """
    began = time.monotonic()
    moved: set[TopicPartition] = set()
    if bytes_per_second is not None:
        _throttle(admin, broker_id, (), bytes_per_second)
    while True:
        # Planned again each time: topics and brokers may have changed meanwhile.
        waiting = current_plan(admin, broker_id)
        moving = admin.describe_brokers([broker_id])[0].replicas - len(waiting)
        report(moving + len(waiting))
        if not waiting and moving <= 0:
            # Before the fence: the rates of a fenced broker cannot be read.
            _remove_throttles(admin, broker_id)
            admin.fence_broker(broker_id)
            if not admin.describe_brokers([broker_id])[0].replicas:
                return len(moved)
            # A topic was created before the fence took effect.
            admin.unfence_broker(broker_id)
            continue
        if started := waiting[: max(0, MOVED_AT_ONCE - moving)]:
            if bytes_per_second is not None:
                _throttle(admin, broker_id, started, bytes_per_second)
            _start(admin, started)
            moved.update(move.partition for move in started)
        if time.monotonic() - began > deadline_s:
            raise CannotDecommission(
                f"broker {broker_id} still has {moving + len(waiting)} replicas after {deadline_s:g} s; moves that "
                "have begun continue: run the command again"
            )
        # No API notifies a client of the end of a move, so poll. The deadline was checked above.
        time.sleep(POLL_S)


def interruption(broker_id: int, left: int | None) -> str:
    """Return what was done and what not when the command is interrupted; `left` are the replicas that were left."""
    if left is None:
        return f"Interrupted: nothing was moved off broker {broker_id}"
    return (
        f"Interrupted: broker {broker_id} has {counted(left, 'replica')} left: do not stop it yet. Moves that have"
        " begun continue, others do not begin: run the command again to go on, or see kraft topics reassign --list"
    )


def _start(admin: Admin, moves: Sequence[ReplicaMovePlan]) -> None:
    refusals = admin.alter_partition_reassignments({move.partition: move.target for move in moves})
    for partition, refusal in refusals.items():
        if refusal is not None:
            raise CannotDecommission(f"{partition} cannot be moved: {refusal}")


def _throttle(admin: Admin, broker_id: int, moves: Sequence[ReplicaMovePlan], bytes_per_second: int) -> None:
    """Throttle these moves, before they start, and those that leave the broker already."""
    leaving = {
        partition: ongoing
        for partition, ongoing in admin.list_partition_reassignments().items()
        if broker_id in ongoing.removing_replicas
    }
    targets = {move.partition: move.target for move in moves}
    current = {move.partition: move.replicas for move in moves}
    if throttled := moves_of(targets, current, leaving):
        limit_moves(admin, throttled, bytes_per_second)


def _remove_throttles(admin: Admin, broker_id: int) -> None:
    """Remove the throttles of this run and of earlier ones: of the partitions that list a replica on the broker."""
    if over := partitions_naming(broker_id, configs_of_topics(admin)):
        report_removed(remove_throttles(admin, over), say)


def _takes_replicas(broker: BrokerDescription, leaving: int) -> bool:
    return broker.broker_id != leaving and not broker.fenced and not broker.in_controlled_shutdown
