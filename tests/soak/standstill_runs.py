"""`python -m tests.soak.standstill_runs`: nobody stands still for long after a kill, whatever client reads.

aiokafka, kafka-python, librdkafka, Kafka's Java client and ours, each with its own metadata ages and sessions, read a
topic to which librdkafka writes all the time: each in a group of its own, and all in one group. Coordinators, leaders
and active controllers are killed, or paused, and come back 3 s later. The longest time in which a group reads nothing
of a partition is printed, by group and fault; it includes a standstill of the producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from random import Random
from typing import Annotated, Final

import typer
from msgspec import Struct

from kraft.client import Admin
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.testing import Cluster
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.steady_producer import SteadyProducer
from tests.support.kafka.group_members.history import History
from tests.support.kafka.group_members.member import Kind, Members, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.single_requests import coordinator_id
from tests.support.waiting import until, until_in_sync

NODES: Final = 3
PARTITIONS: Final = 6
STANDSTILL_S_MAX: Final = 10.0
CLIENTS: Final = ("aiokafka", "kafka_python", "confluent", "java", "kraft")
MIXED: Final = "mixed"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    # Otherwise a node that was killed would not lead again.
    "leader.imbalance.check.interval.seconds": "5",
}
_DOWN_S: Final = 3.0
_SETTLED_S: Final = 2.0
_PERIOD_S: Final = 0.1
_DEADLINE_S: Final = 60.0
_TELLING: Final = ("assigned", "revoked", "lost", "failed")
_DISCONNECTED: Final = "ListOffsets was repeated"


class Fault(StrEnum):
    KILL_COORDINATOR = "a coordinator is killed"
    KILL_LEADER = "a leader is killed"
    KILL_CONTROLLER = "the active controller is killed"
    PAUSE_COORDINATOR = "a coordinator is paused"
    PAUSE_LEADER = "a leader is paused"
    PAUSE_CONTROLLER = "the active controller is paused"


KILLS: Final = (Fault.KILL_COORDINATOR, Fault.KILL_LEADER, Fault.KILL_CONTROLLER)


class Standstill(Struct, frozen=True, kw_only=True):
    """The longest time in which a group read nothing of a partition, after a fault."""

    fault: Fault
    node_id: int
    group: str
    longest_s: float


class Run:
    """One cluster, its groups and their faults."""

    def __init__(self, cluster: Cluster, admin: Admin, chance: Random, topic: str) -> None:
        self.standstills: list[Standstill] = []
        self._cluster = cluster
        self._admin = admin
        self._chance = chance
        self._topic = topic
        self._observer = Observer(Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers))
        self._groups: dict[str, Members] = {}

    def start(self, stack: ExitStack, clients: Sequence[str], *, alone: bool) -> SteadyProducer:
        """Start the groups; return the producer that they read from. Without `alone`, there is only the mixed one."""
        servers = self._observer.servers
        self._observer.create_topic(self._topic, PARTITIONS, NODES)
        producer = stack.enter_context(SteadyProducer(servers.kafka, self._topic, PARTITIONS, _PERIOD_S))
        groups = {each: (each,) for each in clients} if alone else {}
        for name, kinds in {**groups, MIXED: tuple(clients)}.items():
            made = members_of(servers, f"{name}-{self._topic}", self._topic, as_shipped=True)
            self._groups[name] = stack.enter_context(made)
            for each in kinds:
                self._groups[name].start(Kind(client=each, protocol="range"))
        self._wait_read()
        return producer

    def live_through(self, fault: Fault) -> list[Standstill]:
        """Return how long each group stood still. Raises AssertionError if one does not go on at all."""
        until_in_sync(self._admin, self._topic, _DEADLINE_S)
        until_in_sync(self._admin, OFFSETS_TOPIC, _DEADLINE_S)
        # Faults come at random moments.
        time.sleep(self._chance.uniform(_SETTLED_S, 2 * _SETTLED_S))
        node_id, began_s = self._node(fault), time.monotonic()
        node = self._cluster.node(node_id)
        if fault in KILLS:
            node.kill()
            time.sleep(_DOWN_S)
            node.start()
        else:
            node.pause()
            time.sleep(_DOWN_S)
            node.resume()
        self._cluster.wait_ready(_DEADLINE_S)
        self._wait_read()
        found = []
        for name, members in self._groups.items():
            gaps = History().gaps(members.all, began_s)
            assert len(gaps) == PARTITIONS, f"{name} has read {len(gaps)} partitions of {PARTITIONS}"
            longest_s = max(each.length_s for each in gaps)
            found.append(Standstill(fault=fault, node_id=node_id, group=name, longest_s=longest_s))
            if longest_s > STANDSTILL_S_MAX:
                say("\n".join([f"{name} stood still for {longest_s:.1f} s", *self._accounts(name, began_s)]))
        self.standstills += found
        return found

    def _accounts(self, group: str, since_s: float) -> list[str]:
        """A line for each member of the group: what it was assigned, and when it failed, since a moment."""
        lines = []
        for member in self._groups[group].all:
            told = [each for each in tuple(member.events) if each.at_s >= since_s and each.event in _TELLING]
            shown = ", ".join(
                f"{each.at_s - since_s:.1f} {each.event} {each.error or each.partitions}" for each in told
            )
            lines.append(f"{member.name}: {shown}")
        return lines

    def _wait_read(self) -> None:
        """Wait until every group has read what there is now."""
        ends = self._observer.end_offsets(self._topic, PARTITIONS)
        for members in self._groups.values():
            wait_read(members.all, ends)

    def _node(self, fault: Fault) -> int:
        match fault:
            case Fault.KILL_COORDINATOR | Fault.PAUSE_COORDINATOR:
                return self._coordinator(self._chance.choice(list(self._groups)))
            case Fault.KILL_LEADER | Fault.PAUSE_LEADER:
                (described,) = self._admin.describe_topics([self._topic])
                return described.metadata.partitions[self._chance.randrange(PARTITIONS)].leader_id
            case Fault.KILL_CONTROLLER | Fault.PAUSE_CONTROLLER:
                return self._admin.describe_quorum().leader_id

    def _coordinator(self, group: str) -> int:
        found: list[int] = []

        def is_found() -> bool:
            servers = self._observer.servers.kafka.split(",")
            node_id = coordinator_id(servers[0], f"{group}-{self._topic}")
            found.extend([] if node_id is None else [node_id])
            return bool(found)

        until(is_found, f"nobody coordinates {group}", _DEADLINE_S)
        return found[0]


def run(
    cluster: Cluster,
    seed: int,
    faults: Sequence[Fault],
    clients: Sequence[str] = CLIENTS,
    tell: Callable[[list[Standstill]], None] = lambda _: None,
    *,
    alone: bool = True,
) -> list[Standstill]:
    """Raises AssertionError for a group that does not go on within a minute."""
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap_servers))
        one = Run(cluster, admin, Random(seed), f"read-{seed}")
        producer = one.start(stack, clients, alone=alone)
        for fault in faults:
            tell(one.live_through(fault))
        producer.stop()
        return one.standstills


def table(standstills: Sequence[Standstill]) -> str:
    """The longest standstill after each fault, by group and kind of fault."""
    lines = []
    for group in dict.fromkeys(each.group for each in standstills):
        for fault in Fault:
            of_it = [each.longest_s for each in standstills if (each.group, each.fault) == (group, fault)]
            if of_it:
                lines.append(f"{group:<14} {fault:<32} {figures(of_it)}")
    return "\n".join(lines)


def main(
    times: Times = 50,
    seed: Seed = None,
    pauses: Annotated[bool, typer.Option("--pauses", help="Nodes are paused too, not only killed.")] = False,
    alone: Annotated[bool, typer.Option(help="Each client also in a group of its own.")] = True,
    client: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(CLIENTS)}; all without.")] = None,
) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    chance = Random(number)
    faults = [chance.choice(list(Fault) if pauses else KILLS) for _ in range(times)]

    def tell(found: list[Standstill]) -> None:
        longest = ", ".join(f"{each.group} {each.longest_s:.1f}" for each in found)
        say(f"{found[0].fault}, node {found[0].node_id}: {longest} s")

    with judged(), Cluster(NODES, overrides=SETTINGS) as cluster:
        standstills = run(cluster, number, faults, client or CLIENTS, tell, alone=alone)
        disconnected = sum(each.log_path.read_text().count(_DISCONNECTED) for each in cluster.nodes)
    print(f"{times} faults, {NODES} nodes, seed {number}; lines about clients that only repeated: {disconnected}")
    print(table(standstills))
    too_long = [each for each in standstills if each.longest_s > STANDSTILL_S_MAX]
    print(f"longer than {STANDSTILL_S_MAX:g} s: {len(too_long)}")
    raise typer.Exit(1 if too_long else 0)


if __name__ == "__main__":
    typer.run(main)
