"""A follower's fetches keep to the settings of its node: how many bytes an answer brings, and how long it may take."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.server.replica.fetcher import NEWS_WAIT_MS_MAX
from kraft.server.replica.followed_partitions import PARTITIONS_PER_REQUEST_MAX
from tests.support.server.replicas import Broker, append_to, batch, until, values_in
from tests.support.virtual_time import run_virtually
from tests.unit.server.replica.fetching_replicas import CONFIG, Leader, fetching, followed, honest_answers, led

VALUES = [f"value {number:03}" for number in range(40)]
BATCH_BYTES = len(batch(VALUES[0]))


@pytest.mark.parametrize(("batches_each", "rounds"), [(1, 40), (4, 10), (100, 1)])
def test_an_answer_brings_no_more_of_a_partition_than_replica_fetch_max_bytes(
    batches_each: int, rounds: int, leader: Leader, follower: Broker
) -> None:
    brought: list[int] = []
    honest = honest_answers(leader.broker)

    async def noting(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        response = await honest(request)
        brought.extend(len(result.records) for result in response.partitions if result.records)
        return response

    async def scenario() -> None:
        led(leader, *VALUES)
        copy = followed(follower)
        leader.answer = noting
        # One byte less than another batch would need.
        bound = (batches_each + 1) * BATCH_BYTES - 1
        async with fetching(leader, follower, config=replace(CONFIG, fetch_bytes_max=bound)):
            await until(lambda: values_in(copy) == VALUES)

    run_virtually(scenario())
    assert brought == [min(batches_each, len(VALUES)) * BATCH_BYTES] * rounds


@pytest.mark.parametrize("wait_ms", [200, 500, 4_000])
def test_a_fetch_that_finds_nothing_waits_at_the_leader_for_replica_fetch_wait_max_ms(
    wait_ms: int, leader: Leader, follower: Broker
) -> None:
    asked_at_ms: list[float] = []
    honest = honest_answers(leader.broker)

    async def noting(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        asked_at_ms.append(asyncio.get_running_loop().time() * 1_000)
        return await honest(request)

    async def scenario() -> None:
        led(leader)
        followed(follower)
        leader.answer = noting
        async with fetching(leader, follower, config=replace(CONFIG, fetch_wait_max_ms=wait_ms)):
            await until(lambda: len(asked_at_ms) == 5, within_s=5 * wait_ms / 1_000)

    run_virtually(scenario())
    apart_ms = [later - earlier for earlier, later in pairwise(asked_at_ms)]
    assert apart_ms == pytest.approx([wait_ms] * 4, abs=20)


def test_a_record_for_one_of_many_partitions_is_not_an_answer_for_all(leader: Leader, follower: Broker) -> None:
    asked: list[tuple[list[int], int]] = []
    honest = honest_answers(leader.broker)

    async def noting(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        asked.append(([each.partition for each in request.partitions], request.max_wait_ms))
        return await honest(request)

    async def scenario() -> None:
        busy = led(leader)
        copy = followed(follower)
        for number in range(1, 10):
            led(leader, number=number)
            followed(follower, number=number)
        leader.answer = noting
        async with fetching(leader, follower):
            await until(lambda: len(asked) == 1)
            append_to(busy, batch("first"), 1)
            await until(lambda: values_in(copy) == ["first"])
            asked.clear()
            append_to(busy, batch("second"), 1)
            await until(lambda: values_in(copy) == ["first", "second"])

    run_virtually(scenario())
    partitions, wait_ms = asked[0]
    assert partitions == [0]
    assert wait_ms <= NEWS_WAIT_MS_MAX


def test_a_partition_with_records_all_the_time_is_not_fetched_with_idle_ones(leader: Leader, follower: Broker) -> None:
    """The end of a short wait often comes before the next record, which would then be an answer for the idle ones."""

    async def scenario() -> None:
        busy, copy = led(leader), followed(follower)
        for number in range(1, 10):
            led(leader, number=number)
            followed(follower, number=number)
        async with fetching(leader, follower):
            await until(lambda: len(leader.requests) == 1)
            for number in range(100):
                append_to(busy, batch(str(number)), 1)
                await asyncio.sleep(0.005)
            await until(lambda: len(values_in(copy)) == 100)

    run_virtually(scenario())
    of_busy = [[each.partition for each in request.partitions] for request in leader.requests[1:]]
    assert [numbers for numbers in of_busy if 0 in numbers and len(numbers) > 1] == []


def test_partitions_that_were_fetched_apart_are_fetched_together_again_when_all_are_idle(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        sources = [led(leader, number=number) for number in range(5)]
        copies = [followed(follower, number=number) for number in range(5)]
        async with fetching(leader, follower):
            await until(lambda: len(leader.requests) == 1)
            for number, source in enumerate(sources):
                await asyncio.sleep(0.037)
                append_to(source, batch(str(number)), 1)
            await until(lambda: all(len(values_in(copy)) == 1 for copy in copies))
            await asyncio.sleep(2)
            leader.requests.clear()
            await asyncio.sleep(2)

    run_virtually(scenario())
    assert [len(request.partitions) for request in leader.requests] == [5] * 4


def test_full_requests_do_not_end_at_one_moment(leader: Leader, follower: Broker) -> None:
    """Each takes a step for each of its partitions, and others would wait for all of them."""

    async def scenario() -> None:
        for number in range(4 * PARTITIONS_PER_REQUEST_MAX):
            led(leader, number=number)
            followed(follower, number=number)
        async with fetching(leader, follower):
            await until(lambda: len(leader.requests) == 4)

    run_virtually(scenario())
    waits_ms = [request.max_wait_ms for request in leader.requests[:4]]
    assert len(set(waits_ms)) == 4
    assert all(CONFIG.fetch_wait_max_ms * 3 / 4 <= wait_ms <= CONFIG.fetch_wait_max_ms for wait_ms in waits_ms)


def test_a_fetch_after_news_waits_no_longer_than_replica_fetch_wait_max_ms(leader: Leader, follower: Broker) -> None:
    async def scenario() -> None:
        source, copy = led(leader), followed(follower)
        async with fetching(leader, follower, config=replace(CONFIG, fetch_wait_max_ms=20)):
            for number in range(10):
                append_to(source, batch(str(number)), 1)
                await asyncio.sleep(0.013)
            await until(lambda: len(values_in(copy)) == 10)

    run_virtually(scenario())
    assert max(request.max_wait_ms for request in leader.requests) <= 20


def test_a_full_request_of_partitions_with_news_waits_no_longer_than_a_small_one(
    leader: Leader, follower: Broker
) -> None:
    async def scenario() -> None:
        sources = [led(leader, number=number) for number in range(PARTITIONS_PER_REQUEST_MAX)]
        copies = [followed(follower, number=number) for number in range(PARTITIONS_PER_REQUEST_MAX)]
        async with fetching(leader, follower):
            await until(lambda: len(leader.requests) == 1)
            leader.requests.clear()
            for source in sources:
                append_to(source, batch("value"), 1)
            await until(lambda: all(copy.replica_log.durable_end == 1 for copy in copies))
            await until(lambda: bool(leader.requests))

    run_virtually(scenario())
    assert len(leader.requests[0].partitions) == PARTITIONS_PER_REQUEST_MAX
    assert leader.requests[0].max_wait_ms <= NEWS_WAIT_MS_MAX
