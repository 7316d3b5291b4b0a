"""`python -m tests.soak.group_migration_runs`: groups change their protocol while their coordinator is killed.

The members of a classic group are replaced one by one by members of the consumer protocol, and these by classic ones
again, while a producer writes all the time. In some of these steps, or all of them, the coordinator is killed with
SIGKILL and started again. At the end every record has been read, and no record was committed by two members.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final

import typer

from kraft.testing import Cluster
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.group_member_runs import NODES, SESSION_MS, SETTINGS, kill_coordinator
from tests.soak.loads.steady_producer import PERIOD_S, SteadyProducer
from tests.support.kafka.group_members.history import History
from tests.support.kafka.group_members.member import Kind, Members, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read
from tests.support.kafka.group_members.options import Servers
from tests.support.waiting import until

PARTITIONS: Final = 6
SIZE: Final = 2
"""Members of the group, when none of them is being replaced."""

_KILL_AFTER_MAX_S: Final = 2.0
_DOWN_MAX_S: Final = 3.0
_DEADLINE_S: Final = 60.0

CLASSIC: Final = tuple(
    Kind(client=client, protocol=protocol)
    for client, protocol in (
        ("confluent", "range"),
        ("kraft", "range"),
        ("kafka_python", "cooperative-sticky"),
        ("kraft", "cooperative-sticky"),
    )
)
"""A group takes a pair of these, with the same assignor: those that commit synchronously, and report it."""

CONSUMER: Final = tuple(Kind(client=each, protocol="consumer") for each in ("confluent", "kraft"))


class Step(StrEnum):
    UPGRADE = "the first member of the consumer protocol joins"
    LAST_CLASSIC_LEAVES = "the last classic member leaves"
    FIRST_CLASSIC_JOINS = "the first classic member joins"
    DOWNGRADE = "the last member of the consumer protocol leaves"


class Migration:
    """One group, and the steps that it goes through."""

    def __init__(self, cluster: Cluster, observer: Observer, members: Members, group: str, chance: Random) -> None:
        self._cluster = cluster
        self._observer = observer
        self._members = members
        self._group = group
        self._chance = chance

    def start(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            self._members.start(kind)
        self._wait_shared()
        self._wait_type("CLASSIC")

    def upgrade(self, kinds: Sequence[Kind], killed: Collection[Step]) -> None:
        """Members of these kinds take the place of those that are there."""
        self._replace(kinds, Step.UPGRADE, Step.LAST_CLASSIC_LEAVES, killed)
        self._wait_type("CONSUMER")

    def downgrade(self, kinds: Sequence[Kind], killed: Collection[Step]) -> None:
        self._replace(kinds, Step.FIRST_CLASSIC_JOINS, Step.DOWNGRADE, killed)
        self._wait_type("CLASSIC")

    def finish(self) -> None:
        """Everything was read, and nothing was committed twice. Raises AssertionError."""
        ends = self._observer.end_offsets(self._group, PARTITIONS)
        wait_read(self._members.all, ends)
        for each in self._members.running:
            each.stop()
        History().check(self._members.all, ends)
        committed = self._observer.committed(self._group, self._group)
        assert committed == ends, f"committed {committed}, written {ends}"

    def _replace(self, kinds: Sequence[Kind], first: Step, last: Step, killed: Collection[Step]) -> None:
        """While members of both kinds are there, the group is one of the consumer protocol."""
        leaving = self._members.running
        for number, kind in enumerate(kinds):
            with self._coordinator_killed(first in killed and number == 0):
                self._members.start(kind)
                self._wait_shared()
            self._wait_type("CONSUMER")
        while leaving:
            with self._coordinator_killed(last in killed and len(leaving) == 1):
                leaving.pop().stop()
                self._wait_shared()

    @contextmanager
    def _coordinator_killed(self, is_killed: bool) -> Iterator[None]:
        """The coordinator is killed at some moment, and runs again at the end."""
        if not is_killed:
            yield
            return

        def kill() -> None:
            time.sleep(self._chance.uniform(0.0, _KILL_AFTER_MAX_S))
            kill_coordinator(self._cluster, self._group, self._chance.uniform(0.1, _DOWN_MAX_S))

        with ThreadPoolExecutor(1) as other:
            killing = other.submit(kill)
            yield
            killing.result(2 * _DEADLINE_S)
        # It may have been killed after the group had come to rest.
        self._wait_shared()

    def _wait_shared(self) -> None:
        self._observer.wait_shared(self._group, self._members.running, PARTITIONS)

    def _wait_type(self, group_type: str) -> None:
        # A coordinator that has just started does not list the groups that it has not loaded.
        until(partial(self._has_type, group_type), f"{self._group} is no {group_type} group", _DEADLINE_S)

    def _has_type(self, group_type: str) -> bool:
        return self._observer.type_of(self._group) == group_type


def run(cluster: Cluster, seed: int, killed: Collection[Step] | None = None, period_s: float = PERIOD_S) -> None:
    """Raises AssertionError for a record that was not read or was committed twice, and for a group that stops.

    Without `killed`, the seed decides in which steps the coordinator is killed. A record is written to each partition
    every `period_s`.
    """
    chance = Random(seed)
    group = f"migration-{seed}"
    if killed is None:
        killed = [each for each in Step if chance.random() < 0.75]
    observer = Observer(Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers))
    observer.create_topic(group, PARTITIONS, NODES)
    protocol = chance.choice(sorted({each.protocol for each in CLASSIC}))
    classic = [each for each in CLASSIC if each.protocol == protocol]
    with ExitStack() as stack:
        producer = stack.enter_context(SteadyProducer(cluster.kafka_bootstrap_servers, group, PARTITIONS, period_s))
        members = stack.enter_context(members_of(observer.servers, group, group, SESSION_MS))
        migration = Migration(cluster, observer, members, group, chance)
        migration.start(chance.sample(classic, SIZE))
        migration.upgrade(chance.sample(CONSUMER, SIZE), killed)
        migration.downgrade(chance.sample(classic, SIZE), killed)
        producer.stop()
        migration.finish()


def main(times: Times = 5, seed: Seed = None) -> None:
    first = chosen(seed)
    say(f"seed {first}")
    with judged(), Cluster(NODES, overrides=SETTINGS) as cluster:
        for number in range(first, first + times):
            run(cluster, number)
            say(f"seed {number}: every record was read, none was committed twice")


if __name__ == "__main__":
    typer.run(main)
