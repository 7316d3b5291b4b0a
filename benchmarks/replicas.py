"""`python -m benchmarks.replicas`: what replicas cost readers.

Three brokers on one machine. The same records are in a topic of one replica and in one of three, both led by one
broker, and are read from the beginning in turns, by our client and by librdkafka. Reads come from the leader alone, so
the ratio is to be 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Annotated, Final

import confluent_kafka
import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report
from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.waiting import until

VALUE: Final = b"r" * 500
DEADLINE_S: Final = 120.0
LEADER: Final = 1

app = typer.Typer(add_completion=False, help="What replicas cost readers.")


def _placed(admin: Admin, topic: str, replicas: Sequence[int]) -> TopicPartition:
    """Create a topic of one partition with these replicas, the leader first, and wait until it is so."""
    partition = TopicPartition(topic, 0)
    admin.create_topic(topic, 1, 1, {"min.insync.replicas": "1"})
    # First the leader alone: one that stays among the replicas would go on leading.
    _move(admin, partition, replicas[:1])
    _move(admin, partition, replicas)
    return partition


def _move(admin: Admin, partition: TopicPartition, replicas: Sequence[int]) -> None:
    admin.alter_partition_reassignments({partition: [*replicas]})
    until(lambda: _is_led(admin, partition.topic, replicas), f"{partition} is not on {replicas}", DEADLINE_S)


def _is_led(admin: Admin, topic: str, replicas: Sequence[int]) -> bool:
    (described,) = admin.describe_topics([topic])
    (found,) = described.metadata.partitions
    in_place = (found.replica_nodes, {*found.isr_nodes}) == (tuple(replicas), {*replicas})
    return in_place and found.leader_id == replicas[0]


def _ours(cluster: Cluster, partition: TopicPartition, records: int) -> None:
    with Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        read = 0
        while read < records:
            read += len(consumer.poll(10_000, max_records=10_000))


def _librdkafkas(cluster: Cluster, partition: TopicPartition, records: int) -> None:
    servers = {"bootstrap.servers": cluster.kafka_bootstrap_servers, "group.id": "reads", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(servers)
    consumer.assign([confluent_kafka.TopicPartition(partition.topic, partition.partition, 0)])
    read = 0
    while read < records:
        read += len(consumer.consume(10_000, 10.0))
    consumer.close()


READERS: Final[dict[str, Callable[[Cluster, TopicPartition, int], None]]] = {
    "kraft.client": _ours,
    "librdkafka": _librdkafkas,
}


def _cpu_s(cluster: Cluster) -> float:
    """Return the CPU time of this process and of the brokers."""
    return time.process_time() + sum(process_cpu_s(node.pid) for node in cluster.nodes)


def _ratio(of_one: Sequence[float], of_three: Sequence[float]) -> float:
    return round(median(three / one for one, three in zip(of_one, of_three, strict=True)), 3)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=1, help="Records of each topic, of 500 bytes.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, after one to warm up.")] = 5,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Read a topic of one replica and one of three, in turns."""
    rates: dict[tuple[str, int], list[float]] = {}
    cpu_us: dict[tuple[str, int], list[float]] = {}
    with Cluster(3) as cluster, Admin(cluster.bootstrap_servers) as admin:
        partitions = {replicas: _placed(admin, f"topic-{replicas}", (LEADER, 2, 3)) for replicas in (1, 3)}
        with Producer(cluster.bootstrap_servers, acks="all") as producer:
            for each in partitions.values():
                producer.produce_many(each.topic, [VALUE] * records, partition=0).result(DEADLINE_S)
        # Only now, so that both have batches of the same sizes: those depend on how long each is waited for.
        _move(admin, partitions[1], (LEADER,))
        for number in range(rounds + 1):
            # Who is first differs, so that none always follows the other.
            turns = sorted(partitions, reverse=bool(number % 2))
            for name, read in READERS.items():
                for replicas in turns:
                    began_s, began_cpu_s = time.monotonic(), _cpu_s(cluster)
                    read(cluster, partitions[replicas], records)
                    # The first round warms up.
                    if number:
                        rates.setdefault((name, replicas), []).append(records / (time.monotonic() - began_s))
                        used_us = (_cpu_s(cluster) - began_cpu_s) * 1_000_000 / records
                        cpu_us.setdefault((name, replicas), []).append(used_us)
    rows: list[dict[str, Cell]] = [
        {
            "reader": name,
            "records/s, 1 replica": round(median(rates[name, 1])),
            "records/s, 3 replicas": round(median(rates[name, 3])),
            "ratio": _ratio(rates[name, 1], rates[name, 3]),
            "CPU us, 1 replica": round(median(cpu_us[name, 1]), 2),
            "CPU us, 3 replicas": round(median(cpu_us[name, 3]), 2),
            "CPU ratio": _ratio(cpu_us[name, 1], cpu_us[name, 3]),
        }
        for name in READERS
    ]
    notes = (
        f"{rounds} rounds in turns after one to warm up; medians, and the median of the rounds' ratios.",
        "CPU is that of the reader and of all three brokers, a record. Other work changes the rates more.",
    )
    title = f"{records:,} records read of one replica and of three"
    print_report(Report(title=title, durability="nothing is written meanwhile", rows=rows, notes=notes), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.replicas")
