"""`python -m tests.soak.coordinator_kill_runs`: kill -9 of the coordinators of groups that commit offsets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Final

import typer
from msgspec import Struct

from kraft.client import Admin
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.testing import Cluster
from tests.soak.fault_runs import judged, say
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.group_load import GroupLoad, GroupMember, group_load
from tests.support.records import create_topic
from tests.support.waiting import until, until_in_sync

NODES: Final = 3
GROUPS: Final = 12
PARTITIONS: Final = 3
OFFSETS_PARTITIONS: Final = 12
_TOPIC: Final = "consumed"
_SETTINGS: Final = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    # Otherwise a node that was killed would not coordinate again.
    "leader.imbalance.check.interval.seconds": "1",
}
_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.02
_COMMITS_BETWEEN: Final = 5

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class CoordinatorKill(Struct, frozen=True, kw_only=True):
    """One kill. A gap is the time from the kill to the next commit of a group that the node coordinated."""

    node_id: int
    gaps_s: tuple[float, ...]


class KillRun(Struct, frozen=True, kw_only=True):
    kills: tuple[CoordinatorKill, ...]
    commits: int
    joins: int
    """How often members joined their groups: once each, if no coordinator forgot a member."""

    failures: Counter[str]

    @property
    def gaps_s(self) -> list[float]:
        return [gap for kill in self.kills for gap in kill.gaps_s]


def run(*, times: int, seed: int, tell: Callable[[CoordinatorKill], None] = lambda _: None) -> KillRun:
    """Kill coordinators under load. Raises AssertionError if a committed offset is lost, or a group does not go on."""
    chance, kills = Random(seed), list[CoordinatorKill]()
    with Cluster(nodes=NODES, overrides=_SETTINGS) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=PARTITIONS, replication_factor=NODES)
        servers = cluster.bootstrap_servers.split(",")
        with group_load(servers, _TOPIC, groups=GROUPS, partitions=PARTITIONS) as load:
            _wait_for_commits(load)
            for _ in range(times):
                until_in_sync(admin, OFFSETS_TOPIC)
                _wait_for_commits(load)
                # Kills come at random moments.
                time.sleep(chance.uniform(0.2, 1.0))
                kills.append(_kill(cluster, load, chance))
                tell(kills[-1])
            _wait_for_commits(load)
            until_in_sync(admin, OFFSETS_TOPIC)
    return KillRun(
        kills=tuple(kills),
        commits=sum(member.acknowledged for member in load.members),
        joins=sum(member.joins for member in load.members),
        failures=sum((member.failures for member in load.members), Counter[str]()),
    )


def _kill(cluster: Cluster, load: GroupLoad, chance: Random) -> CoordinatorKill:
    node_id = chance.choice(load.members).coordinator_id
    coordinated = [member for member in load.members if member.coordinator_id == node_id]
    cluster.node(node_id).kill()
    killed_at_s = time.monotonic()
    gaps_s = tuple(_first_commit_s(load, member, killed_at_s) - killed_at_s for member in coordinated)
    cluster.node(node_id).start()
    cluster.wait_ready(_DEADLINE_S)
    return CoordinatorKill(node_id=node_id, gaps_s=gaps_s)


def _first_commit_s(load: GroupLoad, member: GroupMember, killed_at_s: float) -> float:
    """Return when the first commit after the kill was acknowledged, other than one that was on its way."""
    from_s = killed_at_s + _POLL_S
    while not member.acknowledged_at_s or member.acknowledged_at_s[-1] < from_s:
        load.check()
        problem = f"{member.group_id} does not go on: {dict(member.failures)}"
        assert time.monotonic() < killed_at_s + _DEADLINE_S, problem
        time.sleep(_POLL_S)
    return next(each for each in member.acknowledged_at_s if each >= from_s)


def _wait_for_commits(load: GroupLoad) -> None:
    until(lambda: len(load.members) == GROUPS, "the load does not begin", _DEADLINE_S)
    before = [member.acknowledged for member in load.members]

    def all_commit() -> bool:
        load.check()
        return all(
            member.acknowledged >= earlier + _COMMITS_BETWEEN
            for member, earlier in zip(load.members, before, strict=True)
        )

    until(all_commit, lambda: _stuck(load.members), _DEADLINE_S)


def _stuck(members: Sequence[GroupMember]) -> str:
    return "; ".join(f"{each.group_id}: {each.acknowledged} commits, {dict(each.failures)}" for each in members)


@app.command()
def main(times: Annotated[int, typer.Option(min=1)] = 50, seed: int = 1) -> None:
    """Kill coordinators repeatedly; the three nodes are brokers and controllers."""

    def tell(kill: CoordinatorKill) -> None:
        say(f"node {kill.node_id}, {len(kill.gaps_s)} groups: {', '.join(f'{gap:.2f}' for gap in kill.gaps_s)} s")

    with judged():
        ended = run(times=times, seed=seed, tell=tell)
    print(f"kill -9 of a coordinator {times} times, {NODES} nodes, seed {seed}: no committed offset lost or gone back")
    print(f"{GROUPS} groups of both protocols, {ended.commits} commits of {PARTITIONS} offsets, {ended.joins} joins")
    print(f"a group waited: {figures(ended.gaps_s)}")
    print(f"attempts that failed: {dict(ended.failures)}")


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.coordinator_kill_runs")
