"""Whether nodes may be restarted now: what would stop working while they are away. No I/O.

A restart is safe if, without these nodes, each partition has a leader and as many replicas in sync as
min.insync.replicas asks for, and the controllers have a majority. A broker counts as away before the controller says
so: while it shuts down, and if it does not answer, because its session and its place in ISRs outlast it by seconds.
One whose disk is full can lead, and does not count for the minimum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.health.findings import ClusterFacts, is_lagging, listed
from kraft.health.partitions import Shown
from kraft.model.errors import KraftError, Refusal
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.model.brokers import BrokerDescription


class Unknown(KraftError):
    """Whether a restart is safe could not be found out; one line, with the reason."""


class Loss(StrEnum):
    """What a partition would lose; the first that applies."""

    LEADER = "leader"
    """No other replica is known to hold all committed records and could lead."""

    MIN_ISR = "min-isr"
    """It would have fewer replicas in sync than min.insync.replicas: acks=all is refused."""


class PartitionLoss(Struct, frozen=True, kw_only=True):
    """A partition for which a restart is not safe, and why."""

    topic: str
    partition: int
    loss: Loss
    what: str

    @property
    def has_no_leader(self) -> bool:
        return self.loss is Loss.LEADER


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether the nodes may be restarted together. `notes` are what else to know, and no reasons against it."""

    partitions: Sequence[PartitionLoss]
    controllers: Sequence[str]
    """Reasons why no metadata could change meanwhile, so that no leader could be elected either."""

    notes: Sequence[str]
    replicas: int
    """Partitions with a replica on these nodes, each counted once for each replica."""

    below: int
    """Partitions with a replica on these nodes that have fewer in sync than min.insync.replicas without them."""

    @property
    def is_safe(self) -> bool:
        return not self.partitions and not self.controllers


def verdict(facts: ClusterFacts, node_ids: Collection[int]) -> Verdict:
    """Decide. Raises Unknown for a node that is neither a broker nor a voter, and if not all partitions are known."""
    known = {each.broker_id for each in facts.brokers} | {each.node_id for each in facts.quorum.voters}
    if strangers := sorted(set(node_ids) - known):
        nodes = listed(sorted(known)) if known else "none"
        raise Unknown(f"there is no node {strangers[0]}: brokers and controllers are {nodes}")
    if reason := facts.unknown.get("disks"):
        raise Unknown(f"which brokers answer could not be found out: {reason}")
    restarting = [each for each in facts.brokers if each.broker_id in node_ids]
    held = [each for each in facts.partitions if not set(node_ids).isdisjoint(each.partition.replica_nodes)]
    _check_complete(restarting, held)
    away = {each.broker_id for each in facts.brokers if _is_away(each, facts)}.union(node_ids)
    serving = {each.broker_id for each in restarting if not each.fenced}
    full = set(_full(facts))
    return Verdict(
        partitions=[loss for each in held if (loss := _loss(each, serving, away, full)) is not None],
        controllers=list(_of_controllers(facts, node_ids)),
        notes=list(_notes(facts, node_ids, held)),
        replicas=sum(each.replicas for each in restarting),
        below=sum(len(_left(each, away.union(full))) < each.min_insync_replicas for each in held),
    )


def _check_complete(restarting: Sequence[BrokerDescription], held: Sequence[Shown]) -> None:
    """Raise Unknown if partitions of the brokers are missing: whoever may not describe a topic is not told of it."""
    for broker in restarting:
        seen = sum(broker.broker_id in each.partition.replica_nodes for each in held)
        if seen < broker.replicas:
            seen_of = f"only {seen:,} of the {counted(broker.replicas, 'replica')} of broker {broker.broker_id}"
            raise Unknown(f"{seen_of} could be seen: ask as a user that may describe all topics and their configs")


def _is_away(broker: BrokerDescription, facts: ClusterFacts) -> bool:
    """Return whether the broker cannot be counted on, whatever ISRs say."""
    return broker.fenced or broker.in_controlled_shutdown or _is_silent(broker.broker_id, facts)


def _is_silent(broker_id: int, facts: ClusterFacts) -> bool:
    """Return whether a broker was asked, and did not answer. One that refuses this command does answer."""
    outcome = facts.directories.get(broker_id, facts.fenced.get(broker_id))
    return isinstance(outcome, KraftError) and not isinstance(outcome, Refusal)


