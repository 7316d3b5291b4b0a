"""`python -m tests.soak.mirror_runs`: a mirror under kill -9 of its worker and of leaders, and cuts of its lines.

A producer sends 0, 1, 2, ... to four partitions of the source, in transactions of which every tenth is aborted, while
faults come one after the other: the worker is killed and started again, a leader of either end is, the line to either
end is cut. A group reads at the source until half of all, and goes on at the target. At the end each committed number
has to be at the target exactly once, both ends have to be the same record by record, and the group must have missed
none, and read at most half of what it was behind twice.

Apache Kafka is one node, which is killed and started again as ours are. Toxiproxy stands before every broker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from chaos.nemesis.links import advertised, proxies
from chaos.toxiproxy import HOST, Link, Server, find_or_build
from kraft.client import Admin, Consumer, Producer, TopicPartition, TransactionAborted
from kraft.local.free_ports import ReservedPorts
from kraft.testing import Cluster
from tests.support.command_line import Running
from tests.support.kafka.kafka_broker import KafkaProcess, kafka_processes
from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.mirrors import mirror_file, mirroring, topics_of, verified
from tests.support.waiting import until

TOPIC: Final = "orders"
GROUP: Final = "billing"
PARTITIONS: Final = 4
TRANSACTION: Final = 500
DEADLINE_S: Final = 300.0
CUT_S: Final = 2.0
CARRIED_S: Final = 5.0


class Kind(StrEnum):
    """What a cluster is."""

    KRAFT = "kraft"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of the mirror."""

    alias: str
    servers: str
    settings: dict[str, Any]
    links: list[Link]
    cluster: Cluster | None
    """None for Apache Kafka."""

    kafka: KafkaProcess | None = None

    def admin(self) -> Admin:
        return Admin(self.servers, **self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    sent: int
    missing: int
    twice: int
    is_same: bool
    group_missed: int
    group_twice: int
    group_behind: int
    """Records that it had not read when it was switched."""

    seconds: float
    faults: dict[str, int]
    sent_again: int
    """Transactions of the producer that failed, and were sent again."""

    @property
    def is_as_promised(self) -> bool:
        is_lossless = self.is_same and not (self.missing or self.twice or self.group_missed)
        return is_lossless and self.group_twice <= self.group_behind // 2

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.sent} committed records in {self.seconds:.0f} s under {faults}, "
            f"{self.sent_again} transactions sent again: "
            f"{self.missing} missing, {self.twice} twice, "
            f"both ends {'the same' if self.is_same else 'differ'}; the group missed {self.group_missed} and read "
            f"{self.group_twice} twice, {self.group_behind} behind when it was switched"
        )


@contextmanager
def kraft_end(alias: str, nodes: int) -> Iterator[End]:
    """A cluster of ours, to be started once its proxies are there, by which its nodes reach each other."""
    with ReservedPorts(2 * nodes) as ports:
        own, kafka = ports[:nodes], ports[nodes:]
        settings = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
        if nodes < 3:
            settings |= dict.fromkeys(
                ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"), "1"
            )
            settings["transaction.state.log.min.isr"] = "1"
        cluster = Cluster(nodes, overrides=settings, node_overrides=advertised(own, kafka, "PLAINTEXT"))
        links = [
            Link(name=f"{alias}-{each.name}", listen_port=each.listen_port, upstream=each.upstream)
            for each in proxies(cluster, own, kafka)
        ]
        servers = ",".join(f"{HOST}:{port}" for port in own)
        yield End(alias=alias, servers=servers, settings={}, links=links, cluster=cluster)


