"""Plans that move every replica off a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.metadata.machines import machine_of, machines_of, named
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted
from kraft.moves.assignments import assignment_of

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.model.brokers import BrokerDescription


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


def current_plan(admin: Admin, broker_id: int, topics: Sequence[str] = ()) -> list[ReplicaMovePlan]:
    """Return the plan for the cluster as it is now, without partitions that are already leaving the broker.

    It is about these topics, or all.
    """
    brokers = admin.describe_brokers()
    if broker_id not in {broker.broker_id for broker in brokers}:
        admin.describe_brokers([broker_id])
    leaving = {
        partition
        for partition, ongoing in admin.list_partition_reassignments().items()
        if broker_id in ongoing.removing_replicas
    }
    partitions = [(partition, tuple(replicas)) for partition, replicas in assignment_of(admin, topics).items()]
    return plan([each for each in partitions if each[0] not in leaving], brokers, broker_id)


def _takes_replicas(broker: BrokerDescription, leaving: int) -> bool:
    return broker.broker_id != leaving and not broker.fenced and not broker.in_controlled_shutdown