def _full(facts: ClusterFacts) -> Iterator[int]:
    """Yield the brokers that refuse appends: with the next record, they are no longer in sync."""
    for broker_id, outcome in facts.directories.items():
        if not isinstance(outcome, KraftError) and any(each.reason and not each.error_code for each in outcome):
            yield broker_id


def _left(shown: Shown, away: Collection[int]) -> set[int]:
    """Return who is in sync and stays."""
    return set(shown.partition.isr_nodes).difference(away, shown.partition.offline_replicas)


def _loss(shown: Shown, serving: Collection[int], away: Collection[int], full: Collection[int]) -> PartitionLoss | None:
    """Return what the partition would lose; None if nothing, also if the `serving` nodes do not hold it up now."""
    state = shown.partition
    in_sync, eligible = set(state.isr_nodes), set(state.eligible_leader_replicas or ())
    if in_sync.union(eligible).isdisjoint(serving):
        return None
    left = _left(shown, away)
    if not left and eligible <= {*away, *state.offline_replicas}:
        others = sorted((in_sync | eligible).difference(serving))
        why = f"broker {listed(others)} would have to lead, and is not there" if others else "no other is in sync"
        return _partition_loss(shown, Loss.LEADER, f"would have no leader: {why}")
    refusing, minimum = left.intersection(full), shown.min_insync_replicas
    many = len(left) - len(refusing)
    if in_sync.isdisjoint(serving) or many >= minimum:
        return None
    without = f" besides broker {listed(sorted(refusing))}, which refuses appends" if refusing else ""
    already = "" if len(in_sync) >= minimum else "; it is below already"
    what = f"would have {many} in sync{without}, below min.insync.replicas={minimum}{already}"
    return _partition_loss(shown, Loss.MIN_ISR, what)


def _partition_loss(shown: Shown, loss: Loss, what: str) -> PartitionLoss:
    return PartitionLoss(topic=shown.topic, partition=shown.partition.partition_index, loss=loss, what=what)


def _of_controllers(facts: ClusterFacts, node_ids: Collection[int]) -> Iterator[str]:
    quorum = facts.quorum
    leader = next((each for each in quorum.voters if each.node_id == quorum.leader_id), None)
    if leader is None:
        reason = quorum.error_message or "no controller is active"
        yield f"{reason}: nobody would elect other leaders"
        return
    counting = {
        each.node_id
        for each in quorum.voters
        if not (each.unreachable or each.is_learner or is_lagging(each, leader) or _is_silent(each.node_id, facts))
    }
    leaving = counting.intersection(node_ids)
    needed = len(quorum.voters) // 2 + 1
    left = len(counting - leaving)
    if not leaving or left >= needed:
        return
    if len(quorum.voters) == 1:
        yield f"node {quorum.leader_id} is the only controller: no metadata could change"
        return
    yield (
        f"{left} of {len(quorum.voters)} controllers would be left that count, and {needed} are needed: no metadata"
        " could change"
    )


def _notes(facts: ClusterFacts, node_ids: Collection[int], held: Sequence[Shown]) -> Iterator[str]:
    """Yield what does not speak against a restart, and what an operator is glad to know before it."""
    for broker in facts.brokers:
        if broker.broker_id in node_ids and broker.fenced:
            yield f"broker {broker.broker_id} is not in service now, so it is missed by nobody"
        elif broker.broker_id in node_ids and broker.in_controlled_shutdown:
            yield f"broker {broker.broker_id} is shutting down already"
    for voter in facts.quorum.voters:
        if voter.node_id in node_ids and (voter.unreachable or voter.is_learner):
            yield f"controller {voter.node_id} does not count among the voters now"
    if facts.active_controller in node_ids and not any(_of_controllers(facts, node_ids)):
        yield f"node {facts.active_controller} is the active controller: another one takes over"
    moving = [each for each in held if each.reassignment is not None]
    if moving:
        yield f"{counted(len(moving), 'partition')} being reassigned: what is copied to or from here goes on afterwards"
    behind = sum(
        each in shown.partition.replica_nodes and each not in shown.partition.isr_nodes
        for each in node_ids
        for shown in held
    )
    if behind:
        yield f"{counted(behind, 'replica')} here not in sync yet: a restart delays that"
