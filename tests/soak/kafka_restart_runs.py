"""`python -m tests.soak.kafka_restart_runs`: restarts, kills and moves under Kafka's idempotent producers.

librdkafka, kafka-python and aiokafka, unmodified, send numbers to partitions of their own, while nodes are stopped
cleanly, killed, stopped by SIGSTOP, and while leaders and replicas move. At the end each partition holds each of its
numbers once, in order, and no client reported a fatal error.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Annotated, Final

import typer

from kraft.client import Admin, ElectionType, TopicPartition
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.kafka_console_load import ConsoleLoad
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.kafka_numbered_loads import LOADS, Comparison, NumberedLoad, compare, read_numbers
from tests.support.records import create_topic
from tests.support.waiting import until, until_in_sync

NODES: Final = 3
_TOPIC: Final = "numbers"
_LINES: Final = "lines"
"""Topic of Java's console producer, which cannot choose the partitions that it sends to."""
_PARTITIONS_A_CLIENT: Final = 2
_DEADLINE_S: Final = 60.0
_ACKNOWLEDGED_AFTERWARDS: Final = 10
_INIT_VERSION: Final = 4
_PAUSE_S: Final = (1.0, 6.0)
"""A broker's session ends after 3 seconds: after some pauses it has lost its leaderships, after others not."""


class Fault(StrEnum):
    RESTART = "a node is stopped cleanly and started again"
    KILL_LEADER = "kill -9 of a leader"
    KILL_ALL = "kill -9 of all nodes"
    PAUSE_LEADER = "SIGSTOP of a leader"
    MOVE_LEADERS = "all leaders move to another replica"
    MOVE_REPLICA = "a leader's replica is removed, copied again and leads again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One fault; `gaps_s` has for each client the longest time without an acknowledgement of one of its partitions."""

    fault: Fault
    what: str
    gaps_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    happenings: list[Happening]
    comparisons: list[Comparison]
    producer_ids: list[int]
    """Producer ids that every broker gave, before and after each fault."""

    @property
    def is_exact(self) -> bool:
        return not self.repeated_ids and all(each.is_exact for each in self.comparisons)

    @property
    def repeated_ids(self) -> list[int]:
        return sorted(number for number, times in Counter(self.producer_ids).items() if times > 1)

    def __str__(self) -> str:
        ids = f"{len(self.producer_ids)} producer ids, {len(self.repeated_ids)} twice {self.repeated_ids[:5]}"
        return "\n".join([*(str(each) for each in self.comparisons), ids])


class _Run:
    def __init__(self, cluster: Cluster, admin: Admin, loads: Sequence[NumberedLoad], chance: Random) -> None:
        self._cluster = cluster
        self._admin = admin
        self._loads = loads
        self._chance = chance
        self._partitions = [partition for load in loads for partition in load.partitions]
        self.producer_ids: list[int] = []

    def make(self, fault: Fault) -> Happening:
        """Inject a fault, and wait until everything is acknowledged and in sync again."""
        # Faults come at random moments.
        time.sleep(self._chance.uniform(0.2, 1.0))
        self._draw_producer_ids()
        begin_s = time.monotonic()
        what = self._happen(fault)
        until_in_sync(self._admin, _TOPIC, _DEADLINE_S)
        self._draw_producer_ids()
        self.wait_for_acknowledgements()
        return Happening(fault=fault, what=what, gaps_s={load.client: load.gap_s(begin_s) for load in self._loads})

    def wait_for_acknowledgements(self) -> None:
        since_s = time.monotonic()
        for load in self._loads:
            load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, since_s)

    def _draw_producer_ids(self) -> None:
        for server in self._cluster.kafka_bootstrap_servers.split(","):
            with Connection(server) as connection:
                until(lambda: self._draw_producer_id(connection), f"{server} gives no producer id", _DEADLINE_S)

    def _draw_producer_id(self, connection: Connection) -> bool:
        connection.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), _INIT_VERSION)
        frame = connection.frame()
        assert frame is not None, "the connection ended without an answer"
        _, response = decode_response(InitProducerIdResponse, _INIT_VERSION, frame)
        if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return False
        assert response.error_code == ErrorCode.NONE, response
        self.producer_ids.append(response.producer_id)
        return True

    def _happen(self, fault: Fault) -> str:
        match fault:
            case Fault.RESTART:
                return self._restart(self._chance.randint(1, NODES))
            case Fault.KILL_LEADER:
                return self._kill(self._a_leader())
            case Fault.KILL_ALL:
                self._cluster.kill()
                self._cluster.start()
                self._cluster.wait_ready(_DEADLINE_S)
                return "all"
            case Fault.PAUSE_LEADER:
                return self._pause(self._a_leader())
            case Fault.MOVE_LEADERS:
                return self._move_leaders()
            case Fault.MOVE_REPLICA:
                return self._move_replica(self._chance.choice(self._partitions))

    # --- nodes ---

    def _restart(self, node_id: int) -> str:
        began_s = time.monotonic()
        self._cluster.node(node_id).terminate()
        took_s = time.monotonic() - began_s
        self._cluster.node(node_id).start()
        self._cluster.wait_ready(_DEADLINE_S)
        return f"node {node_id}, which took {took_s:.2f} s to stop"

    def _kill(self, node_id: int) -> str:
        self._cluster.node(node_id).kill()
        # It stays down until others lead its partitions.
        self.wait_for_acknowledgements()
        self._cluster.node(node_id).start()
        self._cluster.wait_ready(_DEADLINE_S)
        return f"node {node_id}"

    def _pause(self, node_id: int) -> str:
        pause_s = self._chance.uniform(*_PAUSE_S)
        self._cluster.node(node_id).pause()
        # The length of the pause is part of the fault.
        time.sleep(pause_s)
        self._cluster.node(node_id).resume()
        return f"node {node_id} for {pause_s:.1f} s"

    # --- partitions ---

    def _a_leader(self) -> int:
        return self._leader(self._chance.choice(self._partitions))

    def _leader(self, partition: int) -> int:
        return self._described()[partition][0]

    def _described(self) -> dict[int, tuple[int, list[int]]]:
        """Return the leader and the replicas."""
        (topic,) = self._admin.describe_topics([_TOPIC])
        return {each.partition_index: (each.leader_id, list(each.replica_nodes)) for each in topic.metadata.partitions}

    def _move_leaders(self) -> str:
        turned = {
            TopicPartition(_TOPIC, partition): [*replicas[1:], replicas[0]]
            for partition, (_, replicas) in self._described().items()
        }
        self._reassign(turned)
        self._elect_preferred()
        return f"{len(turned)} partitions"

    def _move_replica(self, partition: int) -> str:
        leader_id, replicas = self._described()[partition]
        others = [broker for broker in replicas if broker != leader_id]
        name = TopicPartition(_TOPIC, partition)
        self._reassign({name: others})
        self.wait_for_acknowledgements()
        self._reassign({name: [leader_id, *others]})
        until_in_sync(self._admin, _TOPIC, _DEADLINE_S)
        self._elect_preferred()
        return f"partition {partition} of node {leader_id}"

    def _reassign(self, wanted: dict[TopicPartition, list[int]]) -> None:
        refused = {
            name: refusal for name, refusal in self._admin.alter_partition_reassignments(wanted).items() if refusal
        }
        assert not refused, refused
        until(
            lambda: not self._admin.list_partition_reassignments(),
            self._admin.list_partition_reassignments,
            _DEADLINE_S,
        )

    def _elect_preferred(self) -> None:
        self._admin.elect_leaders(ElectionType.PREFERRED)
        until(
            lambda: all(leader == replicas[0] for leader, replicas in self._described().values()),
            self._described,
            _DEADLINE_S,
        )


