"""`python -m benchmarks.console`: how long the console takes for each of its pages, and how much memory it needs.

A node with many partitions and groups, and a console beside it, over gRPC and then over Kafka's protocol. The pages are
those of the table of routes, so a new page is measured as well; each as HTML and as JSON, one request after the other.
Beside the time is the CPU time of both processes, which depends less on what else runs on the machine. All of it ends
in time: the pages share what is left of it, so slow ones are asked for less often.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import psutil
import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.servers import resident_mib
from kraft.client import Admin, NewTopic, Producer, TopicPartition
from kraft.console.route_kinds import Page
from kraft.console.routes import PAGES
from kraft.server.process.file_limit import raise_file_limit
from kraft.testing import Cluster
from tests.support.console_addresses import address_of
from tests.support.console_browser import Browser, console
from tests.support.waiting import until

TOPIC_PARTITIONS: Final = 10
OFFSETS_OF_GROUP: Final = 10
RECORDS: Final = 1_000

CREATED_AT_ONCE: Final = 50
CLIENT_MS: Final = 300_000

ROUNDS_MIN: Final = 4
"""Requests for a page, with the first, also when the time is over."""

LIMIT_MS: Final = 300
"""Of the 95th percentile of each page."""

LIMIT_MIB: Final = 150

QUERIES: Final = {"/clusters/{cluster}/topics": ("sort=under-replicated", "q=0099", "page=5")}
"""Further questions to a page that are measured, for those whose work they change."""


def _filled(admin: Admin, servers: str, partitions: int, groups: int) -> None:
    """Create the topics and groups, and write some records."""
    topics = [_topic(number) for number in range(partitions // TOPIC_PARTITIONS)]
    admin.create_topic(topics[0], TOPIC_PARTITIONS, 1)
    # The topic of the groups is made by the first commit, and its logs are opened before thousands of others.
    _commit(admin, 0, topics)
    for at in range(1, len(topics), CREATED_AT_ONCE):
        new = [
            NewTopic(topic=each, partitions=TOPIC_PARTITIONS, replication_factor=1)
            for each in topics[at : at + CREATED_AT_ONCE]
        ]
        admin.create_topics(new, timeout_ms=CLIENT_MS)
    until(lambda: set(topics) <= set(admin.list_topics()), "topics are listed", deadline_s=60)
    with Producer(servers) as producer:
        sent = [
            producer.send(topics[0], b'{"number": %d}' % number, key=b"%d" % number, partition=number % 2)
            for number in range(RECORDS)
        ]
        for each in sent:
            each.result(60)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: _commit(admin, number, topics), range(groups)))


def _commit(admin: Admin, group: int, topics: Sequence[str]) -> None:
    topic = topics[group % len(topics)]
    offsets = {TopicPartition(topic, each % TOPIC_PARTITIONS): 0 for each in range(OFFSETS_OF_GROUP)}
    for problem in admin.alter_consumer_group_offsets(f"group-{group:04}", offsets, timeout_ms=CLIENT_MS).values():
        if problem is not None:
            raise problem


def _topic(number: int) -> str:
    return f"topic-{number:04}"


def _addresses(page: Page) -> Iterator[str]:
    """Return the addresses that are measured for a page."""
    plain = address_of(page, cluster="measured", topic=_topic(0), group="group-0000")
    yield plain
    for query in QUERIES.get(page.path, ()):
        yield f"{plain}?{query}"


@contextmanager
def _console(directory: Path, servers: str, protocol: str) -> Iterator[tuple[Browser, int]]:
    """Run a console for the cluster; somebody who uses it, and its process."""
    settings = {
        "clusters": "measured",
        "cluster.measured.bootstrap.servers": servers,
        "cluster.measured.wire.protocol": protocol,
    }
    before = {each.pid for each in psutil.Process().children()}
    directory.mkdir()
    with console(directory, settings) as port:
        (process,) = (each for each in psutil.Process().children() if each.pid not in before)
        yield Browser(port), process.pid


def _rows(
    browser: Browser, pid: int, node_pid: int, protocol: str, rounds: int, seconds: float
) -> Iterator[dict[str, Cell]]:
    until_s = time.perf_counter() + seconds
    browser.get("/")
    before_mib = resident_mib(pid)
    asked = [prefix + address for page in PAGES for address in _addresses(page) for prefix in ("", "/api")]
    for at, address in enumerate(asked):
        began_s = [process_cpu_s(each) for each in (pid, node_pid)]
        now_s = time.perf_counter()
        row, count = _row(browser, address, protocol, rounds, now_s + (until_s - now_s) / (len(asked) - at))
        console_s, node_s = (
            process_cpu_s(each) - before for each, before in zip((pid, node_pid), began_s, strict=True)
        )
        row |= {"CPU ms": console_s / count * 1_000, "node's CPU ms": node_s / count * 1_000}
        say(
            f"{protocol} {at + 1} of {len(asked)}, {row['page']}: {row['p50 ms']:.0f} ms, {row['p95 ms']:.0f} ms at"
            f" the 95th percentile; CPU {row['CPU ms']:.0f} ms, and {node_s / count * 1_000:.0f} ms in the node"
        )
        yield row | {"MiB": resident_mib(pid)}
    say(
        f"{protocol}: {before_mib:.0f} MiB before the first page of the cluster, {resident_mib(pid):.0f} MiB at the end"
    )


def _row(browser: Browser, address: str, protocol: str, rounds: int, stop_s: float) -> tuple[dict[str, Cell], int]:
    """Return the figures of a page, and how many requests they are of; few when the time is over."""
    took_ms: list[float] = []
    size_bytes, status = 0, 0
    while len(took_ms) <= rounds and (len(took_ms) < ROUNDS_MIN or time.perf_counter() < stop_s):
        began_s = time.perf_counter()
        answer = browser.get(address)
        took_ms.append((time.perf_counter() - began_s) * 1_000)
        size_bytes, status = len(answer.text), answer.status
    first_ms = took_ms.pop(0)
    took_ms.sort()
    return {
        "protocol": protocol,
        "page": address.replace("/clusters/measured", "") or "/",
        "requests": len(took_ms),
        "status": status,
        "KiB": size_bytes / 1024,
        "first ms": first_ms,
        "p50 ms": median(took_ms),
        "p95 ms": took_ms[len(took_ms) * 95 // 100],
        "longest ms": took_ms[-1],
    }, len(took_ms) + 1


def main(
    partitions: Annotated[int, typer.Option(min=TOPIC_PARTITIONS, help="Number of partitions.")] = 10_000,
    groups: Annotated[int, typer.Option(min=1, help="Number of groups.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=ROUNDS_MIN, help="Most requests for each page.")] = 30,
    seconds: Annotated[float, typer.Option(min=1, help="Time for all pages, after which each gets the fewest.")] = 200,
    output: Annotated[Output, typer.Option("--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Print a table with a line for each page, over each protocol."""
    raise_file_limit()
    rows: list[dict[str, Cell]] = []
    with (
        tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as directory,
        Cluster(1, overrides={"log.durability": "page-cache"}) as cluster,
    ):
        began_s = time.monotonic()
        with Admin(cluster.bootstrap_servers) as admin:
            _filled(admin, cluster.bootstrap_servers, partitions, groups)
        say(f"{partitions:,} partitions and {groups:,} groups are there after {time.monotonic() - began_s:.0f} s")
        for protocol, servers in (("grpc", cluster.bootstrap_servers), ("kafka", cluster.kafka_bootstrap_servers)):
            with _console(Path(directory) / protocol, servers, protocol) as (browser, pid):
                rows += _rows(browser, pid, cluster.node(1).pid, protocol, rounds, seconds / 2)
    print_report(Report(title="Pages of the console", durability="page cache", rows=rows, notes=_notes(rows)), output)


def _notes(rows: Sequence[dict[str, Cell]]) -> list[str]:
    over = [f"{each['protocol']} {each['page']}" for each in rows if float(each["p95 ms"] or 0) >= LIMIT_MS]
    most_mib = max(float(each["MiB"] or 0) for each in rows)
    return [
        "From the request to the last byte of its answer, on a connection of its own. The first one is apart: it fills",
        "what the console keeps for a few seconds.",
        "CPU: of the console, and of the node, for a request. MiB: resident memory of the console.",
        f"Load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: if higher, times are too long.",
        (
            f"Limits: {LIMIT_MS} ms at the 95th percentile, {LIMIT_MIB} MiB."
            f" Above the first: {', '.join(over) or 'none'}; most memory: {most_mib:.0f} MiB."
        ),
    ]


if __name__ == "__main__":
    typer.run(main)
