"""Consumers that have read records which an unclean election loses; see also `unit/client/test_truncation.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial

import pytest

from kraft.client import Admin, Consumer, LogTruncated
from kraft.client.aio import Consumer as AsyncConsumer
from kraft.client.bulk.range_reader import RangeReader
from kraft.client.bulk.sockets import FetchSockets
from kraft.client.threads.loop_thread import shared_loop
from kraft.client.threads.ordinary_path import OrdinaryPath
from kraft.runtime.clock import SystemClock
from kraft.testing import Cluster
from tests.end_to_end.cluster.unclean_loss import LosingTopic
from tests.support.waiting import DEADLINE_S, until

SETTINGS = {"unclean.leader.election.interval.ms": "500", "auto.leader.rebalance.enable": "false"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def numbered(word: str, start: int, end: int) -> list[bytes]:
    return [b"%s %d" % (word.encode(), number) for number in range(start, end)]


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []

    def is_there() -> bool:
        values.extend(record.value for record in consumer.poll(timeout_ms=200))
        return len(values) >= count

    until(is_there, lambda: f"{len(values)} of {count} records came")
    return values


async def read_async(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(values) < count:
            values += [record.value for record in await consumer.poll()]
    return values


@pytest.mark.slow
@pytest.mark.parametrize("then", [5, 60])
def test_consumers_go_on_where_the_log_differs_or_raise_as_their_policy_says(
    cluster: Cluster, admin: Admin, then: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Afterwards the log is shorter than the consumer's position, or long enough to hide that its records differ."""
    topic = LosingTopic(cluster, admin, f"truncated-{then}", (1, 2))
    kept, lost, new = numbered("kept", 0, 20), numbered("lost", 20, 50), numbered("new", 20, 20 + then)
    with (
        Consumer(cluster.bootstrap_servers, auto_offset_reset="latest") as resets,
        Consumer(cluster.bootstrap_servers, auto_offset_reset="none") as raises,
    ):
        for consumer in (resets, raises):
            consumer.assign([topic.partition])
            consumer.seek(topic.partition, 0)
        topic.write(kept)
        topic.write_without_second(lost)
        assert read(resets, 50) == read(raises, 50) == kept + lost
        topic.lose()
        topic.write(new)
        with caplog.at_level(logging.WARNING, "kraft.client"):
            assert read(resets, then) == new
        assert "truncated to offset 20, and offsets 20 to 49" in caplog.text
        with pytest.raises(LogTruncated, match="truncated to offset 20") as raised:
            read(raises, 1)
        assert (raised.value.position, raised.value.divergent_offset) == (50, 20)
        raises.seek(topic.partition, 20)
        assert read(raises, then) == new
        assert raises.position(topic.partition) == 20 + then


async def test_the_asynchronous_face_does_the_same(cluster: Cluster, admin: Admin) -> None:
    topic = LosingTopic(cluster, admin, "truncated-async", (2, 3))
    kept, lost, new = numbered("kept", 0, 20), numbered("lost", 20, 50), numbered("new", 20, 80)
    async with (
        AsyncConsumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as resets,
        AsyncConsumer(cluster.bootstrap_servers, auto_offset_reset="none") as raises,
    ):
        for consumer in (resets, raises):
            consumer.assign([topic.partition])
            consumer.seek(topic.partition, 0)
        await asyncio.to_thread(topic.write, kept)
        await asyncio.to_thread(topic.write_without_second, lost)
        assert await read_async(resets, 50) == await read_async(raises, 50) == kept + lost
        await asyncio.to_thread(topic.lose)
        await asyncio.to_thread(topic.write, new)
        assert await read_async(resets, 60) == new
        with pytest.raises(LogTruncated, match="truncated to offset 20"):
            await read_async(raises, 1)


def test_a_bulk_read_that_has_read_what_was_lost_says_so(cluster: Cluster, admin: Admin) -> None:
    topic = LosingTopic(cluster, admin, "truncated-bulk", (3, 1))
    topic.write(numbered("kept", 0, 20))
    topic.write_without_second(numbered("lost", 20, 50))
    sockets = FetchSockets("tests", SystemClock())
    consumer = AsyncConsumer(cluster.bootstrap_servers)
    path = OrdinaryPath(shared_loop(), consumer, timeout_ms=int(DEADLINE_S * 1_000))
    reading = RangeReader(path, sockets, topic.partition, max_wait_ms=500, reads_committed=False).read(0, 80)
    while next(reading).next_offset < 50:
        pass
    topic.lose()
    topic.write(numbered("new", 20, 80))
    with pytest.raises(LogTruncated, match="truncated to offset 20") as raised:
        list(reading)
    assert (raised.value.position, raised.value.divergent_offset) == (50, 20)
    sockets.close()
    shared_loop().run(consumer.close)


@pytest.mark.slow
def test_a_clean_election_repeats_nothing_and_skips_nothing(cluster: Cluster, admin: Admin) -> None:
    """This includes a leader that had written nothing when the next one was elected."""
    topic = LosingTopic(cluster, admin, "clean", (1, 2))
    with Consumer(cluster.bootstrap_servers, auto_offset_reset="latest") as consumer:
        consumer.assign([topic.partition])
        topic.write(numbered("before", 0, 10))
        consumer.seek_to_end()
        assert consumer.position(topic.partition) == 10
        for turn in range(3):
            leader_id = topic.state.leader_id
            cluster.node(leader_id).kill()
            until(partial(_is_led_by_another, topic, leader_id), lambda: topic.state)
            cluster.start()
            cluster.wait_ready()
            until(lambda: len(topic.state.isr_nodes) == 2, lambda: topic.state)
            if turn:
                topic.write(numbered("turn", 0, turn))
                assert read(consumer, turn) == numbered("turn", 0, turn)
            else:
                assert consumer.poll(timeout_ms=2_000) == []
        assert consumer.position(topic.partition) == 13


def _is_led_by_another(topic: LosingTopic, leader_id: int) -> bool:
    return topic.state.leader_id not in (-1, leader_id)
