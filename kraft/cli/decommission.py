"""`kraft brokers decommission`: move every replica off a broker.

The only state is the cluster's own, the ongoing reassignments. So the command can be interrupted at any time and run
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kraft.cli.printing import say
from kraft.cli.topics.removed_throttles import report_removed, say_replaced
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted
from kraft.moves.leaving import CannotDecommission, ReplicaMovePlan, current_plan
from kraft.moves.throttled_replicas import moves_of, partitions_naming
from kraft.moves.throttles import configs_of_topics, limit_moves, remove_throttles

if TYPE_CHECKING:
    from kraft.client import Admin

MOVED_AT_ONCE: Final = 10
"""Partitions moving at a time: copies take disk and network bandwidth from clients."""

POLL_S: Final = 0.5


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
        say_replaced(limit_moves(admin, throttled, bytes_per_second))


def _remove_throttles(admin: Admin, broker_id: int) -> None:
    """Remove the throttles of this run and of earlier ones: of the partitions that list a replica on the broker."""
    if over := partitions_naming(broker_id, configs_of_topics(admin)):
        report_removed(remove_throttles(admin, over), say)
