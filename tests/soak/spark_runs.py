"""`python -m tests.soak.spark_runs`: a Spark stream copies a topic, each record once, through faults of all parts.

The stream reads a topic and writes to another, both with format("kraft") and the exactly-once sink. Executors, Python
workers, the driver, leaders of the source and coordinators of transactions are killed, partitions are added to the
source, and what was read is deleted there at once. At the end the committed records of the target are those that were
written to the source, each exactly once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import numpy as np
import psutil
import typer
from msgspec import Struct

from kraft.client import Admin, Consumer
from kraft.client import TopicPartition as Place
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.testing import Cluster
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.leader_kill_runs import figures
from tests.soak.loads.numbered_records import NumberedRecords
from tests.support.waiting import until, until_stable

NODES: Final = 3
PARTITIONS: Final = 4
PARTITIONS_MAX: Final = 8
MASTER: Final = "local-cluster[2,1,1024]"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.segment.bytes": str(16 << 20),
}
_SOURCE, _TARGET = "numbers", "copies"
_DEADLINE_S: Final = 300.0
_PAUSE_MAX_S: Final = 5.0
_DOWN_MAX_S: Final = 4.0
_STOP_DEADLINE_S: Final = 60.0


class Fault(StrEnum):
    KILL_EXECUTOR = "an executor is killed"
    KILL_WORKER = "a Python worker is killed"
    KILL_DRIVER = "the driver is killed"
    KILL_LEADER = "a leader of the source is killed"
    KILL_COORDINATOR = "a transaction coordinator is killed"
    ADD_PARTITIONS = "partitions are added"
    DELETE_READ = "what was read is deleted"


class Happening(Struct, frozen=True, kw_only=True):
    """One fault, and the time until the stream committed its next micro-batch."""

    fault: Fault
    pause_s: float


class Outcome(Struct, frozen=True, kw_only=True):
    happenings: tuple[Happening, ...]
    records: int
    """How many were written, and copied exactly once."""

    query_failures: tuple[str, ...]
    """How the query ended, each time that it was not killed."""


class Copier:
    """The Spark program, started again when it is killed."""

    def __init__(self, servers: str, directory: Path, options: Sequence[str]) -> None:
        self.checkpoint = directory / "checkpoint"
        self._log = (directory / "spark.log").open("ab")
        self._output = (directory / "spark.out").open("ab")
        self._directory = directory
        arguments = (MASTER, servers, _SOURCE, _TARGET, str(self.checkpoint), *options)
        self._command = (sys.executable, "-m", "tests.soak.loads.spark_copy", *arguments)
        self._start()

    def _start(self) -> None:
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            self._command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._log,
            start_new_session=True,
        )

    def restart(self) -> None:
        self.kill()
        self._start()

    def kill(self) -> None:
        """Kill all of it, as when its machine fails."""
        if self._process.poll() is None:
            self.kill_these(lambda _: True)
            self._process.kill()
        self._process.wait(_STOP_DEADLINE_S)

    def kill_these(self, are_meant: Callable[[str], bool], chance: Random | None = None) -> int:
        """Kill the processes with such a command line, or one of them by chance. Return how many."""
        found = []
        for each in psutil.Process(self._process.pid).children(recursive=True):
            try:
                if are_meant(" ".join(each.cmdline())):
                    found.append(each)
            except psutil.NoSuchProcess:
                continue
        chosen_ones = [chance.choice(found)] if chance is not None and found else found
        for each in chosen_ones:
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        return len(chosen_ones)

    def check(self) -> None:
        code = self._process.poll()
        assert code is None, f"the Spark program ended with code {code}: {self.tail()}"

    def tail(self) -> str:
        lines = (self._directory / "spark.out").read_text(errors="replace").splitlines()[-3:]
        errors = (self._directory / "spark.log").read_text(errors="replace").splitlines()[-20:]
        return "\n".join((*lines, *errors))

    @property
    def failures(self) -> list[str]:
        """How the query ended, each time that it was not killed."""
        lines = (self._directory / "spark.out").read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("failed")]

    # --- what it has done ---

    @property
    def committed_batches(self) -> int:
        """The number of micro-batches that are in the checkpoint as committed."""
        return 1 + max((int(each.name) for each in self.checkpoint.glob("commits/[0-9]*")), default=-1)

    def read_to(self) -> dict[int, int]:
        """Return where the last committed micro-batch ended, for each partition of the source."""
        batches = self.committed_batches
        if not batches:
            return {}
        document = json.loads((self.checkpoint / "offsets" / str(batches - 1)).read_text().splitlines()[2])
        return {int(number): offset for number, offset in document["topics"][_SOURCE].items()}


class Run:
    """One cluster's topics, stream and faults."""

    def __init__(self, cluster: Cluster, seed: int, rate: int, directory: Path) -> None:
        self.happenings: list[Happening] = []
        self._cluster = cluster
        self._rate = rate
        self._servers = cluster.bootstrap_servers
        self._chance = Random(seed)
        with Admin(self._servers) as admin:
            admin.create_topic(_SOURCE, PARTITIONS, NODES)
            admin.create_topic(_TARGET, PARTITIONS, NODES)
        self.records = NumberedRecords(cluster.kafka_bootstrap_servers, _SOURCE, PARTITIONS, rate)
        self.copier = Copier(self._servers, directory, ["maxOffsetsPerTrigger=200000"])

    def wait_committed(self, batches: int) -> None:
        def are_committed() -> bool:
            self.copier.check()
            return self.copier.committed_batches >= batches

        until(are_committed, lambda: f"the stream commits nothing: {self.copier.tail()}", _DEADLINE_S)

    def live_through(self, fault: Fault) -> None:
        # A fault comes at any point of a micro-batch.
        time.sleep(self._chance.uniform(0, _PAUSE_MAX_S))
        self.records.check()
        before, began_s = self.copier.committed_batches, time.monotonic()
        self._do(fault)
        # The batch that was under way may end as if nothing had been; the next one has met the fault.
        self.wait_committed(before + 2)
        self.happenings.append(Happening(fault=fault, pause_s=time.monotonic() - began_s))

    def _do(self, fault: Fault) -> None:
        match fault:
            case Fault.KILL_EXECUTOR:
                self.copier.kill_these(lambda line: "CoarseGrainedExecutorBackend" in line, self._chance)
            case Fault.KILL_WORKER:
                self.copier.kill_these(lambda line: "pyspark.daemon" in line, self._chance)
            case Fault.KILL_DRIVER:
                self.copier.restart()
            case Fault.KILL_LEADER:
                self._kill_leader(_SOURCE)
            case Fault.KILL_COORDINATOR:
                self._kill_leader(TRANSACTIONS_TOPIC)
            case Fault.ADD_PARTITIONS:
                self._add_partition()
            case Fault.DELETE_READ:
                self._delete_read()

    def _kill_leader(self, topic: str) -> None:
        with Admin(self._servers) as admin:
            (described,) = admin.describe_topics([topic])
        leader_id = self._chance.choice(described.metadata.partitions).leader_id
        if leader_id < 0:
            return
        node = self._cluster.node(leader_id)
        node.kill()
        # Down for so long: the others elect leaders, or do not yet.
        time.sleep(self._chance.uniform(0.1, _DOWN_MAX_S))
        node.start()
        self._cluster.wait_ready(_DEADLINE_S)

    def _add_partition(self) -> None:
        count = len(self.records.written) + 1
        if count <= PARTITIONS_MAX:
            with Admin(self._servers) as admin:
                admin.create_partitions(_SOURCE, count)
            self.records.grow(count)

    def _delete_read(self) -> None:
        """Delete as retention does where it is as fast as the stream."""
        read_to = {Place(_SOURCE, partition): offset for partition, offset in self.copier.read_to().items()}
        with Admin(self._servers) as admin:
            admin.delete_records(read_to)

    def finish(self, records: int) -> int:
        """Check the copy once there are so many records and all are read. Return the number of its records."""

        def is_read() -> bool:
            self.copier.check()
            return self.copier.read_to() == {
                number: count for number, count in enumerate(self.records.written) if count
            }

        until(
            lambda: sum(self.records.written) >= records,
            lambda: f"{sum(self.records.written)} of {records} records are written",
            _DEADLINE_S + 2 * records / self._rate,
        )
        self.records.finish()
        until(is_read, lambda: f"read to {self.copier.read_to()} of {self.records.written}", _DEADLINE_S)
        self.copier.kill()
        until_stable(self._servers, [_TARGET], _DEADLINE_S)
        check_copies(self._servers, self.records.written)
        return sum(self.records.written)


