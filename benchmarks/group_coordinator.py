"""`python -m benchmarks.group_coordinator`: what groups and committed offsets cost their coordinator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Annotated, Final

import typer

from benchmarks import group_load
from benchmarks.group_load import Answers
from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.servers import AdminTopics, Server, beside_server, node
from kraft.testing import Cluster

GROUPS: Final = 10_000
PARTITIONS: Final = 10
MEMBERS: Final = 1_000
WIDE: Final = "wide"
"""Topic of the members, with one partition for each."""

BEATS: Final = 3
ROUNDS: Final = 3
COORDINATED: Final = 200
"""Groups that are asked for: at least one in each partition of the offsets topic."""

STARTED_S: Final = 60.0

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="Benchmarks of the group coordinator.")

GroupsOption = Annotated[int, typer.Option(min=100, help="Groups with committed offsets.")]
OutputOption = Annotated[Output, typer.Option(help="For people or for programs.")]


@app.command()
def requests(
    groups: GroupsOption = GROUPS,
    members: Annotated[int, typer.Option(min=2, help="Members of one group, and partitions of their topic.")] = MEMBERS,
    rounds: Annotated[int, typer.Option(min=1, help="Of commits, fetches and heartbeats.")] = ROUNDS,
    beside: Annotated[
        list[str] | None, typer.Option(help="NAME=HOST:PORT,PID of another broker that runs, with no groups yet.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Commits, fetches, joins and heartbeats: rate, latency and CPU of one node."""
    others = [beside_server(text) for text in beside or ()]
    with ExitStack() as running:
        print_report(measure_requests([running.enter_context(node()), *others], groups, members, rounds), output)


@app.command()
def load(groups: GroupsOption = GROUPS, output: OutputOption = Output.TABLE) -> None:
    """Time until a node that was killed answers for all groups again, by the number of committed offsets."""
    print_report(measure_load([groups // 8, groups // 4, groups // 2, groups]), output)


# --- requests --------------------------------------------------------------------------------------------------------


class Run:
    """Figures of one server: one value for each round of each kind of request."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.started_mib = server.resident_mib()
        self.answers: dict[str, list[tuple[Answers, float]]] = {}
        self.joined: dict[str, tuple[float, float]] = {}

    async def take(self, kind: str, request: Callable[[], Awaitable[Answers]]) -> None:
        before_s = self.server.cpu_s()
        answers = await request()
        self.answers.setdefault(kind, []).append((answers, self.server.cpu_s() - before_s))

    def rows(self) -> list[dict[str, Cell]]:
        return [self._row(kind, taken) for kind, taken in self.answers.items()]

    def _row(self, kind: str, taken: Sequence[tuple[Answers, float]]) -> dict[str, Cell]:
        joined_s, cpu_s = self.joined.get(kind, (None, None))
        return {
            "request": kind,
            "server": self.server.name,
            "requests/s": round(median(answers.per_s for answers, _ in taken)),
            "p50 ms": median(answers.percentile_ms(50) for answers, _ in taken),
            "p99 ms": median(answers.percentile_ms(99) for answers, _ in taken),
            "CPU us": median(cpu / len(answers.latencies_ms) * 1e6 for answers, cpu in taken),
            "all joined s": joined_s,
            "CPU s": cpu_s,
            "MiB start": round(self.started_mib),
            "MiB loaded": round(self.server.resident_mib()),
        }


def measure_requests(servers: Sequence[Server], groups: int, members: int, rounds: int) -> Report:
    runs = [Run(server) for server in servers]
    for server in servers:
        server.topics.make("positions", PARTITIONS)
        server.topics.make(WIDE, members)
    names = group_load.groups(groups)
    for number in range(rounds):
        for run in runs:
            say(f"round {number + 1}: commits and fetches of {run.server.name}")
            asyncio.run(_offsets(run, names, number))
    for run in runs:
        say(f"members: {run.server.name}")
        asyncio.run(_members(run, members, rounds))
    rows = [row for rows in zip(*(run.rows() for run in runs), strict=True) for row in rows]
    return Report(
        title=f"Requests to the coordinator: {groups:,} groups, {groups * PARTITIONS:,} committed offsets",
        durability="page cache: what is written counts, nothing is synced before it is acknowledged",
        rows=rows,
        notes=[
            f"Medians of {rounds} rounds, the servers in turns, {group_load.CONNECTIONS} requests at once.",
            f"A commit is of {PARTITIONS} offsets of one group; a fetch reads them.",
            f"Heartbeats are those of {members:,} members of one group, whose topic has {members:,} partitions.",
            "all joined: until all members are in one generation (classic) or every partition has an owner (consumer).",
            "CPU s: of the server, until all had joined.",
            "CPU us: of the server, a request.",
        ],
    )


async def _offsets(run: Run, names: Sequence[str], number: int) -> None:
    address = run.server.address
    await group_load.find(address, names[:COORDINATED])
    await run.take("commit", lambda: group_load.commit(address, names, "positions", PARTITIONS, number))
    await run.take("fetch", lambda: group_load.fetch(address, names, PARTITIONS))


async def _members(run: Run, members: int, rounds: int) -> None:
    address = run.server.address
    await group_load.find(address, ["classic", "consumer"])
    before_s = run.server.cpu_s()
    joined_s, classic = await group_load.join_classic(address, "classic", members)
    run.joined["heartbeat, classic"] = (joined_s, run.server.cpu_s() - before_s)
    for _ in range(rounds):
        await run.take("heartbeat, classic", lambda: group_load.beat_classic(address, "classic", classic))
    before_s = run.server.cpu_s()
    joined_s, consumers = await group_load.join_consumer(address, "consumer", members, WIDE, members)
    run.joined["heartbeat, consumer"] = (joined_s, run.server.cpu_s() - before_s)
    for _ in range(rounds):
        await run.take("heartbeat, consumer", lambda: group_load.beat_consumer(address, "consumer", consumers))


# --- load ------------------------------------------------------------------------------------------------------------


def measure_load(sizes: Sequence[int]) -> Report:
    return Report(
        title="Load of the committed offsets after a kill",
        durability="page cache: what is written counts, nothing is synced before it is acknowledged",
        rows=[_load_row(size) for size in sizes],
        notes=[
            "start: from the start of the process until it answers Kafka's clients.",
            "load: from then until it answers for every group, and has every offset.",
        ],
    )


def _load_row(groups: int) -> Mapping[str, Cell]:
    say(f"load of {groups} groups")
    names = group_load.groups(groups)
    with Cluster(1, overrides={"log.durability": "page-cache"}) as cluster:
        address, running = cluster.kafka_bootstrap_servers, cluster.node(1)
        AdminTopics(address).make("positions", PARTITIONS)
        asyncio.run(_commit_all(address, names))
        running.kill()
        began_s = time.perf_counter()
        running.start()
        cluster.wait_ready(STARTED_S)
        ready_s = time.perf_counter()
        asyncio.run(group_load.find(address, names[:COORDINATED]))
        loaded_s = time.perf_counter()
        asyncio.run(group_load.fetch(address, names, PARTITIONS))
    return {
        "groups": groups,
        "offsets": groups * PARTITIONS,
        "start s": ready_s - began_s,
        "load s": loaded_s - ready_s,
        "us an offset": (loaded_s - ready_s) / (groups * PARTITIONS) * 1e6,
    }


async def _commit_all(address: str, names: Sequence[str]) -> None:
    await group_load.find(address, names[:COORDINATED])
    await group_load.commit(address, names, "positions", PARTITIONS, 1)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.group_coordinator")
