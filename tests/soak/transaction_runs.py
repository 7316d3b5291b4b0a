"""`python -m tests.soak.transaction_runs`: exactly once while brokers and clients are killed and paused.

Copiers (librdkafka, Kafka's Java client, ours) read a topic in one group, and write it to another one in transactions
with their offsets. Others transfer between accounts, with a record in each of two partitions. Some transactions are
aborted on purpose. Leaders, coordinators and clients are killed and paused at random moments. At the end every record
is in the output once and in the order of its partition, the group has committed the end, no transfer was seen in part,
none that was aborted was seen, and no last stable offset is held back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from enum import StrEnum
from random import Random
from typing import Annotated, Final

import typer
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from msgspec import Struct

from kraft.client import Admin, Consumer
from kraft.client import TopicPartition as Place
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.find_coordinator import CoordinatorType
from kraft.testing import Cluster
from tests.soak import group_member_runs
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.group_member_runs import SESSION_MS
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.ledger import Ledger
from tests.soak.loads.steady_producer import SteadyProducer
from tests.support.kafka.group_members.observer import Observer
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.single_requests import coordinator_id
from tests.support.kafka.transactions.options import Work
from tests.support.kafka.transactions.workers import Group, Task, TaskWorker, wait_committed, workers_of
from tests.support.waiting import until, until_in_sync, until_stable

NODES: Final = 3
INPUTS: Final = 6
OUTPUTS: Final = 4
TRANSACTION_TIMEOUT_MS: Final = 6_000
CLIENTS: Final = ("confluent", "kraft", "java")
TRANSFERRING: Final = ("confluent", "kraft")
PROTOCOLS: Final = ("range", "consumer")
SETTINGS: Final = {
    **group_member_runs.SETTINGS,
    "transaction.state.log.num.partitions": "5",
    # Otherwise a node that was killed would not lead again.
    "leader.imbalance.check.interval.seconds": "5",
}
DEADLINE_S: Final = 120.0
_DOWN_MAX_S: Final = 5.0
_PAUSE_MAX_S: Final = 12.0
_CLIENT_PAUSE_S: Final = 1.5 * max(SESSION_MS, TRANSACTION_TIMEOUT_MS) / 1_000
_SETTLED_MAX_S: Final = 2.0
_ERROR_CHARS: Final = 120
_REPORTED_S: Final = 0.05


class Fault(StrEnum):
    KILL_TRANSACTION_COORDINATOR = "a transaction coordinator is killed"
    KILL_GROUP_COORDINATOR = "the group coordinator is killed"
    KILL_LEADER = "a leader of the output is killed"
    PAUSE_TRANSACTION_COORDINATOR = "a transaction coordinator is paused"
    PAUSE_LEADER = "a leader of the output is paused"
    KILL_CLIENT = "a client is killed"
    PAUSE_CLIENT = "a client is paused"
    KILL_CLIENT_AND_COORDINATOR = "a client and its transaction coordinator are killed"


class Happening(Struct, frozen=True, kw_only=True):
    """One fault; a gap is the time until the next commit of a worker that was not killed or paused."""

    fault: Fault
    node_id: int
    gaps_s: tuple[float, ...]


class Outcome(Struct, frozen=True, kw_only=True):
    happenings: tuple[Happening, ...]
    commits_s: dict[str, list[float]]
    """How long commits took, by client."""
    copied: int
    transfers: int
    totals: int
    aborted: int
    failures: Counter[str]


class Run:
    """One cluster's topics, workers and faults."""

    def __init__(self, cluster: Cluster, seed: int, chance: Random, settled_max_s: float) -> None:
        self.input, self.output, self.accounts = (f"{each}-{seed}" for each in ("input", "output", "accounts"))
        self.servers = Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers)
        self.group = Group(name=f"copiers-{seed}", protocol=chance.choice(PROTOCOLS), session_ms=SESSION_MS)
        self.happenings: list[Happening] = []
        self.workers: list[TaskWorker] = []
        self._cluster = cluster
        self._chance = chance
        self._settled_max_s = settled_max_s
        self._prefix = f"run-{seed}"

    def tasks(self, clients: Sequence[str]) -> list[Task]:
        copied = [
            Task(client=each, work=Work.COPY, source=self.input, target=self.output, partitions=OUTPUTS)
            for each in clients
        ]
        return copied + [
            Task(client=each, work=Work.TRANSFER, target=self.accounts, partitions=OUTPUTS)
            for each in clients
            if each in TRANSFERRING
        ]

    def workers_for(self, stack: ExitStack, clients: Sequence[str]) -> None:
        started = workers_of(self.servers, self.tasks(clients), self.group, TRANSACTION_TIMEOUT_MS, self._prefix)
        self.workers = stack.enter_context(started)
        wait_committed(self.workers, 0.0, DEADLINE_S)

    # --- faults ---

    def live_through(self, fault: Fault) -> None:
        worker = self._chance.choice(self.workers)
        began_s = time.monotonic()
        node_id = self._do(fault, worker)
        gaps_s = wait_committed(
            [each for each in self.workers if each is not worker], began_s + _REPORTED_S, DEADLINE_S
        )
        self._cluster.wait_ready(DEADLINE_S)
        wait_committed(self.workers, time.monotonic(), DEADLINE_S)
        self.happenings.append(Happening(fault=fault, node_id=node_id, gaps_s=tuple(gaps_s)))

    def _do(self, fault: Fault, worker: TaskWorker) -> int:
        """Return the node that it happens to, or 0."""
        match fault:
            case Fault.KILL_TRANSACTION_COORDINATOR:
                return self._kill_node(self._coordinator(worker), self._down_s())
            case Fault.KILL_GROUP_COORDINATOR:
                return self._kill_node(self._group_coordinator(), self._down_s())
            case Fault.KILL_LEADER:
                return self._kill_node(self._leader(), self._down_s())
            case Fault.PAUSE_TRANSACTION_COORDINATOR:
                return self._pause_node(self._coordinator(worker))
            case Fault.PAUSE_LEADER:
                return self._pause_node(self._leader())
            case Fault.KILL_CLIENT:
                worker.kill()
                time.sleep(self._down_s())
                worker.start()
            case Fault.PAUSE_CLIENT:
                worker.process.pause()
                time.sleep(_CLIENT_PAUSE_S)
                worker.process.resume()
            case Fault.KILL_CLIENT_AND_COORDINATOR:
                node_id = self._coordinator(worker)
                worker.kill()
                self._cluster.node(node_id).kill()
                worker.start()
                time.sleep(self._down_s())
                self._cluster.node(node_id).start()
                return node_id
        return 0

    def _down_s(self) -> float:
        return self._chance.uniform(0.1, _DOWN_MAX_S)

    def _kill_node(self, node_id: int, down_s: float) -> int:
        node = self._cluster.node(node_id)
        node.kill()
        time.sleep(down_s)
        node.start()
        return node_id

    def _pause_node(self, node_id: int) -> int:
        node = self._cluster.node(node_id)
        node.pause()
        time.sleep(self._chance.uniform(0.5, _PAUSE_MAX_S))
        node.resume()
        return node_id

    def _coordinator(self, worker: TaskWorker) -> int:
        return found_coordinator(self.servers, f"{self._prefix}-{worker.name}", CoordinatorType.TRANSACTION)

    def _group_coordinator(self) -> int:
        return found_coordinator(self.servers, self.group.name, CoordinatorType.GROUP)

    def _leader(self) -> int:
        partition, leaders = self._chance.randrange(OUTPUTS), list[int]()

        def is_led() -> bool:
            with Admin(self.servers.grpc) as admin:
                (described,) = admin.describe_topics([self.output])
            leaders.append(described.metadata.partitions[partition].leader_id)
            return leaders[-1] > 0

        until(is_led, f"partition {partition} has no leader", DEADLINE_S)
        return leaders[-1]

    def settle(self) -> None:
        """Sometimes the next fault comes before all replicas are in sync again."""
        time.sleep(self._chance.uniform(0.0, self._settled_max_s))
        if self._chance.random() < 0.5:
            with Admin(self.servers.grpc) as admin:
                for topic in (self.input, self.output, self.accounts, OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                    until_in_sync(admin, topic, DEADLINE_S)

    # --- the end ---

    def finish(self, observer: Observer, ledger: Ledger) -> int:
        """Check everything that the run promises; return how many records were copied. Raises AssertionError."""
        ends = observer.end_offsets(self.input, INPUTS)
        until(lambda: self._has_copied(ends), lambda: f"committed {self._committed()}, written {ends}", DEADLINE_S)
        self._stop_workers()
        committed = self._committed()
        assert committed == ends, f"committed {committed}, written {ends}"
        topics = (self.input, self.output, self.accounts, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        until_stable(self.servers.grpc, topics, DEADLINE_S)
        for name, read in (("Kraft", self._read_by_kraft), ("librdkafka", self._read_by_librdkafka)):
            check_copies(name, list(read()), ends)
        self._check_transfers(ledger)
        return sum(ends.values())

    def _has_copied(self, ends: dict[int, int]) -> bool:
        for each in self.workers:
            each.tend()
        return self._committed() == ends

    def _committed(self) -> dict[int, int]:
        places = [Place(self.input, each) for each in range(INPUTS)]
        with Consumer(self.servers.grpc, group_id=self.group.name, enable_auto_commit=False) as consumer:
            found = consumer.committed(places, int(DEADLINE_S * 1_000))
        return {each.partition: 0 if offset is None else offset.offset for each, offset in found.items()}

    def _stop_workers(self) -> None:
        """One is killed, maybe within a transaction that is then open."""
        victim = self._chance.choice(self.workers)
        victim.kill()
        for each in self.workers:
            if each is not victim:
                each.process.stop()

    def _read_by_kraft(self) -> Iterator[bytes]:
        places = [Place(self.output, each) for each in range(OUTPUTS)]
        with Consumer(self.servers.grpc, isolation_level="read_committed") as consumer:
            for place, end in consumer.end_offsets(places).items():
                for part in consumer.read_columns(place, 0, end, timeout_ms=int(DEADLINE_S * 1_000)):
                    yield from (key or b"" for key in part.columns.keys)

    def _read_by_librdkafka(self) -> Iterator[bytes]:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": self.servers.kafka,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.output, each, OFFSET_BEGINNING) for each in range(OUTPUTS)])
        ended: set[int | None] = set()
        until_s = time.monotonic() + DEADLINE_S
        while len(ended) < OUTPUTS:
            assert time.monotonic() < until_s, f"librdkafka has read only partitions {ended} to their ends"
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    yield message.key() or b""
                else:
                    ended.add(message.partition())
        consumer.close()

    def _check_transfers(self, ledger: Ledger) -> None:
        of_them = [each for each in self.workers if each.task.work is Work.TRANSFER]
        reported = {
            what: {event.name for each in of_them for event in each.events if event.event == what}
            for what in ("committed", "aborted")
        }

        def are_all_read() -> bool:
            ledger.check()
            return not ledger.halves and reported["committed"] <= ledger.whole

        until(
            are_all_read,
            lambda: f"transfers seen in part: {ledger.halves}; not at all: {reported['committed'] - ledger.whole}",
            DEADLINE_S,
        )
        seen = ledger.whole & reported["aborted"]
        assert not seen, f"transfers that were aborted are committed: {sorted(seen)[:5]}"
        unreported = ledger.whole - reported["committed"]
        ends = sum(each.ends for each in of_them)
        assert len(unreported) <= ends, f"nobody committed transfers {sorted(unreported)[:5]}"


def found_coordinator(servers: Servers, key: str, kind: CoordinatorType) -> int:
    """Wait until the group or transactional id has a coordinator, and return its id."""
    found: list[int] = []

    def is_found() -> bool:
        node_id = coordinator_id(servers.kafka.split(",")[0], key, kind)
        found.extend([] if node_id is None else [node_id])
        return bool(found)

    until(is_found, f"nobody coordinates {key}", DEADLINE_S)
    return found[0]


def check_copies(reader: str, keys: Sequence[bytes], ends: dict[int, int]) -> None:
    """Each record below the ends is there once, and in order. Raises AssertionError."""
    found: dict[int, list[int]] = {}
    for key in keys:
        source, _, offset = key.partition(b":")
        found.setdefault(int(source), []).append(int(offset))
    for partition, end in ends.items():
        copies = found.get(partition, [])
        if copies == list(range(end)):
            continue
        counts = Counter(copies)
        missing = [each for each in range(end) if each not in counts]
        repeated = [each for each, count in counts.items() if count > 1]
        raise AssertionError(
            f"{reader} reads of partition {partition}, {end} records: missing {len(missing)}, first {missing[:5]}; "
            f"repeated {len(repeated)}, first {repeated[:5]}; in order: {copies == sorted(copies)}"
        )


def run(
    cluster: Cluster,
    seed: int,
    faults: Sequence[Fault],
    clients: Sequence[str] = CLIENTS,
    tell: Callable[[Happening], None] = lambda _: None,
    settled_max_s: float = _SETTLED_MAX_S,
) -> Outcome:
    """Raises AssertionError and TimeoutError for what the run promises and does not keep."""
    with ExitStack() as stack:
        one = Run(cluster, seed, Random(seed), settled_max_s)
        observer = Observer(one.servers)
        with Admin(one.servers.grpc) as admin:
            for topic, partitions in ((one.input, INPUTS), (one.output, OUTPUTS), (one.accounts, OUTPUTS)):
                admin.create_topic(topic, partitions, NODES, {"min.insync.replicas": "2"})
                observer.end_offsets(topic, partitions)
        producer = stack.enter_context(SteadyProducer(one.servers.kafka, one.input, INPUTS))
        one.workers_for(stack, clients)
        ledger = stack.enter_context(Ledger(one.servers.kafka, one.accounts, OUTPUTS))
        for fault in faults:
            one.settle()
            one.live_through(fault)
            ledger.check()
            tell(one.happenings[-1])
        producer.stop()
        copied = one.finish(observer, ledger)
        return _outcome(one, ledger, copied)


def _outcome(one: Run, ledger: Ledger, copied: int) -> Outcome:
    commits_s: dict[str, list[float]] = {}
    failures, aborted = Counter[str](), 0
    for worker in one.workers:
        for event in worker.events:
            if event.event == "committed":
                commits_s.setdefault(worker.task.client, []).append(event.took_s)
            elif event.event == "aborted":
                aborted += 1
            else:
                failures[f"{worker.name} {event.what}: {event.error[-_ERROR_CHARS:]}"] += 1
    return Outcome(
        happenings=tuple(one.happenings),
        commits_s=commits_s,
        copied=copied,
        transfers=len(ledger.whole),
        totals=ledger.totals,
        aborted=aborted,
        failures=failures,
    )


def _print(ended: Outcome) -> None:
    print(
        f"{ended.copied} records copied once each; {ended.transfers} transfers, the total compared {ended.totals} times"
    )
    commits = sum(map(len, ended.commits_s.values()))
    print(f"{commits} transactions committed, {ended.aborted} aborted; no last stable offset held back")
    for client, took_s in sorted(ended.commits_s.items()):
        print(f"  a commit of {client}: {figures(took_s)}")
    for fault in Fault:
        of_it = [each for each in ended.happenings if each.fault is fault]
        if of_it:
            gaps = figures([gap for each in of_it for gap in each.gaps_s])
            print(f"  {fault} {len(of_it)} times: next commit of the others: {gaps}")
    for failure, count in ended.failures.most_common():
        print(f"  {count} x {failure}")


def main(
    times: Times = 10,
    seed: Seed = None,
    client: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(CLIENTS)}; all without.")] = None,
) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    chance = Random(number)
    faults = [chance.choice(list(Fault)) for _ in range(times)]

    def tell(each: Happening) -> None:
        where = f", node {each.node_id}" if each.node_id else ""
        say(f"{each.fault}{where}: {', '.join(f'{gap:.2f}' for gap in each.gaps_s)} s")

    with judged(), Cluster(NODES, overrides=SETTINGS) as cluster:
        ended = run(cluster, number, faults, client or CLIENTS, tell)
    kills = sum(each.fault.endswith("killed") for each in ended.happenings)
    print(f"{times} faults, {kills} of them kills, {NODES} nodes, seed {number}")
    _print(ended)


if __name__ == "__main__":
    typer.run(main)
