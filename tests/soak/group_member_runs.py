"""`python -m tests.soak.group_member_runs`: groups of Kafka's clients and ours under everything that rebalances them.

Members are processes; up to eight of them share twelve partitions, to which a producer writes all the time. They join,
leave, are killed, and are paused past their session; the topic grows, and the coordinator is killed. At the end every
record has been read, and no record was committed by two members: a commit after the session of a member, or of an
earlier generation, is refused. The longest time in which nobody reads a partition is printed, by protocol and event.
With the consumer protocol (KIP-848) no member gives up a partition that it keeps.

The pauses say nothing of records of a killed or paused member: they have to wait for the end of its session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from random import Random
from typing import Annotated, Final

import typer
from msgspec import Struct

from kraft.testing import Cluster
from tests.soak.fault_runs import Seed, chosen, judged, say
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.steady_producer import PERIOD_S, SteadyProducer
from tests.support.kafka.group_members.history import Gap, History
from tests.support.kafka.group_members.member import Kind, Member, Members, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.kafka.single_requests import coordinator_id
from tests.support.waiting import until

NODES: Final = 3
PARTITIONS: Final = 12
GROWTH: Final = 2
MEMBERS_MAX: Final = 8
SESSION_MS: Final = 6_000
_PAUSE_S: Final = 1.5 * SESSION_MS / 1_000
_DEADLINE_S: Final = 60.0
SETTINGS: Final = {
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}


class Pace(Struct, frozen=True, kw_only=True):
    """`settled_s` is a time before and after each event, `period_s` that between two records of a partition."""

    settled_s: float
    period_s: float


MEASURED: Final = Pace(settled_s=2.0, period_s=PERIOD_S)
"""Each event has pauses of its own, which are measured to PERIOD_S."""


class Protocol(StrEnum):
    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "848"


CLIENTS: Final = {
    Protocol.EAGER: tuple(
        Kind(client=each, protocol="range") for each in ("confluent", "kafka_python", "kraft", "aiokafka", "kafkajs")
    ),
    Protocol.COOPERATIVE: tuple(
        Kind(client=each, protocol="cooperative-sticky") for each in ("confluent", "kafka_python", "kraft")
    ),
    Protocol.CONSUMER: tuple(Kind(client=each, protocol="consumer") for each in ("confluent", "kraft")),
}
"""Those that commit synchronously, and report it."""


class Fault(StrEnum):
    NOTHING = "nothing happens"
    JOIN = "a member joins"
    LEAVE = "a member leaves"
    KILL = "a member is killed"
    PAUSE = "a member is paused past its session"
    GROW = "the topic gets more partitions"
    KILL_COORDINATOR = "the coordinator is killed"


class Happening(Struct, frozen=True, kw_only=True):
    """One event; `others` has the pauses of partitions that stayed with their member."""

    protocol: Protocol
    fault: Fault
    members: int
    all: tuple[Gap, ...]
    others: tuple[Gap, ...]


class Run:
    """One group, its members and the events that it lives through."""

    def __init__(
        self,
        protocol: Protocol,
        observer: Observer,
        members: Members,
        chance: Random,
        group: str,
        pace: Pace = MEASURED,
    ) -> None:
        self.protocol = protocol
        self._pace = pace
        self.partitions = PARTITIONS
        self.history = History()
        self.happenings: list[Happening] = []
        self._observer = observer
        self._members = members
        self._chance = chance
        self._group = group
        self._kinds = [each for each in CLIENTS[protocol] if each.client != "kraft" or observer.servers.grpc]

    @property
    def living(self) -> list[Member]:
        return self._members.running

    def start(self) -> None:
        """With the first member."""
        self._join()
        self._observer.wait_shared(self._group, self.living, self.partitions)

    def live_through(self, fault: Fault, kill_coordinator: Callable[[], None], producer: SteadyProducer) -> None:
        time.sleep(self._pace.settled_s)
        before = {each.name: each.owned for each in self.living}
        began_s = time.monotonic()
        touched = self._do(fault, kill_coordinator, producer)
        self._observer.wait_shared(self._group, self.living, self.partitions)
        wait_read(self._members.all, self._observer.end_offsets(self._group, self.partitions))
        time.sleep(self._pace.settled_s)
        stayed = {
            partition
            for each in self.living
            if each is not touched
            for partition in before.get(each.name, set()) & each.owned
        }
        gaps = self.history.gaps(self._members.all, began_s)
        self.happenings.append(
            Happening(
                protocol=self.protocol,
                fault=fault,
                members=len(self.living),
                all=tuple(gaps),
                others=tuple(each for each in gaps if each.partition in stayed),
            )
        )
        if self.protocol is Protocol.CONSUMER and fault is not Fault.KILL_COORDINATOR:
            self.history.check_nobody_gave_up(self.living, stayed, began_s)

    def finish(self) -> None:
        """Everything was read, and nothing was committed twice. Raises AssertionError."""
        ends = self._observer.end_offsets(self._group, self.partitions)
        wait_read(self._members.all, ends)
        for each in self.living:
            each.stop()
        self.history.check(self._members.all, ends)
        committed = self._observer.committed(self._group, self._group)
        assert committed == ends, f"committed {committed}, written {ends}"

    # --- events ---

    def _do(self, fault: Fault, kill_coordinator: Callable[[], None], producer: SteadyProducer) -> Member | None:
        """Return the member that it happens to, which is not there any more or has lost its partitions."""
        match fault:
            case Fault.NOTHING:
                return None
            case Fault.JOIN:
                return self._join()
            case Fault.LEAVE:
                (left := self._any()).stop()
                return left
            case Fault.KILL:
                (killed := self._any()).kill()
                return killed
            case Fault.PAUSE:
                (paused := self._any()).pause()
                time.sleep(_PAUSE_S)
                paused.resume()
                return paused
            case Fault.GROW:
                self.partitions += GROWTH
                self._observer.grow(self._group, self.partitions)
                producer.grow(self.partitions)
            case Fault.KILL_COORDINATOR:
                kill_coordinator()
        return None

    def _join(self) -> Member:
        # Each client in turn, so that they are mixed.
        kind = self._kinds[len(self._members.all) % len(self._kinds)]
        return self._members.start(kind)

    def _any(self) -> Member:
        return self._chance.choice(self.living)


def _faults(chance: Random, *, with_coordinator: bool) -> Iterator[Fault]:
    """Each kind of event at least once, with one to MEMBERS_MAX members; first none, for comparison."""
    yield Fault.NOTHING
    count = 1
    others = [Fault.LEAVE, Fault.KILL, Fault.PAUSE, Fault.GROW]
    if with_coordinator:
        others.append(Fault.KILL_COORDINATOR)
    chance.shuffle(others)
    while count < MEMBERS_MAX or others:
        if count < MEMBERS_MAX and (count < 3 or not others or chance.random() < 0.6):
            yield Fault.JOIN
            count += 1
        elif others:
            fault = others.pop()
            count -= fault in (Fault.LEAVE, Fault.KILL)
            yield fault


class Brokers(Struct, frozen=True, kw_only=True):
    """`cluster` is None with Apache Kafka, whose coordinator is not killed."""

    servers: Servers
    cluster: Cluster | None

    @classmethod
    def of(cls, cluster: Cluster) -> Brokers:
        return cls(
            servers=Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers), cluster=cluster
        )


@contextmanager
def brokers(*, kafka: bool) -> Iterator[Brokers]:
    if kafka:
        with kafka_brokers(kafka_jars(), SETTINGS) as addresses:
            yield Brokers(servers=Servers(kafka=",".join(addresses)), cluster=None)
    else:
        with Cluster(NODES, overrides=SETTINGS) as cluster:
            yield Brokers.of(cluster)


def kill_coordinator(cluster: Cluster, group: str, down_s: float) -> None:
    """Kill the coordinator of the group, and start it again after `down_s`."""
    found: list[int | None] = [None]

    def is_found() -> bool:
        found[0] = coordinator_id(cluster.kafka_bootstrap_servers.split(",")[0], group)
        return found[0] is not None

    until(is_found, f"nobody coordinates {group}", _DEADLINE_S)
    assert found[0] is not None
    node = cluster.node(found[0])
    node.kill()
    time.sleep(down_s)
    node.start()
    cluster.wait_ready(_DEADLINE_S)


def run(
    protocol: Protocol,
    running: Brokers,
    seed: int,
    tell: Callable[[Happening], None] = lambda _: None,
    faults: Sequence[Fault] | None = None,
    pace: Pace = MEASURED,
) -> list[Happening]:
    """Raises AssertionError for a record that was not read or was committed twice, and for a group that stops.

    Without `faults`, the seed decides on them.
    """
    group = f"{protocol}-{seed}"
    chance, cluster = Random(seed), running.cluster

    def kill() -> None:
        assert cluster is not None
        kill_coordinator(cluster, group, chance.uniform(0.1, 4.0))

    with ExitStack() as stack:
        observer = Observer(running.servers)
        observer.create_topic(group, PARTITIONS, 1 if cluster is None else NODES)
        producer = stack.enter_context(SteadyProducer(running.servers.kafka, group, PARTITIONS, pace.period_s))
        members = stack.enter_context(members_of(running.servers, group, group, SESSION_MS))
        one = Run(protocol, observer, members, chance, group, pace)
        one.start()
        for fault in faults or _faults(chance, with_coordinator=cluster is not None):
            one.live_through(fault, kill, producer)
            tell(one.happenings[-1])
        producer.stop()
        one.finish()
        return one.happenings


# --- figures ---------------------------------------------------------------------------------------------------------


def table(happenings: Sequence[Happening]) -> str:
    """The longest pause of any partition by protocol and event, and of those that stayed with their member."""
    lines = []
    for protocol in Protocol:
        for fault in Fault:
            of_it = [each for each in happenings if (each.protocol, each.fault) == (protocol, fault)]
            if of_it:
                every = figures([max((gap.length_s for gap in each.all), default=0.0) for each in of_it])
                stayed = figures([max((gap.length_s for gap in each.others), default=0.0) for each in of_it])
                lines.append(f"{protocol:<12} {fault:<36} {len(of_it):>3} x  all: {every}  stayed: {stayed}")
    return "\n".join(lines)


def _shown(each: Happening) -> str:
    longest = max((gap.length_s for gap in each.all), default=0.0)
    stayed = max((gap.length_s for gap in each.others), default=0.0)
    return (
        f"{each.protocol}, {each.members} members: {each.fault}: pause {longest:.2f} s; "
        f"{len(each.others)} partitions stayed, {stayed:.2f} s"
    )


def main(
    protocol: Annotated[
        list[Protocol] | None, typer.Option(help="Protocol of the members. May be repeated; by default all.")
    ] = None,
    seed: Seed = None,
    kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka in place of Kraft.")] = False,
) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    happenings: list[Happening] = []
    with judged(), brokers(kafka=kafka) as running:
        for each in protocol or list(Protocol):
            happenings += run(each, running, number, tell=lambda one: say(_shown(one)))
            say(f"{each}: every record was read, none was committed twice")
    print(table(happenings))


if __name__ == "__main__":
    typer.run(main)
