"""Start planned moves, cancel them, and remove the throttles of those that are over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.model.errors import KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted
from kraft.moves.assignments import assignment_of
from kraft.moves.planned import PlannedMove, out_of_service, stale
from kraft.moves.throttled_replicas import moves_of
from kraft.moves.throttles import RATES, RemovedThrottles, limit_moves, remove_throttles

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment

SHOWN_MAX = 3
"""Partitions that one sentence is about."""


class PlanOutdated(KraftError):
    """The cluster is not as the plan says; one line."""


class PlanImpossible(KraftError):
    """Brokers of the plan cannot take replicas; one line."""


class Started(Struct, frozen=True, kw_only=True):
    """Moves that have begun, those that were refused, and rates that the throttle has replaced."""

    partitions: list[TopicPartition]
    refused: Mapping[TopicPartition, Refusal]
    replaced: list[str]


class Cancelled(Struct, frozen=True, kw_only=True):
    partitions: list[TopicPartition]
    refused: Mapping[TopicPartition, Refusal]
    removed: RemovedThrottles


def start(
    admin: Admin, moves: Sequence[PlannedMove], bytes_per_second: int | None, *, in_addition: bool = False
) -> Started:
    """Check the plan against the cluster as it is now, throttle the moves if wanted, then start them.

    Without `in_addition`, nothing else may be moving. Raises PlanOutdated or PlanImpossible before anything is changed.
    """
    under_way = admin.list_partition_reassignments()
    check(admin, moves, under_way, in_addition=in_addition)
    wanted = {each.partition: each.then for each in moves}
    current = {each.partition: each.now for each in moves}
    replaced: list[str] = []
    if bytes_per_second is not None:
        # Before the moves: none may run faster, even if this process dies here.
        replaced = limit_moves(admin, moves_of(wanted, current, under_way), bytes_per_second)
    outcome = admin.alter_partition_reassignments(wanted)
    return Started(
        partitions=[each for each, refusal in sorted(outcome.items()) if refusal is None],
        refused=_refused(outcome),
        replaced=replaced,
    )


def check(
    admin: Admin,
    moves: Sequence[PlannedMove],
    under_way: Mapping[TopicPartition, OngoingPartitionReassignment],
    *,
    in_addition: bool,
) -> None:
    """Raise PlanOutdated or PlanImpossible if the moves cannot be started now."""
    names = {each.partition for each in moves}
    if moving := sorted(names & under_way.keys()):
        to = ",".join(map(str, (each for each in under_way[moving[0]].replicas)))
        raise PlanOutdated(
            f"{_some([str(each) for each in moving])} moving already ({moving[0]} on {to}), which somebody else may "
            "have started: cancel these moves, or plan again without them"
        )
    if under_way and not in_addition:
        others = counted(len(under_way), "other partition is", "other partitions are")
        raise PlanOutdated(f"{others} moving: wait until they are complete, or start these moves in addition")
    current = assignment_of(admin, admin.find_topics(sorted({each.topic for each in names})))
    if changed := stale(moves, current):
        raise PlanOutdated(f"the plan is out of date: {_sentences(changed)}; plan again")
    states = {each.broker_id: not each.fenced for each in admin.describe_brokers()}
    if missing := out_of_service(moves, states):
        raise PlanImpossible(_sentences(missing))


def cancel(admin: Admin, partitions: Iterable[TopicPartition]) -> Cancelled:
    """Cancel those of these moves that are unfinished, and remove the throttles of all of them."""
    names = sorted(partitions)
    active = sorted(admin.list_partition_reassignments(names)) if names else []
    outcome = admin.alter_partition_reassignments(dict.fromkeys(active)) if active else {}
    refused = _refused(outcome)
    # A move that could not be cancelled goes on, and stays throttled.
    removed = remove_throttles(admin, set(names) - set(refused))
    return Cancelled(partitions=[each for each in active if each not in refused], refused=refused, removed=removed)


def finish(admin: Admin, partitions: Collection[TopicPartition]) -> RemovedThrottles:
    """Remove the throttles of those of these partitions that do not move, and rates that nothing needs.

    Raises PlanOutdated if all of the partitions move.
    """
    over = set(partitions) - admin.list_partition_reassignments().keys()
    if partitions and not over:
        raise PlanOutdated("all of these partitions are moving now: their throttles stay until they are complete")
    return remove_throttles(admin, over, RATES)


def refusals_in_words(refused: Mapping[TopicPartition, Refusal]) -> str:
    return _sentences([f"{partition}: {refusal.message}" for partition, refusal in sorted(refused.items())])


def _refused(outcome: Mapping[TopicPartition, Refusal | None]) -> dict[TopicPartition, Refusal]:
    return {each: refusal for each, refusal in outcome.items() if refusal is not None}


def _sentences(found: Sequence[str]) -> str:
    more = f"; and {len(found) - SHOWN_MAX:,} more" if len(found) > SHOWN_MAX else ""
    return "; ".join(found[:SHOWN_MAX]) + more


def _some(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    more = f" and {len(names) - SHOWN_MAX:,} more" if len(names) > SHOWN_MAX else ""
    return f"{', '.join(names[:SHOWN_MAX])}{more} are"
