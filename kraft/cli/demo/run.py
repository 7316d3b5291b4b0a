"""Runs the demo, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from rich.console import Console

from kraft.cli.demo import delays, flights, interruption
from kraft.cli.demo.delays import Table
from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.flights import Flight
from kraft.cli.demo.nodes import NODES, started_nodes
from kraft.cli.demo.outage import Outage
from kraft.cli.demo.progress import progress_bar
from kraft.cli.demo.publishing import Publisher
from kraft.cli.demo.query import DelayQuery
from kraft.cli.demo.report import DemoReport
from kraft.cli.demo.spark import spark_session
from kraft.client import Admin, Consumer, Producer, TopicPartition, partition_for_key
from kraft.model.callbacks import Condition

TOPIC: Final = "flights"
PARTITIONS: Final = 6

FLIGHTS_AHEAD: Final = 500
"""Flights that warm up the query. It then keeps up with the producer, and is running during the kill."""

_BUFFER_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""Bounds what is sent and not yet stored, so that the kill halfway happens while flights are being stored."""

_LOOK_INTERVAL_S: Final = 0.02
_OUTAGE_DEADLINE_S: Final = 90.0
_QUERY_DEADLINE_S: Final = 180.0


def run(directory: Path, flights_max: int | None, java_version: str, console: Console) -> DemoReport:
    """Run the demo and print its steps. Files go to `directory`; nothing is left running."""
    began_s = time.monotonic()
    say = console.print
    with interruption.interruptible(), ExitStack() as running:
        try:
            say(f"Starting {NODES} nodes from {directory}/node-*.properties")
            cluster = running.enter_context(started_nodes(directory))
            # Before this process uses gRPC, because starting Spark forks it.
            say(f"Starting Spark on Java {java_version}")
            session = running.enter_context(spark_session(directory))
            say("Computing the expected figures from the file")
            expected = delays.from_file(flights_max)
            cluster.wait_ready()

            servers = cluster.bootstrap_servers
            say(f"Creating topic {TOPIC}: {PARTITIONS} partitions, {NODES} replicas, min.insync.replicas=2")
            admin = running.enter_context(Admin(servers))
            admin.create_topic(TOPIC, PARTITIONS, NODES, {"min.insync.replicas": "2"})
            consumer = running.enter_context(Consumer(servers))
            thread = running.enter_context(ThreadPoolExecutor(1))
            producer = running.enter_context(_producer(servers))

            say(f"Starting the streaming query on the first {FLIGHTS_AHEAD} flights")
            query = DelayQuery(session, servers, TOPIC, directory)
            publisher = Publisher(producer, TOPIC)
            to_publish = flights.read(flights_max)
            publisher.send(islice(to_publish, FLIGHTS_AHEAD))
            publisher.settle()
            _wait_for(query, _end_offsets(consumer))

            outage = Outage(cluster, admin, _partition_of_largest_carrier(expected), say)
            count = delays.total(expected.values()).flights
            publishing_began_s = time.monotonic()
            publishing = thread.submit(_publish, publisher, to_publish, count, outage)
            _watch(publishing, publisher, count, outage, query, console)
            publishing_s = time.monotonic() - publishing_began_s

            say("All flights acknowledged; waiting until every replica is in sync again")
            _wait_for_end_of(outage, query)
            end_offsets = _end_offsets(consumer)
            say(f"Waiting until the query has read all {sum(end_offsets.values()):,} records of the topic")
            _wait_for(query, end_offsets)
            counted = query.table()
            say("Stopping the query, Spark and the nodes")
            query.stop()
        finally:
            interruption.ignore_signals()
    return DemoReport(
        expected=expected,
        counted=counted,
        acknowledged=publisher.acknowledged,
        stored=sum(end_offsets.values()),
        flights_per_s=(publisher.acknowledged - FLIGHTS_AHEAD) / publishing_s,
        publishing_s=publishing_s,
        total_s=time.monotonic() - began_s,
        outage=outage.figures(publisher.acknowledgements),
    )


def _producer(servers: str) -> Producer:
    return Producer(servers, acks="all", compression_type="lz4", linger_ms=20, buffer_memory=_BUFFER_MEMORY_BYTES)


def _publish(publisher: Publisher, to_publish: Iterator[Flight], count: int, outage: Outage) -> None:
    """Publish all flights, with the kill halfway; runs in a thread of its own."""
    publisher.send(islice(to_publish, count // 2 - FLIGHTS_AHEAD))
    outage.begin()
    publisher.send(to_publish)
    publisher.settle()


def _watch(
    publishing: Future[None], publisher: Publisher, count: int, outage: Outage, query: DelayQuery, console: Console
) -> None:
    """Return when all flights are published. Raises the error of any part."""
    with progress_bar(console) as bar:
        task = bar.add_task("Publishing", total=count)
        while not publishing.done():
            bar.update(task, completed=publisher.acknowledged)
            outage.step()
            query.check()
            time.sleep(_LOOK_INTERVAL_S)
        publishing.result()
        bar.update(task, completed=publisher.acknowledged)


def _partition_of_largest_carrier(expected: Table) -> TopicPartition:
    """Return the partition of the airline with the most flights, which gets flights before and after the kill."""
    carriers = {group.carrier for group in expected}
    largest = max(carriers, key=lambda carrier: delays.total(delays.of_carrier(expected, carrier).values()).flights)
    return TopicPartition(TOPIC, partition_for_key(largest.encode(), PARTITIONS))


def _end_offsets(consumer: Consumer) -> dict[TopicPartition, int]:
    """Return the number of records of each partition: offsets begin at 0, and none is removed."""
    return consumer.end_offsets(TopicPartition(TOPIC, partition) for partition in range(PARTITIONS))


def _wait_for(query: DelayQuery, end_offsets: dict[TopicPartition, int]) -> None:
    _wait_until(lambda: query.has_read(end_offsets), _QUERY_DEADLINE_S, "the Spark query did not reach the end")


def _wait_for_end_of(outage: Outage, query: DelayQuery) -> None:
    def is_over() -> bool:
        outage.step()
        query.check()
        return outage.is_over

    _wait_until(is_over, _OUTAGE_DEADLINE_S, "the killed node did not become an in-sync replica again")


def _wait_until(is_done: Condition, deadline_s: float, otherwise: str) -> None:
    ends_at_s = time.monotonic() + deadline_s
    while not is_done():
        if time.monotonic() > ends_at_s:
            raise DemoFailed(f"{otherwise} within {deadline_s:.0f} s")
        time.sleep(_LOOK_INTERVAL_S)