@contextmanager
def kafka_end(alias: str) -> Iterator[End]:
    with ReservedPorts(1) as (port,):
        settings = {
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        with kafka_processes(kafka_jars(), settings) as (node,):
            link = Link(name=f"{alias}-kafka", listen_port=port, upstream=node.address)
            yield End(
                alias=alias,
                servers=f"{HOST}:{port}",
                settings={"wire_protocol": "kafka"},
                links=[link],
                cluster=None,
                kafka=node,
            )


class Run:
    """One mirror between two ends, and what happens to it."""

    def __init__(self, source: End, target: End, server: Server, file: Path, chance: Random) -> None:
        self._source = source
        self._target = target
        self._server = server
        self._file = file
        self._chance = chance
        self._stack = ExitStack()
        self._worker: Running | None = None
        self.faults: dict[str, int] = {}
        self.committed: list[int] = []
        self.sent_again = 0
        """Transactions that had failed."""

        self._next = 0

    def __enter__(self) -> Run:
        self._start_worker()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_worker(self) -> None:
        self._stack.close()
        self._worker = self._stack.enter_context(mirroring(self._file, "one"))

    # --- records ----------------------------------------------------------------------------------------------

    def send(self, producer: Producer, count: int) -> None:
        """Send so many records in transactions; every tenth is aborted."""
        for _ in range(max(1, count // TRANSACTION)):
            numbers = range(self._next, self._next + TRANSACTION)
            self._next = numbers.stop
            is_committed = self._chance.random() > 0.1
            while not self._sent(producer, numbers, is_committed):
                self.sent_again += 1
            if is_committed:
                self.committed += numbers

    def _sent(self, producer: Producer, numbers: range, is_committed: bool) -> bool:
        """Send a transaction, as any program does: one that failed is aborted, and sent again by the caller."""
        producer.begin_transaction()
        try:
            for number in numbers:
                producer.send(TOPIC, b"%d" % number, key=b"%d" % (number % 97), headers=[("n", b"1")])
            if is_committed:
                producer.commit_transaction(60_000)
                return True
        except TransactionAborted as error:
            print(error, file=sys.stderr, flush=True)
            producer.abort_transaction(60_000)
            return False
        producer.abort_transaction(60_000)
        return True

    # --- faults -----------------------------------------------------------------------------------------------

    def strike(self) -> str:
        kinds: dict[str, Callable[[], None]] = {
            "kills of the worker": self._kill_worker,
            "cuts of the source": lambda: self._cut(self._source),
            "cuts of the target": lambda: self._cut(self._target),
        }
        for name, end in (("source", self._source), ("target", self._target)):
            if end.kafka is not None:
                kinds[f"kills of Apache Kafka at the {name}"] = lambda node=end.kafka: _kill_kafka(node)  # type: ignore[misc]  # Bound now.
            elif end.cluster is not None and len(end.cluster.nodes) > 1:
                kinds[f"kills of leaders at the {name}"] = lambda end=end: self._kill_leader(end)  # type: ignore[misc]  # Bound now.
        # Each kind once before any comes again.
        least = min(self.faults.get(each, 0) for each in kinds)
        name = self._chance.choice([each for each in kinds if self.faults.get(each, 0) == least])
        kinds[name]()
        self.faults[name] = self.faults.get(name, 0) + 1
        return name

    def _kill_worker(self) -> None:
        assert self._worker is not None, "the worker runs"
        self._worker.process.kill()
        self._start_worker()

    def _kill_leader(self, end: End) -> None:
        assert end.cluster is not None, "only our nodes are killed"
        with end.admin() as admin:
            topics = admin.find_topics([TOPIC])
        leaders = [each.leader_id for topic in topics.values() for each in topic.partitions if each.leader_id > 0]
        node = end.cluster.node(self._chance.choice(leaders) if leaders else 1)
        node.kill()
        time.sleep(1)  # The others take over meanwhile.
        node.start()
        end.cluster.wait_ready(60)

    def _cut(self, end: End) -> None:
        for link in end.links:
            self._server.cut(link.name)
        time.sleep(CUT_S)  # The line is dead for so long.
        for link in end.links:
            self._server.mend(link.name)

    # --- the end ----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        def is_done() -> bool:
            found = topics_of(self._file).get(TOPIC)
            return found is not None and found["lag"] == 0 and found["records"] >= len(self.committed)

        until(is_done, lambda: topics_of(self._file), DEADLINE_S)

    @property
    def offsets(self) -> int:
        """Records that were sent, the aborted ones among them."""
        return self._next

    def outcome(self, read: list[int], behind: int, seconds: float) -> Outcome:
        there = numbers_of(self._target)
        verdicts = verified(self._file)
        return Outcome(
            sent=len(self.committed),
            missing=len(set(self.committed) - set(there)),
            twice=len(there) - len(set(there)) + len(set(there) - set(self.committed)),
            is_same=all(not each["missing"] and not each["twice"] and each["in_order"] for each in verdicts),
            group_missed=len(set(self.committed) - set(read)),
            group_twice=len(read) - len(set(read)),
            group_behind=behind,
            seconds=seconds,
            faults=self.faults,
            sent_again=self.sent_again,
        )


def _kill_kafka(node: KafkaProcess) -> None:
    node.kill()
    time.sleep(1)  # Clients see that it is gone.
    node.start()


def numbers_of(end: End) -> list[int]:
    places = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
    with Consumer(
        end.servers, auto_offset_reset="earliest", isolation_level="read_committed", **end.settings
    ) as consumer:
        ends = consumer.end_offsets(places)
        parts = [part for each in places for part in consumer.read_columns(each, 0, ends[each])]
        return [int(value or b"") for part in parts for value in part.columns.values]


def read_by_group(end: End, wanted: int) -> list[int]:
    """Return what the group reads from where it is on, until so many or until nothing more comes, and commit that."""
    read: list[int] = []
    settings = {"group_id": GROUP, "auto_offset_reset": "earliest", "isolation_level": "read_committed", **end.settings}
    with Consumer(end.servers, enable_auto_commit=False, **settings) as consumer:
        consumer.subscribe(TOPIC)
        silent_since_s = time.monotonic()
        while len(read) < wanted and time.monotonic() - silent_since_s < 20:
            if polled := consumer.poll(1_000):
                silent_since_s = time.monotonic()
                read += [int(each.value or b"") for each in polled]
        consumer.commit()
    return read


def carry_out(source: Kind, target: Kind, records: int, faults: int, nodes: int, seed: int) -> Outcome:
    chance = Random(seed)
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(kraft_end(alias, nodes) if kind is Kind.KRAFT else kafka_end(alias))
            for alias, kind in (("A", source), ("B", target))
        )
        (api_port,) = stack.enter_context(ReservedPorts(1))
        server = stack.enter_context(Server(find_or_build(), api_port, [*here.links, *there.links]))
        for end in (here, there):
            if end.cluster is not None:
                stack.enter_context(end.cluster)
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="mirror-")))
        file = file_of(directory, here, there)
        with here.admin() as admin:
            admin.create_topic(TOPIC, PARTITIONS, -1)
        begin_s = time.monotonic()
        run = stack.enter_context(Run(here, there, server, file, chance))
        settings: dict[str, Any] = {
            "transactional_id": "writer",
            "compression_type": "zstd",
            "delivery_timeout_ms": 120_000,
        }
        with Producer(here.servers, **settings, **here.settings) as producer:
            for _ in range(faults):
                run.send(producer, records // (2 * faults))
                print(run.strike(), file=sys.stderr, flush=True)
                run.send(producer, records // (2 * faults))
        read = read_by_group(here, len(run.committed) // 2)
        run.wait()
        seconds = time.monotonic() - begin_s
        behind = run.offsets - len(read)
        until(lambda: has_group(there), "the group is carried over", DEADLINE_S)
        time.sleep(CARRIED_S)  # What it committed last follows within an interval.
        read += read_by_group(there, run.offsets)
        return run.outcome(read, behind, seconds)


def has_group(end: End) -> bool:
    with end.admin() as admin:
        return len(admin.list_consumer_group_offsets(GROUP)) == PARTITIONS


def file_of(directory: Path, here: End, there: End) -> Path:
    clusters = {}
    for end in (here, there):
        clusters[f"{end.alias}.bootstrap.servers"] = end.servers
        if end.cluster is None:
            clusters[f"{end.alias}.wire.protocol"] = "kafka"
    pair = {"topics": TOPIC, "replication.policy.class": "IdentityReplicationPolicy"}
    return mirror_file(directory / "mirror.properties", clusters, {"A->B": pair})


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Kind = Kind.KRAFT,
    target: Kind = Kind.KRAFT,
    records: Annotated[int, typer.Option(min=1_000)] = 1_000_000,
    faults: Annotated[int, typer.Option(min=1)] = 20,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of each Kraft.")] = 3,
    seed: int = 1,
) -> None:
    """Mirror under faults; exit code 1 if anything is lost, twice, or missed by the group."""
    outcome = carry_out(source, target, records, faults, nodes, seed)
    print(f"mirror from {source} to {target}, seed {seed}: {outcome}")
    sys.exit(0 if outcome.is_as_promised else 1)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.mirror_runs")
