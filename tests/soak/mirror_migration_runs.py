"""`python -m tests.soak.mirror_migration_runs`: from Apache Kafka to Kraft and back, while programs work.

A transactional producer writes numbers to one topic, of which every tenth transaction is aborted, and a plain one to
another. Three groups read them. As docs/mirror.md says, a mirror is started, the groups are switched one by one, then
the producers; later all of them go back. At the end each group has to have read every committed number, and none that
was aborted. How many it read twice is counted, by group and direction.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from kraft.client import Admin, Consumer, Producer, TransactionAborted
from kraft.testing import Cluster
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.mirrors import mirror_file, mirroring, topics_of, verified
from tests.support.waiting import until

IN_TRANSACTIONS: Final = "orders"
PLAIN: Final = "clicks"
TOPICS: Final = (IN_TRANSACTIONS, PLAIN)
GROUPS: Final = {"billing": (IN_TRANSACTIONS,), "statistics": (PLAIN,), "audit": TOPICS}
PARTITIONS: Final = 4
TRANSACTION: Final = 100
ABORTED: Final = 10
"""One of so many transactions is."""

PHASES: Final = 9
DEADLINE_S: Final = 600.0
CARRIED_S: Final = 5.0
"""Offsets of groups are carried over every second."""

_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}

Numbered = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One of the two clusters."""

    servers: str
    settings: dict[str, Any] = field(default_factory=dict)