def run(
    *, faults: Sequence[Fault], seed: int, with_java: bool = False, tell: Callable[[Happening], None] = lambda _: None
) -> Verdict:
    """Inject the faults. Raises AssertionError if a client had an error."""
    happenings: list[Happening] = []
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin, ExitStack() as stack:
        create_topic(
            cluster.bootstrap_servers, _TOPIC, partitions=len(LOADS) * _PARTITIONS_A_CLIENT, replication_factor=NODES
        )
        servers = cluster.kafka_bootstrap_servers
        loads = [
            stack.enter_context(
                load(servers, _TOPIC, range(_PARTITIONS_A_CLIENT * at, _PARTITIONS_A_CLIENT * (at + 1)))
            )
            for at, load in enumerate(LOADS)
        ]
        create_topic(cluster.bootstrap_servers, _LINES, partitions=1, replication_factor=NODES)
        console = stack.enter_context(ConsoleLoad(servers, _LINES)) if with_java else None
        running = _Run(cluster, admin, loads, Random(seed))
        running.wait_for_acknowledgements()
        for fault in faults:
            happenings.append(running.make(fault))
            tell(happenings[-1])
        for load in loads:
            load.stop()
        comparisons = [
            compare(load.client, partition, sent, read_numbers(servers, _TOPIC, partition))
            for load in loads
            for partition, sent in load.sent.items()
        ]
        if console is not None:
            console.stop()
            comparisons.append(compare(console.client, 0, console.sent, read_numbers(servers, _LINES, 0)))
    return Verdict(happenings=happenings, comparisons=comparisons, producer_ids=running.producer_ids)


def in_turn(times: int, seed: int) -> list[Fault]:
    """Return each kind that many times, in random order; a restart is one of every node, as in an upgrade."""
    faults = [fault for fault in Fault for _ in range(times * (NODES if fault is Fault.RESTART else 1))]
    Random(seed).shuffle(faults)
    return faults


def gaps_s(happenings: Sequence[Happening], fault: Fault, client: str) -> list[float]:
    return [each.gaps_s[client] for each in happenings if each.fault is fault]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(times: Annotated[int, typer.Option(min=1)] = 5, seed: int = 1, java: bool = False) -> None:
    """Inject each kind of fault that many times, restarts three times as often; with Java on request."""

    def tell(happening: Happening) -> None:
        waited = ", ".join(f"{client} {gap_s:.2f} s" for client, gap_s in happening.gaps_s.items())
        print(
            f"{time.strftime('%H:%M:%S')} {happening.fault} ({happening.what}): {waited}", file=sys.stderr, flush=True
        )

    verdict = run(faults=in_turn(times, seed), seed=seed, with_java=java, tell=tell)
    print(f"restarts, kills and moves under Kafka's idempotent producers, {NODES} nodes, RF {NODES}, seed {seed}")
    print(f"{len(verdict.happenings)} faults:\n{verdict}")
    for fault in Fault:
        print(f"{fault}: a partition was silent for")
        for load in LOADS:
            print(f"  {load.client:<13} {figures(gaps_s(verdict.happenings, fault, load.client))}")
    sys.exit(0 if verdict.is_exact else 1)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.kafka_restart_runs")
