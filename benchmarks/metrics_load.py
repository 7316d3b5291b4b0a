"""`python -m benchmarks.metrics_load`: what counting costs a node under load, in turns with one that does not count.

Two real nodes, one of `uncounted_node`. In each turn one and then the other gets the same produces and fetches; CPU
time of the node alone counts. With small batches (`--batch 4`) nearly all of it is for requests: the worst case.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, file_system, print_report
from kraft.client import Admin, NewTopic
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.model.errors import KraftError

TOPIC: Final = "load"
RECORD_BYTES: Final = 1_000
START_S_MAX: Final = 60.0
PROGRAMS: Final = {"counted": ("kraft", "server", "start", "-c"), "uncounted": ("benchmarks.uncounted_node",)}


class _Node:
    def __init__(self, pid: int, address: str, batch_records: int) -> None:
        self._pid = pid
        # Nodes end before their clients: that is no news.
        both = {"bootstrap.servers": address, "log_level": 0}
        self._producer = Producer(
            {**both, "acks": "1", "batch.num.messages": batch_records, "queue.buffering.max.messages": 1_000_000}
        )
        self._consumer = Consumer(
            {
                **both,
                "group.id": "load",
                "fetch.message.max.bytes": 4 * batch_records * RECORD_BYTES,
                "enable.auto.commit": False,
            }
        )
        self._read_to = 0

    def load(self, records: int) -> tuple[float, float]:
        """Return the CPU time of the node for the produces, and for the fetches of what they produced."""
        began_s = process_cpu_s(self._pid)
        for _ in range(records):
            self._producer.produce(TOPIC, bytes(RECORD_BYTES), partition=0)
        if self._producer.flush(START_S_MAX):
            raise SystemExit("the node does not answer")
        produced_s = process_cpu_s(self._pid)
        self._consumer.assign([TopicPartition(TOPIC, 0, self._read_to)])
        left = records
        while left:
            left -= len(self._consumer.consume(min(left, 500), timeout=START_S_MAX))
        self._consumer.unassign()
        self._read_to += records
        return produced_s - began_s, process_cpu_s(self._pid) - produced_s


@contextmanager
def _running(directory: Path, name: str, batch_records: int) -> Iterator[_Node]:
    directory.mkdir()
    with ReservedPorts(3) as (grpc, controller, kafka):
        settings = {"log.durability": "page-cache"}
        plan = NodePlan(node_id=1, grpc_port=grpc, controller_port=controller, kafka_port=kafka, settings=settings)
        cluster_files.write(directory, [plan], "kJ2Yk0mVT0ma0wV2Yk0mVQ")
        command = [sys.executable, "-m", *PROGRAMS[name], str(cluster_files.config_file(directory, 1))]
        with (directory / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                _create_topic(f"{HOST}:{grpc}")
                yield _Node(process.pid, f"{HOST}:{kafka}", batch_records)
            finally:
                process.terminate()


def _create_topic(address: str) -> None:
    until_s = time.monotonic() + START_S_MAX
    while True:
        try:
            with Admin(address) as admin:
                admin.create_topics([NewTopic(topic=TOPIC, partitions=1)])
                return
        except (OSError, KraftError):
            if time.monotonic() > until_s:
                raise
            # The node is still starting.
            time.sleep(0.5)


def main(
    turns: Annotated[int, typer.Option(min=1, help="Number of turns.")] = 15,
    records: Annotated[int, typer.Option(min=1, help="Records of a turn, of 1,000 bytes.")] = 8_000,
    batch: Annotated[int, typer.Option(min=1, help="Records of a batch.")] = 60,
    output: Annotated[Output, typer.Option("--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Print the CPU time of both nodes for each MiB, and the medians of its ratios in turns."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as place:
        with (
            _running(Path(place) / "counted", "counted", batch) as counted,
            _running(Path(place) / "uncounted", "uncounted", batch) as uncounted,
        ):
            nodes = {"counted": counted, "uncounted": uncounted}
            for number in range(-1, turns):
                for name in sorted(nodes, reverse=bool(number % 2)):
                    took = nodes[name].load(records)
                    # The first turn is for the caches to fill.
                    if number >= 0:
                        spent[name].append(took)
        where = file_system(Path(place))
    mib = records * RECORD_BYTES / 2**20
    rows: list[dict[str, Cell]] = []
    for part, kind in enumerate(("produce", "fetch")):
        on, off = ([each[part] for each in spent[name]] for name in ("counted", "uncounted"))
        ratios = sorted(a / b for a, b in zip(on, off, strict=True))
        rows.append(
            {
                "load": kind,
                "counted ms/MiB": median(on) / mib * 1_000,
                "uncounted ms/MiB": median(off) / mib * 1_000,
                "median ratio": median(ratios),
                "quartiles": f"{ratios[len(ratios) // 4]:.3f} to {ratios[len(ratios) * 3 // 4]:.3f}",
            }
        )
    notes = (
        f"{turns} turns of {records:,} records of {RECORD_BYTES:,} bytes, {batch} in a batch; CPU time of the node.",
    )
    print_report(
        Report(title="Counting under load", durability=f"page cache, in {where}", rows=rows, notes=notes), output
    )


if __name__ == "__main__":
    typer.run(main)
