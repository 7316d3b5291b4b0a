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


class EvenSpread:
    """Even assignments of topics to the same brokers. What is placed for one topic serves the others."""

    def __init__(self, chosen: Sequence[ChosenBroker]) -> None:
        self._chosen = chosen
        self._known: dict[int, list[list[BrokerId]]] = {}
        """By replication factor: the replicas of a partition whose leader has the place 0, 1 and so on in the ring."""

    def proposed(self, current: Assignment) -> dict[TopicPartition, list[int]]:
        """Return an assignment of one topic's partitions: of all even ones, the one with the fewest moves.

        Raises Refusal INVALID_REPLICATION_FACTOR.
        """
        partitions = sorted(current)
        now = [current[each] for each in partitions]
        starts = range(len(self._chosen))
        placed = self._placed(len(now[0]), len(now) + len(starts))

        def moves(start: int) -> int:
            return sum(len(set(then).difference(before)) for before, then in zip(now, placed[start:], strict=False))

        fewest = min(starts, key=moves)
        return {each: list(then) for each, then in zip(partitions, placed[fewest:], strict=False)}

    def _placed(self, replication_factor: int, places: int) -> list[list[BrokerId]]:
        """Return the replicas for so many places of the leader, or for more."""
        known = self._known.setdefault(replication_factor, [])
        if len(known) < places:
            known += place_partitions(
                partitions=places - len(known),
                replication_factor=replication_factor,
                brokers=self._chosen,
                start=len(known),
            )
        return known
