"""`python -m benchmarks.transactions`: what transactions cost their producers, and their readers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final
from uuid import uuid4

import typer

from benchmarks import kafka_load, transaction_load
from benchmarks.kafka_load import Flow, Isolation, LoadFailed
from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.servers import Server, beside_server, kafka, nodes
from benchmarks.transaction_load import LOT_RECORDS, PARTITIONS, WARM_UP_LOTS, Client, Written
from kraft.server.config.values import Durability
from tests.support.maven_jars import JarsMissing

TRANSACTIONS: Final = 300
ROUNDS: Final = 3
PRODUCERS: Final = (1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    transactions: int = TRANSACTIONS
    """Of all producers together, in each round."""
    rounds: int = ROUNDS
    warm_up_rounds: int = 1
    """Rounds before these, which are not counted."""
    producers: Sequence[int] = PRODUCERS
    reads: int = 3
    """Of a topic with each isolation level, in each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One server with one client."""

    name: str
    server: Server
    client: Client

    @property
    def address(self) -> str:
        if self.client is Client.LIBRDKAFKA:
            return self.server.address
        assert self.server.grpc_address is not None, "only our own servers have this client"
        return self.server.grpc_address


@dataclass(slots=True)
class Lots:
    """Lots that were written in one way, one value for each round."""

    written: list[Written] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    """Of the server, a lot."""

    def per_s(self) -> float:
        return median(written.lots_per_s for written in self.written)


@dataclass(slots=True)
class Figures:
    """Figures of one subject with some number of producers."""

    transactions: Lots = field(default_factory=Lots)
    plain: Lots = field(default_factory=Lots)
    """The same lots without transactions."""
    reads: dict[Isolation, list[Flow]] = field(default_factory=lambda: {isolation: [] for isolation in Isolation})

    def read_per_s(self, isolation: Isolation) -> float:
        return median(flow.records_per_s for flow in self.reads[isolation])


def subjects_of(servers: Sequence[Server]) -> list[Subject]:
    """Return each server with librdkafka; the first with our own client, too."""
    own = Subject(name=f"{servers[0].name}, own client", server=servers[0], client=Client.KRAFT)
    return [own, *(Subject(name=server.name, server=server, client=Client.LIBRDKAFKA) for server in servers)]


def measure(servers: Sequence[Server], plan: Plan) -> Report:
    """The first of the servers is one of ours; the ratios are beside the last one."""
    subjects = subjects_of(servers)
    figures = {(subject.name, count): Figures() for count in plan.producers for subject in subjects}
    run = uuid4().hex[:8]  # Another broker may have the topics of earlier runs.
    for number in range(1 - plan.warm_up_rounds, plan.rounds + 1):
        for count in plan.producers:
            for subject in subjects:
                taken = figures[subject.name, count] if number > 0 else Figures()
                when = f"round {number} of {plan.rounds}" if number > 0 else "warm-up"
                say(f"{when}: {subject.name}, producers: {count}")
                _measure_once(subject, f"{run}-{subject.client}-{count}-{number}", count, plan, taken)
    rows = [
        row
        for count in plan.producers
        for subject in subjects
        for row in _rows(subject.name, count, figures[subject.name, count], figures[subjects[-1].name, count])
    ]
    return Report(
        title=f"Transactions of {LOT_RECORDS} records of {kafka_load.VALUE_BYTES} bytes in {PARTITIONS} partitions,"
        f" {len(servers[0].pids)} node(s), as many replicas",
        durability="synced: on each in-sync replica before it acknowledges; in the page cache not, as Kafka by default",
        rows=rows,
        notes=_notes(plan, servers[-1].name),
    )


def _notes(plan: Plan, last: str) -> list[str]:
    counted = f"{plan.rounds} rounds of {plan.transactions:,} transactions"
    return [
        f"Medians of {counted}, the servers in turns; the load has the same cores.",
        f"Not counted: a round before them, and in each round the first {WARM_UP_LOTS} transactions of each producer.",
        "A producer sends a lot of records, flushes, and commits; then it begins the next lot.",
        "plain: the same lots, with acks=all and idempotent, without transactions. of plain: beside them.",
        f"CPU ms: of the server, on all its nodes, a lot. x: beside {last}.",
        f"committed, uncommitted: records/s that librdkafka reads of transactions, {plan.reads} times in each round.",
    ]


def _measure_once(subject: Subject, topic: str, producers: int, plan: Plan, into: Figures) -> None:
    server, lots = subject.server, plan.transactions // producers
    written, plain = f"transactions-{topic}", f"plain-{topic}"
    all_lots = producers * (WARM_UP_LOTS + lots)
    for name, taken, is_transactional in ((written, into.transactions, True), (plain, into.plain, False)):
        server.topics.make(name, PARTITIONS)
        before_s = server.cpu_s()
        taken.written.append(
            transaction_load.write(
                subject.client, subject.address, name, producers, lots, is_transactional=is_transactional
            )
        )
        taken.cpu_ms.append((server.cpu_s() - before_s) / all_lots * 1_000)
    for number in range(plan.reads):
        for isolation in reversed(Isolation) if number % 2 else Isolation:
            flow = kafka_load.consume(server.address, written, all_lots * LOT_RECORDS, PARTITIONS, isolation)
            into.reads[isolation].append(flow)


def _rows(name: str, producers: int, own: Figures, beside: Figures) -> list[dict[str, Cell]]:
    committed, uncommitted = (own.read_per_s(isolation) for isolation in Isolation)
    first: dict[str, Cell] = {"server": name, "producers": producers}
    return [
        first
        | {"lots": "transactions"}
        | _written(own.transactions, beside.transactions)
        | {
            "of plain": own.transactions.per_s() / own.plain.per_s(),
            "committed": round(committed),
            "uncommitted": round(uncommitted),
            "read x": committed / uncommitted,
        },
        first
        | {"lots": "plain"}
        | _written(own.plain, beside.plain)
        | {"of plain": None, "committed": None, "uncommitted": None, "read x": None},
    ]


def _written(own: Lots, beside: Lots) -> dict[str, Cell]:
    commits = [written.commit for written in own.written if written.commit is not None]
    return {
        "lots/s": own.per_s(),
        "x": own.per_s() / beside.per_s(),
        "records/s": round(own.per_s() * LOT_RECORDS),
        "flush p50 ms": median(written.flush.p50_ms for written in own.written),
        "flush p99 ms": median(written.flush.p99_ms for written in own.written),
        "commit p50 ms": median(commit.p50_ms for commit in commits) if commits else None,
        "commit p99 ms": median(commit.p99_ms for commit in commits) if commits else None,
        "CPU ms": median(own.cpu_ms),
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    transactions: Annotated[int, typer.Option(min=10, help="Of all producers together, in each round.")] = TRANSACTIONS,
    rounds: Annotated[int, typer.Option(min=1, help="After one that is not counted.")] = ROUNDS,
    node_count: Annotated[
        int, typer.Option("--nodes", min=1, max=5, help="Nodes of each cluster, and replicas of each topic.")
    ] = 1,
    has_kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka beside us, from Maven's jars.")] = False,
    beside: Annotated[
        list[str] | None,
        typer.Option(help="NAME=HOST:PORT,PID of another broker that runs; with one PID for each node of a cluster."),
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Transactions a second, latency of their commits, and the rate of reading them, one producer and several."""
    others = [beside_server(text) for text in beside or ()]
    try:
        with ExitStack() as running:
            own = [
                running.enter_context(nodes(node_count, Durability.FSYNC)),
                running.enter_context(nodes(node_count, Durability.PAGE_CACHE)),
            ]
            if has_kafka:
                others.append(running.enter_context(kafka(node_count)))
            print_report(measure([*own, *others], Plan(transactions=transactions, rounds=rounds)), output)
    except (LoadFailed, JarsMissing) as failed:
        raise SystemExit(f"transactions: {failed}") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.transactions")
