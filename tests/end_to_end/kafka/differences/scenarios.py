"""All scenarios, and what the brokers are told before they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kraft.model.principal import ANONYMOUS
from kraft.server.config.access_settings import STANDARD_AUTHORIZER
from tests.end_to_end.kafka.differences import (
    acl_scenarios,
    classic_group_scenarios,
    cluster_scenarios,
    config_scenarios,
    consumer_group_scenarios,
    coordinator_scenarios,
    fetch_scenarios,
    group_listing_scenarios,
    group_offset_scenarios,
    leader_scenarios,
    operator_scenarios,
    place_scenarios,
    placement_scenarios,
    produce_scenarios,
    push_scenarios,
    random_scenarios,
    topic_scenarios,
    transaction_scenarios,
)
from tests.end_to_end.kafka.differences.peer import Peer
from tests.end_to_end.kafka.differences.plain import Plain

Scenario = Callable[[Peer], None]
ClusterScenario = Callable[[Mapping[int, Peer]], None]

SETTINGS: Final[Mapping[str, str]] = {"num.partitions": "2"}

GROUP_SETTINGS: Final[Mapping[str, str]] = {
    **SETTINGS,
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": str(classic_group_scenarios.MEMBERS_MAX),
    # The assignment comes with the heartbeat that needs it, not up to a second later.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": str(classic_group_scenarios.MEMBERS_MAX),
}
"""What the brokers of the group scenarios are told."""

ACL_SETTINGS: Final[Mapping[str, str]] = {
    **SETTINGS,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": str(ANONYMOUS),
}
"""What the broker of the ACL scenarios is told."""

CLUSTER_NODES: Final = 3

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *produce_scenarios.SCENARIOS,
    *fetch_scenarios.SCENARIOS,
    *random_scenarios.SCENARIOS,
    *place_scenarios.SCENARIOS,
    *cluster_scenarios.SCENARIOS,
    *topic_scenarios.SCENARIOS,
    *config_scenarios.SCENARIOS,
    *operator_scenarios.SCENARIOS,
    acl_scenarios.acls_without_authorizer,
)
"""Scenarios for one broker."""

ACL_SCENARIOS: Final[tuple[Scenario, ...]] = acl_scenarios.SCENARIOS
"""Scenarios for one broker with ACL_SETTINGS."""

PUSH_SCENARIOS: Final[tuple[Scenario, ...]] = push_scenarios.SCENARIOS
"""Scenarios for one broker that asks clients for their metrics."""

GROUP_SCENARIOS: Final[tuple[Scenario, ...]] = (
    *classic_group_scenarios.SCENARIOS,
    *group_offset_scenarios.SCENARIOS,
    *group_listing_scenarios.SCENARIOS,
    *consumer_group_scenarios.SCENARIOS,
    *transaction_scenarios.SCENARIOS,
)
"""Scenarios for one broker with GROUP_SETTINGS."""

CLUSTER_SCENARIOS: Final[tuple[ClusterScenario, ...]] = (
    *leader_scenarios.SCENARIOS,
    *placement_scenarios.SCENARIOS,
    *coordinator_scenarios.SCENARIOS,
)
"""Scenarios for CLUSTER_NODES brokers."""


def play(scenario: Scenario, address: str, user: str | None = None) -> dict[str, Any]:
    """The answers by their labels. Topics of one scenario are not those of another, so all may share a broker."""
    return _play(lambda peers: scenario(peers[1]), [address], user)


def play_in_cluster(scenario: ClusterScenario, addresses: Sequence[str]) -> dict[str, Any]:
    """`addresses` are in the order of the nodes' ids, which count from 1."""
    return _play(scenario, addresses)


def _play(scenario: ClusterScenario, addresses: Sequence[str], user: str | None = None) -> dict[str, Any]:
    plain, answers = Plain(), dict[str, Any]()
    peers = {node_id: Peer(address, plain, answers, user) for node_id, address in enumerate(addresses, start=1)}
    try:
        scenario(peers)
    finally:
        for peer in peers.values():
            peer.close()
    return answers
