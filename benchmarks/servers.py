"""Brokers under load, as processes: their CPU time, their memory, and topics on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.cpu_clock import process_cpu_s
from kraft.server.config.values import Durability
from kraft.testing import Cluster
from tests.support.kafka.kafka_broker import kafka_processes
from tests.support.kafka.kafka_jars import fetched_kafka_jars

DEADLINE_S: Final = 30
MIB: Final = 1 << 20

OWN_NAMES: Final = {Durability.PAGE_CACHE: "kraft, page cache", Durability.FSYNC: "kraft, synced"}

_ANSWER_S: Final = 5

REMOVAL: Final = {"log.segment.delete.delay.ms": "1000"}
"""For brokers, so that the files of a removed topic are soon gone, and with them the page cache that they fill."""


class Topics(Protocol):
    """Topics of a server."""

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic. Raises KafkaException."""

    def remove(self, topic: str) -> None:
        """Remove a topic; its files are gone a little later. Raises KafkaException."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Brokers under load, as processes that are there already: one, or those of one cluster."""

    name: str
    address: str
    """For clients of Kafka's protocol."""
    pids: tuple[int, ...]
    topics: Topics
    grpc_address: str | None = None
    """For `kraft.client`; None if they are not ours."""

    def cpu_s(self) -> float:
        """CPU time of their whole lives, user and system."""
        return sum(map(process_cpu_s, self.pids))

    def resident_mib(self) -> float:
        return sum(map(resident_mib, self.pids))


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


@contextmanager
def node() -> Iterator[Server]:
    """A node of Kraft for the duration of the context. It syncs nothing before it acknowledges, as Kafka by default."""
    with nodes(1, Durability.PAGE_CACHE) as server:
        yield server


@contextmanager
def nodes(count: int, durability: Durability) -> Iterator[Server]:
    """A cluster of Kraft for the duration of the context. Each node has a replica of each partition."""
    with Cluster(count, overrides={"log.durability": durability, **REMOVAL}) as cluster:
        address = cluster.kafka_bootstrap_servers
        yield Server(
            name=OWN_NAMES[durability],
            address=address,
            pids=tuple(each.pid for each in cluster.nodes),
            topics=AdminTopics(address, count),
            grpc_address=cluster.bootstrap_servers,
        )


@contextmanager
def kafka(count: int) -> Iterator[Server]:
    """A cluster of Apache Kafka for the duration of the context, its own topics on all nodes. Raises JarsMissing."""
    replicas = {
        "offsets.topic.replication.factor": str(count),
        "transaction.state.log.replication.factor": str(count),
        "transaction.state.log.min.isr": str(min(2, count)),
    }
    with kafka_processes(fetched_kafka_jars(), REMOVAL | replicas, count, measured=True) as brokers:
        address = ",".join(each.address for each in brokers)
        pids = tuple(each.pid for each in brokers)
        yield Server(name="kafka", address=address, pids=pids, topics=AdminTopics(address, count))


def beside_server(text: str) -> Server:
    """Return the server that an option names: one broker, or all of a cluster. Raises BadParameter."""
    name, _, rest = text.partition("=")
    address, *pids = rest.split(",")
    if not (name and address and pids and all(map(_is_running, pids))):
        raise typer.BadParameter(f"{text!r}: NAME=HOST:PORT,PID of a broker that runs, as in kafka=127.0.0.1:9092,4711")
    topics = AdminTopics(address, len(pids))
    if not topics.broker_answers():
        raise typer.BadParameter(f"{text!r}: no broker answers at {address}")
    return Server(name=name, address=address, pids=tuple(map(int, pids)), topics=topics)


def _is_running(pid: str) -> bool:
    return pid.isdecimal() and Path(f"/proc/{pid}").is_dir()


class AdminTopics:
    """Topics of brokers that have Kafka's admin requests."""

    def __init__(self, address: str, replicas: int = 1) -> None:
        # Errors only: it outlives the brokers, and would log that they are gone.
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
        self._replicas = replicas

    def broker_answers(self) -> bool:
        """Return whether a broker answers."""
        try:
            self._admin.list_topics(timeout=_ANSWER_S)
        except KafkaException:
            return False
        return True

    def make(self, topic: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, self._replicas)])[topic].result(DEADLINE_S)

    def remove(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(DEADLINE_S)
