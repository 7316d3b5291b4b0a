"""The first page of a cluster: what is wrong and what to do, by the findings of `kraft cluster health`."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec import Struct

from kraft.client import KraftError
from kraft.console.asking import CLIENT_MS, Asked, Panel
from kraft.console.config import security_of
from kraft.health.facts import PROBE_MS, gather
from kraft.health.findings import ClusterFacts, Finding, findings, state_of
from kraft.health.partitions import is_unavailable, is_under_replicated
from kraft.health.restart import Unknown, verdict
from kraft.model.printable import counted
from kraft.moves.progress import Outcomes
from kraft.moves.skew import skew

KEPT_MS: Final = 5_000
"""How long what the brokers said is shown again: of 10,000 partitions, it costs them half a second of CPU time."""

SEARCHED_MAX: Final = 1_000
"""Partitions in which hanging transactions are looked for here; in more of them, people ask for it."""


class NodeRestart(Struct, frozen=True, kw_only=True):
    """Whether one node may be restarted now."""

    node_id: int
    safe: bool | None
    """None: it could not be found out."""

    reasons: list[str]


class Voter(Struct, frozen=True, kw_only=True):
    node_id: int
    is_leader: bool
    log_end_offset: int
    lag: int
    """Entries that it does not hold yet; -1: not known."""

    unreachable: bool


class Health(Struct, frozen=True, kw_only=True):
    asked_ms: int
    """When the brokers were asked, in milliseconds since 1970."""

    transactions_searched: bool
    """Whether hanging transactions were looked for."""

    cluster_id: str
    state: str
    findings: list[Finding]
    brokers: int
    brokers_in_service: int | None
    topics: int
    partitions: int
    under_replicated: int
    without_leader: int
    controller_id: int | None
    voters: list[Voter]
    restarts: list[NodeRestart]
    leaders_skew: int = 0
    """By how many percent the broker with the most leaders is above the mean."""

    replicas_skew: int = 0


class Sizes(Struct, frozen=True, kw_only=True):
    """Logs of all brokers that said how large theirs are."""

    size_bytes: int
    skew: int
    """By how many percent the broker with the largest logs is above the mean."""

    free_bytes: int | None
    """In the directory that has the least; None if no broker says it."""

    silent: list[int]


class Overview(Struct, frozen=True, kw_only=True):
    health: Panel[Health]
    sizes: Panel[Sizes] | None
    """None: not asked for."""

    @property
    def status(self) -> int:
        return self.health.status


class KnownFacts(Struct, frozen=True, kw_only=True):
    facts: ClusterFacts
    asked_ms: int


def known_facts(asked: Asked) -> KnownFacts:
    """Return what the user may know about the cluster, as it was in the last seconds.

    Blocks; raises KraftError or LoginOver.
    """

    def ask() -> KnownFacts:
        tls = security_of(asked.cluster).tls
        facts = gather(asked.admin, asked.client.elsewhere, CLIENT_MS, tls=tls, searched_max=SEARCHED_MAX)
        # That the password has changed is no trouble of the brokers.
        asked.let_in(facts.directories)
        return KnownFacts(facts=facts, asked_ms=int(time.time() * 1_000))

    return asked.state.facts.get((asked.cluster.name, asked.whom), KEPT_MS, ask)


async def overview(asked: Asked) -> Overview:
    """Load the page. Bytes in logs, which take longer, only if more is asked for: the page does so once it is shown."""

    def ask() -> Health:
        known = known_facts(asked)
        return health_of(known.facts, known.asked_ms)

    def kept() -> Health:
        return asked.state.kept.get(("overview", asked.cluster.name, asked.whom), KEPT_MS, ask)

    if asked.query.get("more", "") != "true":
        return Overview(health=await asked.panel(kept), sizes=None)
    health, sizes = await asyncio.gather(
        asked.panel(kept),
        asked.panel(lambda: sizes_of(asked.let_in(asked.admin.describe_log_directories(timeout_ms=PROBE_MS)))),
    )
    return Overview(health=health, sizes=sizes)


def sizes_of(outcomes: Outcomes) -> Sizes:
    described = {broker: each for broker, each in outcomes.items() if not isinstance(each, KraftError)}
    by_broker = {
        broker: sum(
            replica.partition_size for each in directories for topic in each.topics for replica in topic.partitions
        )
        for broker, directories in described.items()
    }
    free = [each.usable_bytes for directories in described.values() for each in directories if each.usable_bytes >= 0]
    return Sizes(
        size_bytes=sum(by_broker.values()),
        skew=skew(list(by_broker.values())),
        free_bytes=min(free, default=None),
        silent=sorted(outcomes.keys() - described.keys()),
    )


def health_of(facts: ClusterFacts, asked_ms: int) -> Health:
    found = findings(facts)
    quorum = facts.quorum
    voters = [
        Voter(
            node_id=each.node_id,
            is_leader=each.node_id == quorum.leader_id,
            log_end_offset=each.log_end_offset,
            lag=each.lag,
            unreachable=each.unreachable,
        )
        for each in quorum.voters
    ]
    nodes = sorted({each.broker_id for each in facts.brokers} | {each.node_id for each in quorum.voters})
    return Health(
        asked_ms=asked_ms,
        transactions_searched=len(facts.partitions) <= SEARCHED_MAX,
        cluster_id=quorum.cluster_id,
        state=state_of(found),
        findings=found,
        brokers=len(facts.brokers),
        brokers_in_service=facts.in_service,
        topics=len({each.topic for each in facts.partitions}),
        partitions=len(facts.partitions),
        under_replicated=sum(map(is_under_replicated, facts.partitions)),
        without_leader=sum(map(is_unavailable, facts.partitions)),
        controller_id=facts.active_controller,
        voters=voters,
        restarts=[restart_of(facts, each) for each in nodes],
        leaders_skew=skew([each.leaders for each in facts.brokers]),
        replicas_skew=skew([each.replicas for each in facts.brokers]),
    )


def restart_of(facts: ClusterFacts, node_id: int) -> NodeRestart:
    try:
        found = verdict(facts, [node_id])
    except Unknown as error:
        return NodeRestart(node_id=node_id, safe=None, reasons=[str(error)])
    partitions = [f"{each.topic}-{each.partition} {each.what}" for each in found.partitions[:5]]
    if (more := len(found.partitions) - len(partitions)) > 0:
        partitions.append(f"and {counted(more, 'more partition')}")
    return NodeRestart(node_id=node_id, safe=found.is_safe, reasons=[*found.controllers, *partitions])
