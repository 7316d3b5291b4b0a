"""Plans that spread topics evenly over chosen brokers, as kafka-reassign-partitions.sh --generate makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.metadata.placement import place_partitions
from kraft.model.ids import BrokerId, TopicPartition
from kraft.moves.assignments import Assignment, ReassignmentFailed

if TYPE_CHECKING:
    from kraft.client import Admin


class ChosenBroker(Struct, frozen=True, kw_only=True):
    broker_id: BrokerId
    rack: str
    active: bool = True
    """The operator chose the brokers, and any of them may lead."""


def chosen_brokers(
    admin: Admin, broker_ids: Sequence[int], *, rack_aware: bool, unknown: str, no_racks: str
) -> list[ChosenBroker]:
    """Return these brokers. `unknown` and `no_racks` are remedies. Raises ReassignmentFailed."""
    registered = {broker.node_id: broker for broker in admin.describe_cluster(topics=()).brokers}
    for broker_id in broker_ids:
        if broker_id not in registered:
            raise ReassignmentFailed(f"Unknown broker id {broker_id}: {unknown}")
    racks = {broker_id: (registered[broker_id].rack or "") if rack_aware else "" for broker_id in broker_ids}
    if any(racks.values()) and not all(racks.values()):
        raise ReassignmentFailed(f"Not all brokers have rack information. {no_racks}")
    return [ChosenBroker(broker_id=BrokerId(broker_id), rack=rack) for broker_id, rack in racks.items()]


def proposed(current: Assignment, chosen: Sequence[ChosenBroker]) -> dict[TopicPartition, list[int]]:
    """Return an even assignment of one topic's partitions to the brokers: of all, the one with the fewest moves."""
    partitions = sorted(current)
    replication_factor = len(current[partitions[0]])

    def placed(start: int) -> list[list[int]]:
        replicas = place_partitions(
            partitions=len(partitions), replication_factor=replication_factor, brokers=chosen, start=start
        )
        return [list(each) for each in replicas]

    def moves(start: int) -> int:
        return sum(
            len(set(after).difference(current[each])) for each, after in zip(partitions, placed(start), strict=True)
        )

    return dict(zip(partitions, placed(min(range(len(chosen)), key=moves)), strict=True))
