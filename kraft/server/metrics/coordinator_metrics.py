"""Metrics of the coordinators on this broker: groups, how far they are behind, and transactions."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Final

from kraft.coordinator.groups.queries import list_groups
from kraft.coordinator.lag.tracker import PartitionLag
from kraft.model.errors import Refusal
from kraft.model.groups import MANY_REBALANCES
from kraft.server.coordinator.group_coordinators import GroupCoordinators, GroupsView
from kraft.server.coordinator.group_lags import TOLD_AT_ONCE, GroupLags
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.server.loop.turns import Turns
from kraft.server.metrics.metric import Metric, counter, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

GROUPS: Final = gauge(
    "kraft_groups",
    "Groups that this broker coordinates, by type (Classic, Consumer) and state.",
    "type",
    "state",
    jmx="kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups...",
)
REBALANCES: Final = counter("kraft_group_rebalances", "Rebalances of groups that began, as this coordinator has seen.")
UNSETTLED: Final = gauge(
    "kraft_groups_unsettled",
    f"Groups that began {MANY_REBALANCES} rebalances or more within the last five minutes: they hardly read.",
)
MEMBERS_BYTES: Final = gauge("kraft_groups_memory_bytes", "Memory of the members of groups, approximately.")
TRANSACTIONS: Final = gauge(
    "kraft_transactional_ids",
    "Transactional ids that this broker coordinates, by the state of their last transaction.",
    "state",
)


def _of_group(name: str, help: str, *labels: str) -> Metric:
    return gauge(name, help, "consumergroup", *labels, per_partition=True)


MEMBERS: Final = _of_group("kafka_consumergroup_members", "Members of a group that this broker coordinates.")
CURRENT_OFFSET: Final = _of_group(
    "kafka_consumergroup_current_offset", "Committed offset of a group.", "topic", "partition"
)
CURRENT_OFFSET_SUM: Final = _of_group(
    "kafka_consumergroup_current_offset_sum", "Committed offsets of a group in a topic, added up.", "topic"
)
LAG: Final = _of_group(
    "kafka_consumergroup_lag", "Records that wait for a group, at its coordinator's last look.", "topic", "partition"
)
LAG_SUM: Final = _of_group("kafka_consumergroup_lag_sum", "Records that wait for a group in a topic.", "topic")
BEHIND: Final = _of_group(
    "kafka_consumer_lag_millis",
    "How far a group is behind in time, in milliseconds: the age of the oldest record that waits.",
    "topic",
    "partition",
)

METRICS: Final[tuple[Metric, ...]] = (
    GROUPS,
    REBALANCES,
    UNSETTLED,
    MEMBERS_BYTES,
    TRANSACTIONS,
    MEMBERS,
    CURRENT_OFFSET,
    CURRENT_OFFSET_SUM,
    LAG,
    LAG_SUM,
    BEHIND,
)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is None:
        return
    coordinators, per_group = parts.broker.coordinators, parts.config.metrics.per_partition
    snapshot.add(REBALANCES, coordinators.groups.rebalances.total)
    snapshot.add(UNSETTLED, coordinators.groups.rebalances.unsettled)
    # While one of them is loading, they are counted in the next scrape.
    with suppress(Refusal):
        await _collect_groups(coordinators.groups, per_group, snapshot)
    with suppress(Refusal):
        await _collect_transactions(coordinators.transactions.coordinators, snapshot)
    if per_group:
        await _collect_lags(coordinators.lags, snapshot)


async def _collect_groups(groups: GroupCoordinators, per_group: bool, snapshot: Snapshot) -> None:
    counts = Counter[tuple[str, str]]()
    for view in groups.views():
        for group in list_groups(view.committed, view.volatile):
            counts[group.group_type, group.group_state] += 1
            if per_group:
                snapshot.add(MEMBERS, _members(view, group.group_id), group.group_id)
            if snapshot.has_to_rest:
                await snapshot.rest()
    for (kind, state), count in counts.items():
        snapshot.add(GROUPS, count, kind, state)
    snapshot.add(MEMBERS_BYTES, groups.members_bytes)


def _members(view: GroupsView, group_id: str) -> int:
    consumer, classic = view.committed.consumer.get(group_id), view.volatile.classic.get(group_id)
    if consumer is not None:
        return len(consumer.members)
    return 0 if classic is None else len(classic.members)


async def _collect_transactions(transactions: TransactionCoordinators, snapshot: Snapshot) -> None:
    counts = Counter[str]()
    for shard in transactions.all_committed():
        for transaction in shard.transactions.by_id.values():
            counts[transaction.state.kafka_name] += 1
            if snapshot.has_to_rest:
                await snapshot.rest()
    for state, count in counts.items():
        snapshot.add(TRANSACTIONS, count, state)


async def _collect_lags(lags: GroupLags, snapshot: Snapshot) -> None:
    turns = Turns(TOLD_AT_ONCE)
    for group_id in lags.group_ids():
        # It may have moved to another broker meanwhile.
        with suppress(Refusal):
            await _collect_group(group_id, await lags.of_group(group_id, turns), snapshot)
        if snapshot.has_to_rest:
            await snapshot.rest()


async def _collect_group(group_id: str, found: list[PartitionLag], snapshot: Snapshot) -> None:
    offsets, lags = Counter[str](), Counter[str]()
    for each in found:
        topic = each.partition.topic
        labels = group_id, topic, str(each.partition.partition)
        snapshot.add_labelled(CURRENT_OFFSET, each.committed, labels)
        offsets[topic] += each.committed
        if each.lag is not None:
            snapshot.add_labelled(LAG, each.lag, labels)
            lags[topic] += each.lag
        if each.behind is not None:
            snapshot.add_labelled(BEHIND, each.behind.ms, labels)
        if snapshot.has_to_rest:
            await snapshot.rest()
    for topic, offset in offsets.items():
        snapshot.add(CURRENT_OFFSET_SUM, offset, group_id, topic)
    for topic, lag in lags.items():
        snapshot.add(LAG_SUM, lag, group_id, topic)