def check_copies(servers: str, written: Sequence[int]) -> None:
    """Raises AssertionError if a record of the source is not exactly once among the committed ones of the target."""
    counts = [np.zeros(count, np.uint8) for count in written]
    with Consumer(servers, isolation_level="read_committed") as consumer:
        places = [Place(_TARGET, each) for each in consumer.partitions_for(_TARGET)]
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        for place in places:
            for part in consumer.read_columns(place, starts[place], ends[place], timeout_ms=int(_DEADLINE_S * 1_000)):
                for value in part.columns.values:
                    source, number = (value or b"").split(b":")
                    counts[int(source)][int(number)] += 1
    for partition, seen in enumerate(counts):
        lost, repeated = np.flatnonzero(seen == 0), np.flatnonzero(seen > 1)
        what = (
            f"partition {partition}: {len(lost)} lost, first {lost[:5]}; {len(repeated)} repeated, first {repeated[:5]}"
        )
        assert not len(lost), what
        assert not len(repeated), what


def run(
    cluster: Cluster,
    seed: int,
    faults: Sequence[Fault],
    records: int,
    rate: int,
    tell: Callable[[Happening], None] = lambda _: None,
) -> Outcome:
    """Raises AssertionError and TimeoutError for what the run promises and does not keep."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="kraft-spark-")))
        one = Run(cluster, seed, rate, directory)
        stack.callback(one.copier.kill)
        stack.enter_context(one.records)
        one.wait_committed(1)
        for fault in faults:
            one.live_through(fault)
            tell(one.happenings[-1])
        return Outcome(
            happenings=tuple(one.happenings),
            records=one.finish(records),
            query_failures=tuple(one.copier.failures),
        )


def main(
    times: Times = 6,
    records: Annotated[int, typer.Option(min=1, help="Records to copy, at least.")] = 300_000,
    rate: Annotated[int, typer.Option(min=1, help="Records written in a second.")] = 20_000,
    seed: Seed = None,
) -> None:
    number = chosen(seed)
    say(f"seed {number}")
    chance = Random(number)
    faults = [chance.choice(list(Fault)) for _ in range(times)]
    began_s = time.monotonic()
    with judged(), Cluster(NODES, overrides=SETTINGS) as cluster:
        ended = run(cluster, number, faults, records, rate, lambda each: say(f"{each.fault}: {each.pause_s:.1f} s"))
    print(f"{times} faults, {NODES} nodes, seed {number}, {time.monotonic() - began_s:.0f} s")
    print(f"{ended.records} records, each copied exactly once; the query failed {len(ended.query_failures)} times")
    for failure in ended.query_failures:
        print(f"  {failure}")
    for fault in Fault:
        pauses = [each.pause_s for each in ended.happenings if each.fault is fault]
        if pauses:
            print(f"  {fault} {len(pauses)} times: two micro-batches later after {figures(pauses)}")


if __name__ == "__main__":
    typer.run(main)
