"""`python -m tests.soak.streams_runs`: Kafka Streams counts exactly once while brokers and instances are killed.

Two instances of an application with `exactly_once_v2` count the words of a topic. Each word is grouped by itself, so it
goes through a repartition topic; each new count goes to a changelog topic and to the output. Coordinators, leaders and
instances are killed, and instances paused until they are replaced. At the end the committed output has the counts 1, 2,
3 and so on of each word up to the number of times that it was written, what was counted is deleted from the repartition
topic, and no last stable offset is held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from random import Random
from typing import Final

import typer
from msgspec import Struct

from kraft.client import Admin, Consumer
from kraft.client import TopicPartition as Place
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.find_coordinator import CoordinatorType
from kraft.testing import Cluster
from tests.soak import transaction_runs
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.group_member_runs import SESSION_MS
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.steady_producer import SteadyProducer
from tests.soak.loads.words import Counts, CountsReader, Words
from tests.soak.transaction_runs import DEADLINE_S, TRANSACTION_TIMEOUT_MS, found_coordinator
from tests.support.kafka.group_members.observer import Observer
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.streams.instances import Application, Instance, instances_of, waiting_since
from tests.support.waiting import until, until_stable

NODES: Final = 3
INSTANCES: Final = 2
PARTITIONS: Final = 4
PERIOD_S: Final = 0.03
SETTINGS: Final = {
    **transaction_runs.SETTINGS,
    # The topics that Streams creates are to outlive a broker. It leaves their replication to the brokers.
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
_DOWN_MAX_S: Final = 5.0
_PAUSE_S: Final = 1.5 * max(SESSION_MS, TRANSACTION_TIMEOUT_MS) / 1_000


class Fault(StrEnum):
    KILL_TRANSACTION_COORDINATOR = "a transaction coordinator is killed"
    KILL_GROUP_COORDINATOR = "the group coordinator is killed"
    KILL_LEADER = "a leader of the changelog is killed"
    KILL_INSTANCE = "an instance is killed"
    PAUSE_INSTANCE = "an instance is paused"
    KILL_INSTANCE_AND_COORDINATOR = "an instance and its transaction coordinator are killed"


class Happening(Struct, frozen=True, kw_only=True):
    """One fault. The pause is the longest one of a partition of committed counts until all instances worked again."""

    fault: Fault
    node_id: int
    pause_s: float


class Outcome(Struct, frozen=True, kw_only=True):
    happenings: tuple[Happening, ...]
    words: int
    """How many were written, and counted once each."""

    different: int
    """How many different words there are."""

    took_s: float


class Run:
    """One cluster's topics, instances and faults."""

    def __init__(
        self, cluster: Cluster, seed: int, standbys: int = 0, protocol: str = "", down_max_s: float = _DOWN_MAX_S
    ) -> None:
        self.servers = Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers)
        self.application = Application(
            servers=self.servers.kafka,
            application=f"word-counter-{seed}",
            source=f"words-{seed}",
            target=f"counts-{seed}",
            standbys=standbys,
            protocol=protocol,
            session_ms=SESSION_MS,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self.instances: list[Instance] = []
        self.happenings: list[Happening] = []
        self._cluster = cluster
        self._chance = Random(seed)
        self._down_max_s = down_max_s

    def create_topics(self) -> None:
        observer = Observer(self.servers)
        with Admin(self.servers.grpc) as admin:
            for topic in (self.application.source, self.application.target):
                admin.create_topic(topic, PARTITIONS, NODES)
                observer.end_offsets(topic, PARTITIONS)

    def wait_handled(self, since_s: float) -> None:
        """Wait until every instance has tasks, and has handled words after a moment."""
        until(
            lambda: not waiting_since(self.instances, since_s),
            lambda: f"no words are handled by {waiting_since(self.instances, since_s)}",
            DEADLINE_S,
        )

    # --- faults ---

    def live_through(self, fault: Fault, reader: CountsReader) -> None:
        began_s = time.monotonic()
        node_id = self._do(fault, self._chance.choice(self.instances))
        self._cluster.wait_ready(DEADLINE_S)
        self.wait_handled(time.monotonic())
        pause_s = reader.longest_pause_s(began_s)
        self.happenings.append(Happening(fault=fault, node_id=node_id, pause_s=pause_s))

    def _do(self, fault: Fault, instance: Instance) -> int:
        """Return the node that it happens to, or 0."""
        match fault:
            case Fault.KILL_TRANSACTION_COORDINATOR:
                return self._kill_node(self._transaction_coordinator(instance))
            case Fault.KILL_GROUP_COORDINATOR:
                group = self.application.application
                return self._kill_node(found_coordinator(self.servers, group, CoordinatorType.GROUP))
            case Fault.KILL_LEADER:
                return self._kill_node(self._leader())
            case Fault.KILL_INSTANCE:
                instance.kill()
                time.sleep(self._down_s())
                instance.start()
            case Fault.PAUSE_INSTANCE:
                instance.process.pause()
                time.sleep(_PAUSE_S)
                instance.process.resume()
            case Fault.KILL_INSTANCE_AND_COORDINATOR:
                node_id = self._transaction_coordinator(instance)
                instance.kill()
                self._kill_node(node_id)
                instance.start()
                return node_id
        return 0

    def _down_s(self) -> float:
        return self._chance.uniform(0.1, self._down_max_s)

    def _kill_node(self, node_id: int) -> int:
        node = self._cluster.node(node_id)
        node.kill()
        time.sleep(self._down_s())
        node.start()
        return node_id

    def _transaction_coordinator(self, instance: Instance) -> int:
        return found_coordinator(self.servers, instance.transactional_id, CoordinatorType.TRANSACTION)

    def _leader(self) -> int:
        partition, leaders = self._chance.randrange(PARTITIONS), list[int]()

        def is_led() -> bool:
            with Admin(self.servers.grpc) as admin:
                (described,) = admin.describe_topics([self.application.changelog_topic])
            leaders.append(described.metadata.partitions[partition].leader_id)
            return leaders[-1] > 0

        until(is_led, f"partition {partition} of the changelog has no leader", DEADLINE_S)
        return leaders[-1]

    # --- the end ---

    def finish(self, words: Words, reader: CountsReader) -> None:
        """Check everything that the run promises. Raises AssertionError and TimeoutError."""

        def are_counted() -> bool:
            reader.check()
            for each in self.instances:
                each.check()
            excess = reader.counts.last - words.written
            assert not excess, f"counted more often than written: {excess}"
            return reader.counts.last == words.written

        until(are_counted, lambda: f"not counted: {words.written - reader.counts.last}", DEADLINE_S)
        self._wait_purged()
        for each in self.instances:
            each.stop()
        until_stable(self.servers.grpc, (*self._topics(), OFFSETS_TOPIC, TRANSACTIONS_TOPIC), DEADLINE_S)
        assert self._read_by_kraft().last == words.written
        self._check_topics()

    def _topics(self) -> tuple[str, ...]:
        one = self.application
        return one.source, one.target, one.repartition_topic, one.changelog_topic

    def _wait_purged(self) -> None:
        """Wait until Streams has deleted the records of the repartition topic that have been counted."""
        with Consumer(self.servers.grpc) as consumer:
            topic = self.application.repartition_topic
            places = [Place(topic, each) for each in consumer.partitions_for(topic)]
            until(
                lambda: min(consumer.beginning_offsets(places).values()) > 0,
                lambda: f"first offsets of {topic}: {consumer.beginning_offsets(places)}",
                DEADLINE_S,
            )

    def _read_by_kraft(self) -> Counts:
        """Read the output again, from its beginning and with another client."""
        counts = Counts()
        places = [Place(self.application.target, each) for each in range(PARTITIONS)]
        with Consumer(self.servers.grpc, isolation_level="read_committed") as consumer:
            for place, end in consumer.end_offsets(places).items():
                for part in consumer.read_columns(place, 0, end, timeout_ms=int(DEADLINE_S * 1_000)):
                    for word, count in zip(part.columns.keys, part.columns.values, strict=True):
                        counts.add(place.partition, word or b"", count or b"")
        return counts

    def _check_topics(self) -> None:
        """Streams created its topics with the partitions of their source, and with the configs that it needs."""
        wanted = {
            self.application.repartition_topic: {"cleanup.policy": "delete", "retention.ms": "-1"},
            self.application.changelog_topic: {"cleanup.policy": "compact"},
        }
        with Admin(self.servers.grpc) as admin:
            for topic, configs in wanted.items():
                (described,) = admin.describe_topics([topic])
                replicas = [len(each.replica_nodes) for each in described.metadata.partitions]
                assert replicas == [NODES] * PARTITIONS, f"numbers of replicas of {topic}: {replicas}"
                found = {each.name: each.value for each in admin.describe_topic_configs(topic) if each.name in configs}
                assert found == configs, f"configs of {topic}: {found}"


def run(
    cluster: Cluster,
    seed: int,
    faults: Sequence[Fault],
    standbys: int = 0,
    tell: Callable[[Happening], None] = lambda _: None,
    period_s: float = PERIOD_S,
    down_max_s: float = _DOWN_MAX_S,
) -> Outcome:
    """Raises AssertionError and TimeoutError for what the run promises and does not keep.

    A word is written to each partition every `period_s`; what is killed starts again after `down_max_s` at the latest.
    """
    began_s = time.monotonic()
    with ExitStack() as stack:
        one = Run(cluster, seed, standbys, down_max_s=down_max_s)
        one.create_topics()
        words = Words(Random(seed))
        producer = stack.enter_context(
            SteadyProducer(one.servers.kafka, one.application.source, PARTITIONS, period_s, words)
        )
        one.instances = stack.enter_context(instances_of(one.application, INSTANCES))
        reader = stack.enter_context(CountsReader(one.servers.kafka, one.application.target, PARTITIONS))
        one.wait_handled(0.0)
        for fault in faults:
            one.live_through(fault, reader)
            tell(one.happenings[-1])
        producer.stop()
        one.finish(words, reader)
    return Outcome(
        happenings=tuple(one.happenings),
        words=words.written.total(),
        different=len(words.written),
        took_s=time.monotonic() - began_s,
    )


def main(times: Times = 10, seed: Seed = None) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    chance = Random(number)
    standbys = chance.randrange(2)
    faults = [chance.choice(list(Fault)) for _ in range(times)]

    def tell(each: Happening) -> None:
        where = f", node {each.node_id}" if each.node_id else ""
        say(f"{each.fault}{where}: {each.pause_s:.2f} s")

    with judged(), Cluster(NODES, overrides=SETTINGS) as cluster:
        ended = run(cluster, number, faults, standbys, tell)
    print(f"{times} faults, {NODES} nodes, {INSTANCES} instances, {standbys} standbys, seed {number}")
    print(f"{ended.took_s:.0f} s")
    print(f"{ended.words} words, {ended.different} different ones: counted once each, no last stable offset held back")
    for fault in Fault:
        pauses = [each.pause_s for each in ended.happenings if each.fault is fault]
        if pauses:
            print(f"  {fault} {len(pauses)} times: without a committed count for {figures(pauses)}")


if __name__ == "__main__":
    typer.run(main)