class Work(ABC):
    """A thread that works at one end until it is stopped, and later at the other."""

    def __init__(self) -> None:
        self._is_stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: list[Exception] = []

    def start(self, end: End) -> None:
        self._is_stopped.clear()
        self._thread = threading.Thread(target=self._guarded, args=(end,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, with everything acknowledged or committed. Raises what the thread failed by."""
        assert self._thread is not None, "it was started"
        self._is_stopped.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a client did not end"
        if self._failures:
            raise self._failures[0]

    def _guarded(self, end: End) -> None:
        try:
            self._work(end)
        except Exception as error:  # noqa: BLE001  The caller of stop raises it.
            self._failures.append(error)

    @abstractmethod
    def _work(self, end: End) -> None:
        """Work at this end until it is stopped."""


class Writer(Work):
    """Sends 0, 1, 2, ... to one topic; `written` has what is committed."""

    def __init__(self, topic: str, share: int) -> None:
        """`share`: the writer waits after so many numbers until it is allowed more."""
        super().__init__()
        self.topic = topic
        self.written: list[int] = []
        self._next = 0
        self._share = share
        self._allowed = 0

    def allow_more(self) -> None:
        self._allowed += self._share

    @property
    def is_waiting(self) -> bool:
        assert self._thread is not None, "it was started"
        return self._next >= self._allowed or not self._thread.is_alive()

    def _work(self, end: End) -> None:
        is_transactional = self.topic == IN_TRANSACTIONS
        more: dict[str, Any] = {"transactional_id": "writer"} if is_transactional else {}
        with Producer(end.servers, compression_type="zstd", **more, **end.settings) as producer:
            while not self._is_stopped.is_set():
                if self._next >= self._allowed:
                    self._is_stopped.wait(0.01)
                    continue
                numbers = range(self._next, self._next + TRANSACTION)
                if is_transactional:
                    self._transaction(producer, numbers)
                else:
                    self._send(producer, numbers)
                    producer.flush()
                    self.written += numbers
                self._next = numbers.stop

    def _transaction(self, producer: Producer, numbers: range) -> None:
        is_committed = numbers.start // TRANSACTION % ABORTED != 0
        while True:
            producer.begin_transaction()
            try:
                self._send(producer, numbers)
                if is_committed:
                    producer.commit_transaction()
                    self.written += numbers
                    return
            except TransactionAborted:
                producer.abort_transaction()
                continue
            producer.abort_transaction()
            return

    def _send(self, producer: Producer, numbers: range) -> None:
        for number in numbers:
            producer.send(self.topic, b"%d" % number, key=b"%d" % (number % 97))


class Reader(Work):
    """A member of a group, which commits after each poll; `read` has all that it was given."""

    def __init__(self, group: str, topics: Sequence[str]) -> None:
        super().__init__()
        self.read: list[Numbered] = []
        self.group = group
        self._topics = topics

    def _work(self, end: End) -> None:
        settings: dict[str, Any] = {
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        with Consumer(end.servers, enable_auto_commit=False, **settings, **end.settings) as consumer:
            consumer.subscribe(self._topics)
            while not self._is_stopped.is_set():
                if polled := consumer.poll(200):
                    self.read += [(each.topic, int(each.value or b"")) for each in polled]
                    consumer.commit()

    def wants(self, writers: Sequence[Writer]) -> set[Numbered]:
        return {(each.topic, number) for each in writers if each.topic in self._topics for number in each.written}

    @property
    def twice(self) -> int:
        return len(self.read) - len(set(self.read))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    group: str
    wanted: int
    lost: int
    aborted: int
    """Records that it read and that were aborted."""

    twice_forth: int
    twice_back: int

    def __str__(self) -> str:
        return (
            f"{self.group}: {self.wanted} records, {self.lost} lost, {self.aborted} aborted ones, {self.twice_forth} "
            f"twice after the switch to Kraft, {self.twice_back} after the switch back"
        )


class Migration:
    """The whole run; `kafka` is A, `kraft` is B."""

    def __init__(self, kafka: End, kraft: End, directory: Path, records: int) -> None:
        self._kafka = kafka
        self._kraft = kraft
        self._directory = directory
        share = max(TRANSACTION, records // (len(TOPICS) * PHASES) // TRANSACTION * TRANSACTION)
        self._writers = [Writer(each, share) for each in TOPICS]
        self._readers = [Reader(group, topics) for group, topics in GROUPS.items()]

    def carry_out(self) -> list[GroupOutcome]:
        for each in (*self._writers, *self._readers):
            each.start(self._kafka)
        self._write_on()
        self._switch("A->B", self._kraft)
        forth = {each.group: each.twice for each in self._readers}
        self._write_on()
        self._switch("B->A", self._kafka)
        self._write_on()
        for each in self._writers:
            each.stop()
        wanted = {each.group: each.wants(self._writers) for each in self._readers}
        with suppress(TimeoutError):
            # What is lost is counted below.
            until(lambda: all(wanted[each.group] <= set(each.read) for each in self._readers), "all is read")
        for each in self._readers:
            each.stop()
        return [
            GroupOutcome(
                group=each.group,
                wanted=len(wanted[each.group]),
                lost=len(wanted[each.group] - set(each.read)),
                aborted=len(set(each.read) - wanted[each.group]),
                twice_forth=forth[each.group],
                twice_back=each.twice - forth[each.group],
            )
            for each in self._readers
        ]

    def _write_on(self) -> None:
        for each in self._writers:
            each.allow_more()
        until(lambda: all(each.is_waiting for each in self._writers), "the producers write", DEADLINE_S)

    def _switch(self, pair: str, end: End) -> None:
        """Mirror in one direction, and bring the groups, and then the producers, to its target."""
        clusters = {"B.bootstrap.servers": self._kraft.servers, "A.bootstrap.servers": self._kafka.servers}
        clusters["A.wire.protocol"] = "kafka"
        chosen = {"topics": ",".join(TOPICS), "replication.policy.class": "IdentityReplicationPolicy"}
        file = mirror_file(self._directory / f"{pair[0]}.properties", clusters, {pair: chosen})
        with mirroring(file, "one"):
            until(lambda: has_no_lag(file), lambda: topics_of(file), DEADLINE_S)
            for each in self._readers:
                for writer in self._writers:
                    writer.allow_more()
                each.stop()
                time.sleep(CARRIED_S)  # What it committed last is carried over within an interval.
                each.start(end)
                say(f"{pair}: {each.group} is switched")
            until(lambda: all(each.is_waiting for each in self._writers), "the producers write", DEADLINE_S)
            for writer in self._writers:
                writer.stop()
            until(lambda: has_no_lag(file), lambda: topics_of(file), DEADLINE_S)
            assert not [each for each in verified(file) if each["missing"] or each["twice"] or not each["in_order"]]
            for writer in self._writers:
                writer.start(end)
            say(f"{pair}: the producers are switched")


def has_no_lag(file: Path) -> bool:
    found = topics_of(file)
    return len(found) == len(TOPICS) and not any(each["lag"] for each in found.values())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def carry_out(records: int, nodes: int) -> list[GroupOutcome]:
    with ExitStack() as stack:
        (address,) = stack.enter_context(kafka_brokers(kafka_jars(), {"group.initial.rebalance.delay.ms": "0"}))
        copies = (
            {}
            if nodes > 2
            else dict.fromkeys(
                (
                    "offsets.topic.replication.factor",
                    "transaction.state.log.replication.factor",
                    "transaction.state.log.min.isr",
                ),
                "1",
            )
        )
        cluster = stack.enter_context(Cluster(nodes, overrides=_SETTINGS | copies))
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="migration-")))
        kafka = End(servers=address, settings={"wire_protocol": "kafka"})
        with Admin(kafka.servers, **kafka.settings) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, PARTITIONS, 1)
        return Migration(kafka, End(servers=cluster.bootstrap_servers), directory, records).carry_out()


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=1_800, help="Records of both producers.")] = 100_000,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of Kraft.")] = 3,
) -> None:
    """Move from Kafka to Kraft and back; exit code 1 if a group lost a record or read an aborted one."""
    began_s = time.monotonic()
    outcomes = carry_out(records, nodes)
    print(f"from Apache Kafka to Kraft and back in {time.monotonic() - began_s:.0f} s")
    for each in outcomes:
        print(f"  {each}")
    sys.exit(1 if any(each.lost or each.aborted for each in outcomes) else 0)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.mirror_migration_runs")
