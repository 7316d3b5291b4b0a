"""Brokers under load, as processes: their CPU time, their memory, and topics on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraft.testing import Cluster

DEADLINE_S: Final = 30
MIB: Final = 1 << 20
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A broker under load, as a process that is there already."""

    name: str
    address: str
    pid: int
    make_topic: Callable[[str, int], None]
    """With the name and the number of partitions."""

    def cpu_s(self) -> float:
        """CPU time of its whole life, user and system."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S

    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB


@contextmanager
def node() -> Iterator[Server]:
    """A node of Kraft for the duration of the context."""
    with Cluster(1, overrides={"log.durability": "page-cache"}) as cluster:
        address = cluster.kafka_bootstrap_servers
        yield Server(name="kraft", address=address, pid=cluster.node(1).pid, make_topic=topic_maker(address))


def beside_server(text: str) -> Server:
    """Return the server that an option names. Raises BadParameter."""
    name, _, rest = text.partition("=")
    address, _, pid = rest.rpartition(",")
    if not (name and address and pid.isdecimal() and Path(f"/proc/{pid}").is_dir()):
        raise typer.BadParameter(f"{text!r}: NAME=HOST:PORT,PID of a broker that runs, as in kafka=127.0.0.1:9092,4711")
    return Server(name=name, address=address, pid=int(pid), make_topic=topic_maker(address))


def topic_maker(address: str) -> Callable[[str, int], None]:
    admin = AdminClient({"bootstrap.servers": address})

    def make(topic: str, partitions: int) -> None:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)

    return make
